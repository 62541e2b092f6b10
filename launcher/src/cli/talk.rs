//! Standard output is data, standard error is talk.

use std::io::{self, Write};

use crate::error::CommandError;

/// Writes data to standard output. A reader that went away (`| head`) is not an error.
///
/// # Errors
/// [`CommandError::Io`] when the stream refuses, such as on a full disk.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Io {
            doing: "writing to standard output".into(),
            source: error,
        }),
        _ => Ok(()),
    }
}

/// Writes one line to standard error.
pub fn say(line: &str) {
    // Talk that nobody can hear must not change what the command does.
    let _unheard = writeln!(io::stderr().lock(), "{line}");
}
