//! Errors of the store, each with the next step.
//!
//! SQLite's result codes are translated only here. Nothing is retried here: SQLite waited for locks before an error
//! reaches this file.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use bytegauge_model::{CellId, GroupId, SessionId};
use rusqlite::{ErrorCode, ffi};
use thiserror::Error;

/// Why a store could not be opened, read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder of the file does not exist and cannot be made.
    #[error("cannot create the folder {folder} for the results: {source}: choose another file with --store")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The path is not a regular file, so it keeps no results.
    #[error("--store `{}` is {kind}, which keeps no results: give the path of a file, or leave it out", path.display())]
    NoFile {
        /// The given path.
        path: PathBuf,
        /// The kind of file.
        kind: &'static str,
    },
    /// The file was deleted, replaced or cut short during writing.
    #[error("the results at {path} were {how} while they were written: {}", rescue(.saved))]
    Gone {
        /// The file.
        path: PathBuf,
        /// The change: deleted, replaced or cut short.
        how: &'static str,
        /// The file that now holds all measurements, or why they could not be saved.
        saved: Result<PathBuf, String>,
    },
    /// The file cannot be opened or made.
    #[error("cannot open the results at {path}: {reason}: check its permissions, or choose another file with --store")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The path is longer than the file system allows.
    #[error("the name of {path} is too long for its file system: choose a shorter one with --store")]
    NameTooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no results yet.
    #[error("no results yet at {}: run `bytegauge run buffer-size` first, or name another file with --store", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
    },
    /// The file has another format, or belongs to another program.
    #[error("{path} is not a result store of bytegauge ({reason}): choose another file with --store, or move it away")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The evidence.
        reason: String,
    },
    /// The database is inconsistent.
    #[error(
        "the results at {path} are damaged ({reason}): move the file away and measure again; \
         `sqlite3 {path} .recover` may save what is left of it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        reason: String,
    },
    /// Written by a later version, or before the first release.
    #[error(
        "the results at {path} have schema {found}, and this version of bytegauge reads {} to {}: use the version that wrote them, or \
         choose another file with --store",
        .known.start(), .known.end()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The schema version found.
        found: i64,
        /// Those that are known.
        known: RangeInclusive<i64>,
    },
    /// Another process is measuring this session.
    #[error("session {session} is being measured by another process: wait for it, or stop it first")]
    Owned {
        /// The session.
        session: SessionId,
    },
    /// No space left.
    #[error(
        "no space left to write {path}: free some (`df` shows free bytes, `df -i` free inodes), or choose another file with --store; \
         everything recorded before is kept, and --resume goes on from there"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// A write failed.
    #[error(
        "cannot write {path} ({reason}): if the file size is limited (`ulimit -f`), raise the limit, otherwise check the disk, \
         or choose another file with --store; everything recorded before is kept, and --resume goes on from there"
    )]
    CannotWrite {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        reason: String,
    },
    /// Another process holds the lock for longer than the store waits.
    #[error(
        "{path} is locked by another process (`fuser {path}` names it): wait for it to end, or choose another file with --store"
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is read-only.
    #[error("{path} is read-only: make it and its folder writable, or choose another file with --store")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// There is no session with this number.
    #[error("no session {id} in {path}: `bytegauge report list` lists them")]
    NoSession {
        /// The requested number.
        id: SessionId,
        /// The file.
        path: PathBuf,
    },
    /// A group that was never added.
    #[error(
        "session {session} has no group {group}: `bytegauge report export {session} --format jsonl` lists its groups"
    )]
    NoGroup {
        /// The session.
        session: SessionId,
        /// The requested name.
        group: GroupId,
    },
    /// A cell that was never added.
    #[error("session {session} has no cell {cell}: `bytegauge report export {session} --format jsonl` lists its cells")]
    NoCell {
        /// The session.
        session: SessionId,
        /// The requested name.
        cell: CellId,
    },
    /// A value that cannot be written as JSON.
    #[error("a value cannot be written as JSON: {0}: please report this as a bug")]
    Json(#[from] serde_json::Error),
    /// The output of the export cannot be written.
    #[error("cannot write the export: {0}: check the output file and its disk")]
    Export(#[from] io::Error),
    /// Any other error of SQLite.
    #[error("the result store failed: {0}: choose another file with --store, and please report this as a bug")]
    Sql(#[from] rusqlite::Error),
}

fn rescue(saved: &Result<PathBuf, String>) -> String {
    match saved {
        Ok(path) => format!(
            "everything measured is kept in {0}: see it with `bytegauge --store {0} report`, and continue with --resume there",
            path.display()
        ),
        Err(reason) => format!("the measurements could not be saved ({reason}): measure again"),
    }
}

impl From<csv::Error> for StoreError {
    fn from(error: csv::Error) -> Self {
        StoreError::Export(error.into())
    }
}

/// Finds out why a file cannot be opened, by opening it again: SQLite's error has no reason.
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
        // No room for a directory entry: ENOSPC covers inodes as well (open(2)).
        Err(error) if error.kind() == io::ErrorKind::StorageFull => StoreError::DiskFull { path },
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => StoreError::NameTooLong { path },
        Err(error) => StoreError::CannotOpen { path, reason: error.to_string() },
    }
}

/// Adds the path and the next step to an error of SQLite.
pub(crate) fn explain(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Sql(error) = error else { return error };
    let path = path.to_owned();
    let reason = match &error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            let text = message.clone().unwrap_or_else(|| failure.to_string());
            match failure.code {
                ErrorCode::DiskFull => return StoreError::DiskFull { path },
                // The index of the log is a mapped file; growing it on a full disk fails with this code.
                ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
                    return StoreError::DiskFull { path };
                }
                // A full disk has its own code; this one covers EFBIG, EIO and others (write(2)).
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
                // By the progress handler: a query took too long for a file of this size.
                ErrorCode::OperationInterrupted => "a table refers to its own pages again and again".into(),
                // Mistakes of this program, or no memory.
                ErrorCode::ApiMisuse | ErrorCode::ParameterOutOfRange | ErrorCode::OutOfMemory => {
                    return StoreError::Sql(error);
                }
                // Pages, JSON or values that nothing of this program writes.
                _ => text,
            }
        }
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => cause.to_string(),
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => error.to_string(),
        _ => return StoreError::Sql(error),
    };
    StoreError::Damaged { path, reason }
}
