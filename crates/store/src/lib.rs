//! The result store: sessions, groups, cells, blocks and every raw trial, in one SQLite file.
//!
//! Every trial is a transaction of its own. The write-ahead log makes `kill -9` lose at most the trial in
//! flight: what a process has committed is with the kernel, and a torn tail of the log is cut off when
//! the file is next opened. (A power cut may lose the last seconds: the log is not flushed per trial,
//! because that would disturb the machine that is being measured.)
//! Nothing is ever estimated here; what is read is what was written, to the last bit.
#![forbid(unsafe_code)]

mod block;
mod cell;
mod column;
mod counters;
mod detail;
mod error;
mod export;
mod import;
mod line;
mod outcome;
mod owner;
pub mod path;
mod redact;
mod schema;
mod session;
mod trial;
mod watch;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

pub use cell::{CellRow, GroupRow};
pub use error::StoreError;
pub use import::{FORMATS, Format, IMPORT_MAX, ImportError, ImportOptions, Imported};
pub use owner::Owner;
pub use session::{NewSession, SessionSummary};
pub use trial::Series;
use watch::Watch;

/// How often a writer asks whether another process's transaction has ended. Ours last milliseconds.
///
/// SQLite's own time-out asks less and less often (every 100 ms in the end), so that whoever asks most gets
/// the lock and the others run out of time.
const BUSY_POLL: Duration = Duration::from_millis(2);

/// How long a writer waits, in times that it asks: ten seconds, and longer on a machine that is slow to wake it.
const BUSY_POLLS: i32 = 5_000;

/// An open result file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    watch: Watch,
}

impl Store {
    /// Opens the results at `path` for measuring: makes the folder and the file, and brings tables of an
    /// older version up to date.
    ///
    /// # Errors
    /// When the path is not writable, is no store of ours, is damaged, full, locked, or of a newer version.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        refuse_no_file(path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { folder: folder.to_owned(), source })?;
        }
        let store = Store::prepare(path, Access::Create)?;
        let read_only = store.read(|connection| Ok(connection.is_readonly("main")?))?;
        if read_only {
            return Err(StoreError::ReadOnly { path: path.to_owned() });
        }
        owner::sweep(path);
        Ok(store)
    }

    /// Opens results that must exist already, to list, report or export them.
    ///
    /// A file that may not be written is opened for reading, so that results of others can be looked at.
    ///
    /// # Errors
    /// [`StoreError::NoResults`] when there is no such file; else as [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        refuse_no_file(path)?;
        if matches!(path.try_exists(), Ok(false)) {
            return Err(StoreError::NoResults { path: path.to_owned() });
        }
        let store = match Store::prepare(path, Access::Existing) {
            // The file may be read, but its folder takes no log: so nobody can be writing to it now.
            Err(StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. }) if closed_cleanly(path) => {
                Store::prepare(path, Access::Immutable)?
            }
            result => result?,
        };
        let version = store.read(|connection| Ok(schema::version(connection)?.unwrap_or(0)))?;
        if version == 0 { Err(StoreError::NoResults { path: path.to_owned() }) } else { Ok(store) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(path: &Path, access: Access) -> Result<Store, StoreError> {
        if let Some(reason) = schema::no_database(path) {
            return Err(StoreError::NotAStore { path: path.to_owned(), reason: reason.into() });
        }
        let opened = Connection::open_with_flags(access.name(path), access.flags());
        let connection = opened.map_err(|error| error::explain(path, error.into()))?;
        let mut store = Store { connection, path: path.to_owned(), watch: Watch::default() };
        store.set_up(access).map_err(|error| error::explain(path, error))?;
        store.watch = Watch::on(path);
        Ok(store)
    }

    fn set_up(&mut self, access: Access) -> Result<(), StoreError> {
        let connection = &mut self.connection;
        connection.busy_handler(Some(wait_for_others))?;
        let path = || self.path.clone();
        let version = match schema::version(connection)? {
            Ok(version) => version,
            Err(schema::Refusal::Newer(found)) => {
                return Err(StoreError::Newer { path: path(), found, known: schema::VERSION });
            }
            Err(schema::Refusal::Foreign) => {
                let reason = "it is another program's database".into();
                return Err(StoreError::NotAStore { path: path(), reason });
            }
        };
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let writable = !connection.is_readonly("main")?;
        if writable && (version > 0 || access == Access::Create) {
            // Answers with the mode it got; a file system without shared memory keeps the rollback journal,
            // which survives a kill as well.
            patiently(|| connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())))?;
            schema::migrate(connection)?;
        } else if version > 0 && version < schema::VERSION {
            // Its tables lack what this version reads.
            return Err(StoreError::ReadOnly { path: path() });
        }
        Ok(())
    }

    /// Looks at the database. Every reading method goes through here, so that errors name the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        work(&self.connection).map_err(|error| error::explain(&self.path, error))
    }

    /// One transaction: all of it is kept, or nothing. Every writing method goes through here.
    fn write<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let path = &self.path;
        // Taking the write lock at the start makes the busy handler wait for it; taken later, it would fail at once.
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        let value = run(&mut self.connection).map_err(|error| error::explain(path, error))?;
        match self.watch.look(path) {
            None => Ok(value),
            Some(how) => Err(StoreError::Gone { path: path.clone(), how, saved: watch::save(&self.connection, path) }),
        }
    }
}

