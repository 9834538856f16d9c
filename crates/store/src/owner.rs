//! Who measures a session: a lock on a file beside the store, held for as long as its process lives.
//!
//! The kernel lets go of it however the process ends, so a session that was cut off by `kill -9` can be
//! resumed at once, and one that is being measured cannot be measured twice.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

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
        // A folder or a file system without locks has no second opinion: measuring goes on.
        let Ok(file) = File::options().create(true).truncate(false).write(true).open(&path) else {
            return Ok(Owner { path, _locked: None });
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(StoreError::Owned { session }),
            Ok(()) => Ok(Owner { path, _locked: Some(file) }),
            Err(TryLockError::Error(_)) => Ok(Owner { path, _locked: None }),
        }
    }
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
        drop(first);
        assert!(store.own(SessionId(1)).is_ok());
        assert!(!folder.path().join("results.db.session-1.lock").exists());
    }
}
