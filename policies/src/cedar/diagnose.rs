//! Cedar's diagnostics as one line with a place.

use cedar_policy::ffi::DetailedError;

use super::PolicyError;

/// The first place that a diagnostic names, as line and column of `source`.
pub(super) fn error(source_name: &str, source: &str, detail: &DetailedError) -> PolicyError {
    at(source_name, source, offset(detail), words(detail))
}

/// A mistake `offset` bytes from the start of `source`.
pub(super) fn at(source_name: &str, source: &str, offset: usize, message: String) -> PolicyError {
    let before = source.get(..offset).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    PolicyError::Invalid {
        source_name: source_name.to_owned(),
        line: before.matches('\n').count() + 1,
        column,
        message,
    }
}

/// Where a diagnostic points, in bytes from the start; the first mistake is the one to tell.
pub(super) fn offset(detail: &DetailedError) -> usize {
    detail
        .source_locations
        .first()
        .map_or(0, |label| label.loc.start)
}

/// A mistake of the text as a whole.
pub(super) fn plain(source_name: &str, message: String) -> PolicyError {
    PolicyError::Invalid {
        source_name: source_name.to_owned(),
        line: 1,
        column: 1,
        message,
    }
}

fn words(detail: &DetailedError) -> String {
    let label = detail
        .source_locations
        .first()
        .and_then(|label| label.label.as_deref());
    let parts = [Some(detail.message.as_str()), label, detail.help.as_deref()];
    parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}
