//! Temporary folders, and the removal of what killed processes left behind: programs, control groups, folders.
//!
//! Never touches anything of a live process or of another user.

use std::env::temp_dir;
use std::io;

use bytegauge_sys::owner::{OwnedFolder, remove_abandoned_folders};
use bytegauge_sys::supervisor;

/// The start of every folder's name.
const NAME: &str = "bytegauge-";

/// Things that were left behind, and are gone now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Processes that were killed. The ports that they held are free again.
    pub processes: u64,
    /// Control groups and folders that were removed.
    pub folders: u64,
}

impl Leftovers {
    /// Ends and removes whatever a killed process of this user left behind.
    pub fn remove() -> Leftovers {
        let processes = supervisor::end_abandoned_programs();
        let folders = supervisor::remove_abandoned_groups() + remove_abandoned_folders(&temp_dir(), NAME);
        Leftovers { processes, folders }
    }
}

/// A temporary folder of this process.
pub fn folder() -> io::Result<OwnedFolder> {
    OwnedFolder::create_in(&temp_dir(), NAME)
}
