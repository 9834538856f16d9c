//! What can go wrong with a store, in words that name the next step.
//!
//! SQLite's result codes are translated here and nowhere else. Nothing is retried: a lock is waited for by
//! SQLite's own busy handler before an error reaches this file.

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
    /// The file cannot be opened or made.
    #[error("cannot open the results at {path}: {reason}: check its permissions, or choose another file with --store")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        reason: String,
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
        "no space left to write {path}: free some, or choose another file with --store; \
         everything recorded before is kept, and --resume goes on from there"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
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

impl From<csv::Error> for StoreError {
    fn from(error: csv::Error) -> Self {
        StoreError::Export(error.into())
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
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => return StoreError::Locked { path },
                ErrorCode::ReadOnly => return StoreError::ReadOnly { path },
                ErrorCode::CannotOpen => {
                    let reason = if path.is_dir() { "it is a folder".into() } else { text };
                    return StoreError::CannotOpen { path, reason };
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
