//! From a session to the project: `diff`, `review`, `land` and `undo` as a person uses them.

mod asking;
mod commits;
mod landing;
mod showing;
