//! What can go wrong with a store, in words that name the next step.
//!
//! SQLite's result codes are translated here and nowhere else. Nothing is retried here: a lock was waited for before an
//! error reaches this file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytegauge_model::{CellId, GroupId, SessionId};
use rusqlite::{ErrorCode, ffi};
use thiserror::Error;

use crate::import::ImportError;

/// Why a store could not be opened, read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder of the file does not exist and cannot be made.
    #[error("cannot create the folder {folder} for the results: {source}: choose another file with --store")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is no file keeps nothing.
    #[error("--store `{}` is {kind}, which keeps no results: give the path of a file, or leave it out", path.display())]
    NoFile {
        /// What was given.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file was taken away while it was written.
    #[error("the results at {path} were {how} while they were written: {}", rescue(.saved))]
    Gone {
        /// The file.
        path: PathBuf,
        /// What happened to it.
        how: &'static str,
        /// Where everything that was measured is now, or why it is nowhere.
        saved: Result<PathBuf, String>,
    },
    /// The file cannot be opened or made.
    #[error("cannot open the results at {path}: {reason}: check its permissions, or choose another file with --store")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The path is longer than the file system takes.
    #[error("the name of {path} is too long for its file system: choose a shorter one with --store")]
    NameTooLong {
        /// The file.
        path: PathBuf,
    },
    /// Nothing was measured into this file yet.
    #[error("no results yet at {}: run `bytegauge run buffer-size` first, or name another file with --store", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
    },
    /// The file is of another kind, or another program's database.
    #[error("{path} is not a result store of bytegauge ({reason}): choose another file with --store, or move it away")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
    /// The database contradicts itself.
    #[error(
        "the results at {path} are damaged ({reason}): move the file away and measure again; \
         `sqlite3 {path} .recover` may save what is left of it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Written by a later version than this one.
    #[error(
        "the results at {path} were written by a newer bytegauge (schema {found}, this one knows {known}): \
         upgrade bytegauge, or choose another file with --store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema version found.
        found: i64,
        /// The newest schema version known.
        known: i64,
    },
    /// Another process measures this session now.
    #[error("session {session} is being measured by another process: wait for it, or stop it first")]
    Owned {
        /// The session.
        session: SessionId,
    },
    /// No space left.
    #[error(
        "no space left to write {path}: free some (`df` and `df -i` tell of bytes and of files), or choose another file with --store; \
         everything recorded before is kept, and --resume goes on from there"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The system took nothing more.
    #[error(
        "cannot write {path} ({reason}): if files are limited here (`ulimit -f`), raise the limit, else look after the disk, \
         or choose another file with --store; everything recorded before is kept, and --resume goes on from there"
    )]
    CannotWrite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// Another process holds the lock for longer than we wait.
    #[error(
        "{path} is locked by another process (`fuser {path}` names it): wait for it to end, or choose another file with --store"
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file may be read only.
    #[error("{path} may only be read: make it and its folder writable, or choose another file with --store")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// No session of that number.
    #[error("no session {id} in {path}: `bytegauge sessions` lists them")]
    NoSession {
        /// The number asked for.
        id: SessionId,
        /// The file.
        path: PathBuf,
    },
    /// A group that was never added.
    #[error("session {session} has no group {group}: `bytegauge export {session} --format jsonl` lists its groups")]
    NoGroup {
        /// The session.
        session: SessionId,
        /// The name asked for.
        group: GroupId,
    },
    /// A cell that was never added.
    #[error("session {session} has no cell {cell}: `bytegauge export {session} --format jsonl` lists its cells")]
    NoCell {
        /// The session.
        session: SessionId,
        /// The name asked for.
        cell: CellId,
    },
    /// A value that has no text form.
    #[error("a value cannot be written as JSON: {0}: please report this as a bug")]
    Json(#[from] serde_json::Error),
    /// The export's reader went away or its disk is full.
    #[error("cannot write the export: {0}: check the output file and its disk")]
    Export(#[from] io::Error),
    /// The data to import were not understood.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Anything else that SQLite reports.
    #[error("the result store failed: {0}: choose another file with --store, and please report this as a bug")]
    Sql(#[from] rusqlite::Error),
}

fn rescue(saved: &Result<PathBuf, String>) -> String {
    match saved {
        Ok(path) => format!(
            "everything measured is kept in {0}: see it with `bytegauge --store {0} report`, and go on with --resume there",
            path.display()
        ),
        Err(reason) => format!("what was measured could not be saved ({reason}): measure again"),
    }
}

impl From<csv::Error> for StoreError {
    fn from(error: csv::Error) -> Self {
        StoreError::Export(error.into())
    }
}

/// Why a file cannot be opened: SQLite does not say, so it is tried once more.
fn unopened(path: PathBuf, text: String) -> StoreError {
    if path.is_dir() {
        return StoreError::CannotOpen { path, reason: "it is a folder".into() };
    }
    let was_there = path.exists();
    match File::options().write(true).create(true).truncate(false).open(&path) {
        Ok(_) => {
            if !was_there {
                let _ = fs::remove_file(&path);
            }
            StoreError::CannotOpen { path, reason: text }
        }
        // No room for a name: ENOSPC speaks of inodes as well (open(2)).
        Err(error) if error.kind() == io::ErrorKind::StorageFull => StoreError::DiskFull { path },
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => StoreError::NameTooLong { path },
        Err(error) => StoreError::CannotOpen { path, reason: error.to_string() },
    }
}

/// Gives an error of SQLite the path and the next step.
pub(crate) fn explain(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Sql(error) = error else { return error };
    let path = path.to_owned();
    let reason = match &error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            let text = message.clone().unwrap_or_else(|| failure.to_string());
            match failure.code {
                ErrorCode::DiskFull => return StoreError::DiskFull { path },
                // The index of the log is a mapped file; on a full disk growing it fails with this code.
                ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
                    return StoreError::DiskFull { path };
                }
                // A full disk has a code of its own: this is EFBIG, EIO and the like (write(2)).
                ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_WRITE => {
                    return StoreError::CannotWrite { path, reason: text };
                }
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => return StoreError::Locked { path },
                ErrorCode::ReadOnly => return StoreError::ReadOnly { path },
                ErrorCode::CannotOpen => {
                    return unopened(path, text);
                }
                ErrorCode::PermissionDenied => return StoreError::CannotOpen { path, reason: text },
                ErrorCode::NotADatabase => return StoreError::NotAStore { path, reason: text },
                ErrorCode::DatabaseCorrupt => text,
                _ => return StoreError::Sql(error),
            }
        }
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => cause.to_string(),
        rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::IntegralValueOutOfRange(..) => error.to_string(),
        _ => return StoreError::Sql(error),
    };
    StoreError::Damaged { path, reason }
}
