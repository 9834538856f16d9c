//! The result store: sessions, groups, cells, blocks and every raw trial, in one SQLite file.
//!
//! Every trial is one transaction. With the write-ahead log, `kill -9` loses at most the trial in flight: the kernel
//! has all committed data, and SQLite removes a torn tail of the log at the next start. (A power cut may lose the last
//! seconds: the log is not flushed per trial, because that would disturb the measurement.)
//! Nothing is estimated here; reading returns exactly the written values.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cell;
pub mod column;
mod detail;
mod error;
pub mod export;
mod redact;
mod schema;
mod session;
mod session_lock;
mod trial;

pub use cell::{CellRow, GroupRow};
pub use error::StoreError;
pub use session::{SessionData, SessionSummary};
pub use session_lock::SessionLock;
pub use trial::Series;

use std::ffi::OsString;
use std::fs::{FileType, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytegauge_sys::new_file::{create_folder, is_own_link};
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

/// Longest value that is read or written, bytes: the plan of a session, or the series of a long trial.
const VALUE_MAX: i32 = 256 << 20;

/// Instructions of SQLite's machine that a query of any file may take, and those for each of its bytes; a stored row takes one or
/// two a byte. A damaged file can have pages that refer to one page many times over, whose rows never end.
const STEPS_FREE: u64 = 5_000_000;
const STEPS_PER_BYTE: u64 = 20;

/// How often a query is checked, instructions: every few milliseconds.
const STEPS_CHECKED: u32 = 100_000;

/// How often a writer tries to get the lock. Transactions take milliseconds.
///
/// SQLite's own time-out retries less and less often (every 100 ms in the end), so that the process that tries most
/// often gets the lock and the others time out.
const BUSY_POLL: Duration = Duration::from_millis(2);

/// How often a writer tries: ten seconds in total, or longer on a machine that is slow to wake it.
const BUSY_POLLS: i32 = 5_000;

/// An open result file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// The file as it was last seen.
    seen: Option<Metadata>,
    /// Instructions of the present query or transaction.
    steps: Arc<AtomicU64>,
}

impl Store {
    /// Opens the results at `path` for measuring: creates the folder and the file, and migrates the tables of an older
    /// version.
    ///
    /// # Errors
    /// When the path is not writable, is not a store of bytegauge, is damaged, full, locked, or of a newer version.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        refuse_no_file(path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            create_folder(folder).map_err(|error| StoreError::Folder(folder.to_owned(), error))?;
        }
        let store = Store::prepare(path, Access::Create)?;
        let read_only = store.read(|connection| Ok(connection.is_readonly("main")?))?;
        if read_only {
            return Err(StoreError::ReadOnly(path.to_owned()));
        }
        session_lock::sweep(path);
        Ok(store)
    }

    /// Opens existing results, to list, report or export them.
    ///
    /// A file without write permission is opened read-only, so that results of other users can be read.
    ///
    /// # Errors
    /// [`StoreError::NoResults`] when there is no such file; else as [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        refuse_no_file(path)?;
        if matches!(path.try_exists(), Ok(false)) {
            return Err(StoreError::NoResults(path.to_owned()));
        }
        let store = match Store::prepare(path, Access::Existing) {
            // The file is readable, but its folder takes no log, so no process is writing to it.
            Err(StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. }) if closed_cleanly(path) => {
                Store::prepare(path, Access::Immutable)?
            }
            result => result?,
        };
        let version = store.read(|connection| schema::version(connection, path))?;
        if version == 0 { Err(StoreError::NoResults(path.to_owned())) } else { Ok(store) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(path: &Path, access: Access) -> Result<Store, StoreError> {
        if let Some(reason) = schema::no_database(path) {
            return Err(StoreError::NotAStore(path.to_owned(), reason.into()));
        }
        let opened = Connection::open_with_flags(access.name(path), access.flags());
        let connection = opened.map_err(|error| error::explain(path, error.into()))?;
        let mut store = Store { connection, path: path.to_owned(), seen: None, steps: Arc::default() };
        store.set_up(access).map_err(|error| error::explain(path, error))?;
        store.seen = path.metadata().ok();
        Ok(store)
    }

    fn set_up(&mut self, access: Access) -> Result<(), StoreError> {
        let connection = &mut self.connection;
        connection.busy_handler(Some(wait_for_others))?;
        // The file may come from another user: nothing in its schema runs before the schema is compared with ours.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
        connection.progress_handler(STEPS_CHECKED as i32, Some(endless(&self.path, &self.steps)))?;
        let version = schema::version(connection, &self.path)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let writable = !connection.is_readonly("main")?;
        if writable && (version > 0 || access == Access::Create) {
            // Returns the mode that took effect. A file system without shared memory keeps the rollback journal, which
            // survives a kill too.
            patiently(|| connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())))?;
            schema::migrate(connection)?;
        } else if version > 0 && version < schema::VERSION {
            // Its tables are older than this version can read.
            return Err(StoreError::ReadOnly(self.path.clone()));
        }
        connection.pragma_update(None, "query_only", access != Access::Create)?;
        Ok(())
    }

    /// Reads from the database. Every reading method uses this, so that errors name the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.steps.store(0, Ordering::Relaxed);
        work(&self.connection).map_err(|error| error::explain(&self.path, error))
    }

    /// Runs one transaction, which is kept completely or not at all. Every writing method uses this.
    fn write<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let path = &self.path;
        self.steps.store(0, Ordering::Relaxed);
        // Taking the write lock at the start makes the busy handler wait for it; later it would fail at once.
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        let value = run(&mut self.connection).map_err(|error| error::explain(path, error))?;
        match session_lock::change(&mut self.seen, path) {
            None => Ok(value),
            Some(how) => {
                Err(StoreError::Gone { path: path.clone(), how, saved: session_lock::save(&self.connection, path) })
            }
        }
    }
}

