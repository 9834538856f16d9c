//! Errors of the store, each with the next step.
//!
//! SQLite's result codes are translated only here. Nothing is retried here: SQLite waited for locks before an error
//! reaches this file.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use bytegauge_model::SessionId;
use rusqlite::{ErrorCode, ffi};
use thiserror::Error;

/// Why a store could not be opened, read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder of the file does not exist and cannot be made.
    #[error("cannot create the folder {0} for the results: {1}: choose another file with --store")]
    Folder(PathBuf, io::Error),
    /// The path is that of something else, such as a device, so it keeps no results.
    #[error("--store `{0}` is {1}, which keeps no results: give the path of a file, or leave it out")]
    NoFile(PathBuf, &'static str),
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
    /// The file cannot be opened or made, for a reason.
    #[error("cannot open the results at {0}: {1}: check its permissions, or choose another file with --store")]
    CannotOpen(PathBuf, String),
    /// The path is longer than the file system allows.
    #[error("the name of {0} is too long for its file system: choose a shorter one with --store")]
    NameTooLong(PathBuf),
    /// The file holds no results yet.
    #[error("no results yet at {0}: run `bytegauge run buffer-size` first, or name another file with --store")]
    NoResults(PathBuf),
    /// The file has another format, or belongs to another program, by some evidence.
    #[error("{0} is not a result store of bytegauge ({1}): choose another file with --store, or move it away")]
    NotAStore(PathBuf, String),
    /// The database is inconsistent.
    #[error(
        "the results at {0} are damaged ({1}): move the file away and measure again; \
         `sqlite3 {0} .recover` may save what is left of it"
    )]
    Damaged(PathBuf, String),
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
    #[error("session {0} is being measured by another process: wait for it, or stop it first")]
    Owned(SessionId),
    /// No space left.
    #[error(
        "no space left to write {0}: free some (`df` shows free bytes, `df -i` free inodes), raise the limit of file sizes (`ulimit -f`), or choose another file with --store; \
         everything recorded before is kept, and --resume goes on from there"
    )]
    DiskFull(PathBuf),
    /// A write failed, with SQLite's message.
    #[error(
        "cannot write {0} ({1}): if the file size is limited (`ulimit -f`), raise the limit, otherwise check the disk, \
         or choose another file with --store; everything recorded before is kept, and --resume goes on from there"
    )]
    CannotWrite(PathBuf, String),
    /// Another process holds the lock for longer than the store waits.
    #[error(
        "{0} is locked by another process (`fuser {0}` names it): wait for it to end, or choose another file with --store"
    )]
    Locked(PathBuf),
    /// The file is read-only.
    #[error("{0} is read-only: make it and its folder writable, or choose another file with --store")]
    ReadOnly(PathBuf),
    /// There is no session with this number.
    #[error("no session {0} in {1}: `bytegauge report list` lists them")]
    NoSession(SessionId, PathBuf),
    /// A group or cell that was never added to the session.
    #[error("session {0} has no {1}: `bytegauge report export {0} --format jsonl` lists its groups and cells")]
    NoMember(SessionId, String),
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
        return StoreError::CannotOpen(path, "it is a folder".into());
    }
    let was_there = path.exists();
    match File::options().write(true).create(true).truncate(false).open(&path) {
        Ok(_) => {
            if !was_there {
                let _ = fs::remove_file(&path);
            }
            StoreError::CannotOpen(path, text)
        }
        // No room for a directory entry: ENOSPC covers inodes as well (open(2)).
        Err(error) if error.kind() == io::ErrorKind::StorageFull => StoreError::DiskFull(path),
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => StoreError::NameTooLong(path),
        Err(error) => StoreError::CannotOpen(path, error.to_string()),
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
                ErrorCode::DiskFull => return StoreError::DiskFull(path),
                // The index of the log is a mapped file; growing it on a full disk fails with this code.
                ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
                    return StoreError::DiskFull(path);
                }
                // A full disk has its own code; this one covers EFBIG, EIO and others (write(2)).
                ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_WRITE => {
                    return StoreError::CannotWrite(path, text);
                }
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => return StoreError::Locked(path),
                ErrorCode::ReadOnly => return StoreError::ReadOnly(path),
                ErrorCode::CannotOpen => {
                    return unopened(path, text);
                }
                ErrorCode::PermissionDenied => return StoreError::CannotOpen(path, text),
                ErrorCode::NotADatabase => return StoreError::NotAStore(path, text),
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
    StoreError::Damaged(path, reason)
}
