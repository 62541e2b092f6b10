//! Showing a person what a session changed, asking, and saying what became of it.
//!
//! Everything that an agent had a hand in, names and content alike, is escaped before it reaches a
//! terminal.

mod ask;
mod desk;
mod hunks;
mod json;
mod pager;
mod result;
mod sheet;
mod style;
mod text;
mod words;

pub use ask::ask;
pub use desk::{Desk, Looking, settle};
pub use json::as_json;
pub use pager::show;
pub use result::{landed, undone};
pub use sheet::{Sheet, of_differences, of_frozen, of_plan};
pub use style::Style;
pub use text::{as_stat, as_text, sensitive, summary};
pub use words::failed;