/// SQLite's progress handler: returns whether a query has taken more instructions than the file can have rows for.
fn endless(path: &Path, steps: &Arc<AtomicU64>) -> impl FnMut() -> bool + Send + 'static {
    let (files, steps) = ([path.to_owned(), log_of(path)], Arc::clone(steps));
    move || {
        let taken = steps.fetch_add(STEPS_CHECKED.into(), Ordering::Relaxed);
        let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
        taken > STEPS_FREE + bytes * STEPS_PER_BYTE
    }
}

/// SQLite's busy handler: sleeps and returns whether to try again.
fn wait_for_others(attempts: i32) -> bool {
    std::thread::sleep(BUSY_POLL);
    attempts < BUSY_POLLS
}

/// Repeats `work` while the file is busy. Changing the journal needs exclusive access, and for a lock that two
/// processes may wait for SQLite does not call the busy handler (sqlite.org/c3ref/busy_handler.html).
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

/// Rejects names that SQLite uses for databases without a file (sqlite.org/inmemorydb.html).
fn refuse_no_file(path: &Path) -> Result<(), StoreError> {
    // A link of another user leads to a file that this user did not mean, and would be written to.
    for named in path.parent().into_iter().chain([path]) {
        is_own_link(named).map_err(|error| StoreError::CannotOpen(named.to_owned(), error.to_string()))?;
    }
    let kind = if path.as_os_str().is_empty() {
        Some("empty")
    } else if path.as_os_str() == ":memory:" {
        Some("SQLite's name for memory")
    } else {
        let kind = path.metadata().ok().map(|metadata| metadata.file_type());
        kind.and_then(|kind| if kind.is_dir() { Some("a folder") } else { special(kind) })
    };
    kind.map_or(Ok(()), |kind| Err(StoreError::NoFile(path.to_owned(), kind)))
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// For measuring; the file is created if missing.
    Create,
    /// For reading; SQLite falls back to read-only without write permission.
    Existing,
    /// For reading where no log can be created.
    Immutable,
}

impl Access {
    fn flags(self) -> OpenFlags {
        // Rust ensures that one thread at a time uses a connection.
        OpenFlags::SQLITE_OPEN_NO_MUTEX
            | match self {
                Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
                Access::Existing => OpenFlags::SQLITE_OPEN_READ_WRITE,
                Access::Immutable => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
            }
    }

    /// The name to pass to SQLite.
    fn name(self, path: &Path) -> OsString {
        if self != Access::Immutable {
            return path.as_os_str().to_owned();
        }
        // In a URI of SQLite %, ? and # have a special meaning (sqlite.org/uri.html).
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

/// The write-ahead log of a file.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Whether the last writer merged its log into the file: if a log exists, the file alone is incomplete.
fn closed_cleanly(path: &Path) -> bool {
    path.is_file() && log_of(path).metadata().map_or(true, |log| log.len() == 0)
}

// The default path of the results: the XDG data directory.

/// The kind of a path that cannot hold results; `None` for a file or a folder.
pub fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device")
    } else {
        None
    }
}

/// `$XDG_DATA_HOME/bytegauge/results.db`, or `$HOME/.local/share/bytegauge/results.db`.
///
/// `None` when neither variable is an absolute path: the caller must then require `--store`.
pub fn default_path() -> Option<PathBuf> {
    from_variables(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

/// The default path for given values of `XDG_DATA_HOME` and `HOME`.
///
/// A relative `XDG_DATA_HOME` is ignored, as the XDG base directory specification demands.
pub fn from_variables(xdg_data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute(xdg_data_home).or_else(|| absolute(home).map(|home| home.join(".local/share")))?;
    Some(data.join("bytegauge/results.db"))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::SessionRecord;

    use super::*;

    fn session() -> SessionRecord {
        SessionRecord { plan_name: "buffer-size".into(), ..SessionRecord::default() }
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
    fn a_lock_of_another_process_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let mut store = Store::open(&path).unwrap();
        store.connection.busy_timeout(Duration::from_millis(20)).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.create_session(&session()).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        check(&error, &["locked by another process", "fuser", "wait for it"]);
        assert_eq!(store.sessions().unwrap(), [], "reading is possible meanwhile");
        other.execute_batch("COMMIT").unwrap();
        store.create_session(&session()).unwrap();
    }

    #[test]
    fn results_without_a_log_can_be_read() {
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
        check(&error, &["is read-only", "--store"]);
    }
}

#[cfg(test)]
mod default_path_tests {
    use super::*;

    fn check(xdg: Option<&str>, home: Option<&str>, expected: Option<&str>) {
        let path = from_variables(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(path, expected.map(PathBuf::from), "{xdg:?} {home:?}");
    }

    #[test]
    fn xdg_before_home() {
        check(Some("/data"), Some("/home/ada"), Some("/data/bytegauge/results.db"));
        check(None, Some("/home/ada"), Some("/home/ada/.local/share/bytegauge/results.db"));
        check(Some(""), Some("/home/ada"), Some("/home/ada/.local/share/bytegauge/results.db"));
        check(Some("data"), Some("/home/ada"), Some("/home/ada/.local/share/bytegauge/results.db"));
        check(None, None, None);
        check(Some(""), Some(""), None);
    }
}
