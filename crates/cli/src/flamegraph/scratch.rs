//! A folder for what perf writes, which may be much: within the user's own, and gone with this program, however it ends.
//!
//! Whoever is killed removes nothing, so the next one does: a folder whose lock nobody holds is nobody's.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// What the names of all of them begin with.
const NAME: &str = ".bytegauge-perf-";

/// A folder, which is removed with this value.
pub struct Scratch {
    folder: TempDir,
    /// Locked as long as this process lives (flock(2)).
    _held: File,
}

impl Scratch {
    /// Makes one in a folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn within(folder: &Path) -> io::Result<Scratch> {
        let folder = tempfile::Builder::new().prefix(NAME).tempdir_in(folder)?;
        let held = File::open(folder.path())?;
        held.lock()?;
        Ok(Scratch { folder, _held: held })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes those whose makers were killed.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        let is_nobodys = || File::open(entry.path()).is_ok_and(|found| found.try_lock().is_ok());
        if is_one && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_nobodys() {
            // Somebody else's stays, and is told of by whoever looks there.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_by_who_was_killed_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (left, other) = (folder.path().join(format!("{NAME}1")), folder.path().join("flames"));
        for path in [&left, &other] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("perf.data"), "x").unwrap();
        }
        let ours = Scratch::within(folder.path()).unwrap();
        remove_abandoned(folder.path());
        assert!(!left.exists() && other.exists() && ours.path().exists());
        let path = ours.path().to_owned();
        drop(ours);
        assert!(!path.exists());
    }
}
