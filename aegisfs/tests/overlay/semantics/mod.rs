//! What an ordinary local file system does, through the mount; one file for each kind of thing.

mod devices;
