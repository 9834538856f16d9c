//! Who measures a session: a lock on a file beside the store, held for as long as its process lives.
//!
//! The kernel lets go of it however the process ends, so a session that was cut off by `kill -9` can be
//! resumed at once, and one that is being measured cannot be measured twice.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bytegauge_model::SessionId;

use crate::Store;
use crate::error::StoreError;

/// The right to measure a session. Dropping it gives it back.
#[derive(Debug)]
pub struct Owner {
    path: PathBuf,
    // Held, not read: closing the file unlocks it.
    _locked: Option<File>,
}

impl Store {
    /// Takes the right to measure a session.
    ///
    /// # Errors
    /// [`StoreError::Owned`] while another process has it.
    pub fn own(&self, session: SessionId) -> Result<Owner, StoreError> {
        let path = lock_path(self.path(), session);
        for _ in 0..TRIES {
            // A folder or a file system without locks has no second opinion: measuring goes on.
            let Ok(file) = File::options().create(true).truncate(false).write(true).open(&path) else {
                return Ok(Owner { path, _locked: None });
            };
            match file.try_lock() {
                // Whoever sweeps may have removed it between opening and locking: then nobody else would see the lock.
                Ok(()) if is_at(&file, &path) => return Ok(Owner { path, _locked: Some(file) }),
                Ok(()) => {}
                // A sweep holds it for a moment, a session for as long as it lives.
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(_)) => return Ok(Owner { path, _locked: None }),
            }
        }
        Err(StoreError::Owned { session })
    }

    /// Whether a process measures a session just now, asked without taking the right to. Between a session's first row
    /// and its lock there is a moment in which nobody seems to; where there are no locks, nobody ever does.
    pub fn is_owned(&self, session: SessionId) -> bool {
        let Ok(file) = File::open(lock_path(self.path(), session)) else { return false };
        // An owner who comes at this moment tries again.
        !matches!(file.try_lock_shared(), Ok(()))
    }
}

/// How often a lock is tried before it counts as another session's, and the pause between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Removes the lock files that sessions left behind which were killed: those whose lock can be had.
pub(crate) fn sweep(store: &Path) {
    let Some(name) = store.file_name() else { return };
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let rest = found.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b".session-"));
        let number = rest.and_then(|rest| rest.strip_suffix(b".lock"));
        if number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
            && let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
            && is_at(&file, &entry.path())
        {
            // Still locked while it is removed: nobody is let in meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()));
    number(file.metadata()).is_some_and(|ours| number(path.metadata()) == Some(ours))
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Left behind it does no harm; the next owner locks it again.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(store: &Path, session: SessionId) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(format!(".session-{session}.lock"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("results.db")).unwrap();
        let first = store.own(SessionId(1)).unwrap();
        assert!(matches!(store.own(SessionId(1)), Err(StoreError::Owned { session: SessionId(1) })));
        assert!(store.own(SessionId(2)).is_ok());
        assert!(store.is_owned(SessionId(1)) && !store.is_owned(SessionId(2)));
        drop(first);
        assert!(!store.is_owned(SessionId(1)));
        assert!(store.own(SessionId(1)).is_ok());
        assert!(!folder.path().join("results.db.session-1.lock").exists());
    }

    #[test]
    fn locks_that_the_killed_left_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let store = Store::open(&path).unwrap();
        let held = store.own(SessionId(1)).unwrap();
        let (left, other) = (lock_path(&path, SessionId(2)), folder.path().join("results.db.session-x.lock"));
        fs::write(&left, "").unwrap();
        fs::write(&other, "").unwrap();
        let second = Store::open(&path).unwrap();
        assert!(lock_path(&path, SessionId(1)).exists() && !left.exists() && other.exists());
        assert!(matches!(second.own(SessionId(1)), Err(StoreError::Owned { .. })), "it is owned as before");
        drop(held);
        assert!(second.own(SessionId(1)).is_ok());
    }
}