/// SQLite's busy handler: whether it shall try again, after a rest.
fn wait_for_others(attempts: i32) -> bool {
    std::thread::sleep(BUSY_POLL);
    attempts < BUSY_POLLS
}

/// Does `work` again while it finds the file busy: changing the journal needs the file for itself, and for a
/// lock that two may want of each other SQLite does not ask the busy handler (sqlite.org/c3ref/busy_handler.html).
fn patiently<T>(mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut attempts = 0;
    loop {
        match work() {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait_for_others(attempts) => {
                attempts += 1;
            }
            result => return result,
        }
    }
}

/// SQLite takes some names for databases that are kept nowhere (sqlite.org/inmemorydb.html).
fn refuse_no_file(path: &Path) -> Result<(), StoreError> {
    let kind = if path.as_os_str().is_empty() {
        Some("empty")
    } else if path.as_os_str() == ":memory:" {
        Some("SQLite's name for memory")
    } else {
        path.metadata().ok().and_then(|metadata| path::special(metadata.file_type()))
    };
    kind.map_or(Ok(()), |kind| Err(StoreError::NoFile { path: path.to_owned(), kind }))
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// For measuring; made if it is missing.
    Create,
    /// For looking; SQLite itself falls back to reading when the file may not be written.
    Existing,
    /// For looking where no log can be made.
    Immutable,
}

impl Access {
    fn flags(self) -> OpenFlags {
        // One thread at a time uses a connection: Rust sees to it.
        OpenFlags::SQLITE_OPEN_NO_MUTEX
            | match self {
                Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
                Access::Existing => OpenFlags::SQLITE_OPEN_READ_WRITE,
                Access::Immutable => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
            }
    }

    /// What SQLite is told to open.
    fn name(self, path: &Path) -> OsString {
        if self != Access::Immutable {
            return path.as_os_str().to_owned();
        }
        // A URI of SQLite: %, ? and # have a meaning of their own in it (sqlite.org/uri.html).
        let mut uri = b"file:".to_vec();
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02x}").bytes()),
                _ => uri.push(*byte),
            }
        }
        uri.extend(b"?immutable=1");
        OsString::from_vec(uri)
    }
}

/// Whether the last writer folded its log into the file: with a log beside it, the file alone is not all.
fn closed_cleanly(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    path.is_file() && Path::new(&log).metadata().map_or(true, |log| log.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> NewSession {
        NewSession { plan_name: "buffer-size".into(), ..NewSession::default() }
    }

    fn check(error: &StoreError, expected: &[&str]) {
        let message = error.to_string();
        for part in expected {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_full_disk_keeps_what_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let mut store = Store::open(&path).unwrap();
        let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        store.connection.pragma_update_and_check(None, "max_page_count", pages + 4, |_| Ok(())).unwrap();
        let mut kept = 0;
        let error = loop {
            match store.create_session(&session()) {
                Ok(_) => kept += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        check(&error, &["no space left", "free some", "everything recorded before is kept"]);
        drop(store);
        let mut store = Store::open(&path).unwrap();
        assert_eq!(store.sessions().unwrap().len(), kept);
        store.create_session(&session()).unwrap();
    }

    #[test]
    fn a_lock_of_another_is_waited_for_and_then_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let mut store = Store::open(&path).unwrap();
        store.connection.busy_timeout(Duration::from_millis(20)).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.create_session(&session()).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        check(&error, &["locked by another process", "fuser", "wait for it"]);
        assert_eq!(store.sessions().unwrap(), [], "reading goes on meanwhile");
        other.execute_batch("COMMIT").unwrap();
        store.create_session(&session()).unwrap();
    }

    #[test]
    fn results_that_take_no_log_can_be_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("100%?#.db");
        let mut store = Store::open(&path).unwrap();
        store.create_session(&session()).unwrap();
        assert!(!closed_cleanly(&path));
        drop(store);
        assert!(closed_cleanly(&path));
        let mut store = Store::prepare(&path, Access::Immutable).unwrap();
        assert_eq!(store.sessions().unwrap().len(), 1);
        let error = store.create_session(&session()).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
        check(&error, &["may only be read", "--store"]);
    }
}
