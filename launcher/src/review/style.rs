//! Colour, where it is wanted: on a terminal that has some, and not against `NO_COLOR`
//! (no-color.org).

use std::io::IsTerminal;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Plain text.
    Plain,
    /// Colours of ECMA-48.
    Coloured,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// A headline.
    Head,
    /// Where lines are.
    Place,
    /// A line that comes.
    Added,
    /// A line that goes.
    Removed,
    /// What needs a look.
    Warning,
}

impl Style {
    /// What standard output can show.
    #[must_use]
    pub fn of_stdout() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if std::io::stdout().is_terminal() && !is_dumb && !unwanted {
            Self::Coloured
        } else {
            Self::Plain
        }
    }

    pub(super) fn paint(self, ink: Ink, text: &str) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Head => "1",
            Ink::Place => "36",
            Ink::Added => "32",
            Ink::Removed => "31",
            Ink::Warning => "33",
        };
        format!("\x1b[{code}m{text}\x1b[m")
    }
}
