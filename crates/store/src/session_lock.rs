//! Locks a session for the process that measures it, with a lock file in the folder of the store.
//!
//! The kernel releases the lock however the process ends. So a session that was killed can be resumed at once, and a
//! running session cannot be measured twice.
//!
//! Also detects that the file was deleted, replaced or cut short.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use bytegauge_model::SessionId;
use bytegauge_sys::new_file::open_lock;
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::Store;
use crate::error::StoreError;

/// The right to measure a session, released on drop.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    // Closing the file releases the lock.
    _locked: Option<File>,
}

impl Store {
    /// Acquires the right to measure a session.
    ///
    /// # Errors
    /// [`StoreError::Owned`] while another process has it.
    pub fn own(&self, session: SessionId) -> Result<SessionLock, StoreError> {
        let path = lock_path(self.path(), session);
        for _ in 0..TRIES {
            // Without lock files (read-only folder, file system without locks) measuring continues unlocked.
            let Ok(file) = open_lock(&path) else {
                return Ok(SessionLock { path, _locked: None });
            };
            match file.try_lock() {
                // A sweep may have removed the file between opening and locking; then other processes would not see the
                // lock.
                Ok(()) if is_at(&file, &path) => return Ok(SessionLock { path, _locked: Some(file) }),
                Ok(()) => {}
                // A sweep holds it briefly, a session for its lifetime.
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(_)) => return Ok(SessionLock { path, _locked: None }),
            }
        }
        Err(StoreError::Owned(session))
    }

    /// Whether a process is measuring a session, without acquiring the right. Returns `false` between the creation of a
    /// session's row and its lock, and always where locks do not exist.
    pub fn is_owned(&self, session: SessionId) -> bool {
        let Ok(file) = File::open(lock_path(self.path(), session)) else { return false };
        // An owner that starts at this moment tries again.
        !matches!(file.try_lock_shared(), Ok(()))
    }
}

/// The number of attempts before a lock counts as another session's, and the pause between them.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Removes the lock files of killed sessions: those that can be locked.
pub(crate) fn sweep(store: &Path) {
    let store = &at_its_file(store);
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
            // The lock is held during removal, so no session starts meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()));
    number(file.metadata()).is_some_and(|ours| number(path.metadata()) == Some(ours))
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // A remaining file is harmless; the next owner locks it again.
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(store: &Path, session: SessionId) -> PathBuf {
    let mut name = at_its_file(store).into_os_string();
    name.push(format!(".session-{session}.lock"));
    name.into()
}

/// The path of the file to which a link leads: whatever name a process was given, there is one lock.
fn at_its_file(store: &Path) -> PathBuf {
    fs::canonicalize(store).unwrap_or_else(|_| store.to_owned())
}

// Detects that the file was deleted, replaced or cut short. An open database continues to accept transactions then,
// and all of them would be lost when the process ends.

/// The change of a file since it was `seen`, reported once; a file that was not seen is not watched.
pub(crate) fn change(seen: &mut Option<Metadata>, path: &Path) -> Option<&'static str> {
    let before = seen.take()?;
    let Ok(now) = path.metadata() else { return Some("deleted") };
    if (before.dev(), before.ino()) != (now.dev(), now.ino()) {
        return Some("replaced");
    }
    // bytegauge never shortens the file.
    if now.len() < before.len() {
        return Some("cut short");
    }
    *seen = Some(now);
    None
}

/// Writes the content of the open database to a new file in the same folder.
pub(crate) fn save(connection: &Connection, path: &Path) -> Result<PathBuf, String> {
    let names = (1..100).map(|number| {
        let mut name: OsString = path.as_os_str().to_owned();
        name.push(format!(".saved-{number}"));
        PathBuf::from(name)
    });
    let free = names.into_iter().find(|name| !name.exists()).ok_or("too many files were saved already")?;
    // SQLite takes a path as bytes.
    let name = ToSqlOutput::Borrowed(ValueRef::Text(free.as_os_str().as_bytes()));
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| error.to_string())?;
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("results.db")).unwrap();
        let first = store.own(SessionId(1)).unwrap();
        assert!(matches!(store.own(SessionId(1)), Err(StoreError::Owned(SessionId(1)))));
        assert!(store.own(SessionId(2)).is_ok());
        assert!(store.is_owned(SessionId(1)) && !store.is_owned(SessionId(2)));
        drop(first);
        assert!(!store.is_owned(SessionId(1)));
        assert!(store.own(SessionId(1)).is_ok());
        assert!(!folder.path().join("results.db.session-1.lock").exists());
    }

    #[test]
    fn locks_of_killed_sessions_are_removed() {
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
