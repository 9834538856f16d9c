//! The tables, and the migration of files of older versions.
//!
//! The version is SQLite's `user_version`, the owner its `application_id`. A released step never changes: a change of
//! the tables is a new step at the end of [`STEPS`].

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;

/// `byga`: marks a database of bytegauge, so that it never writes to another program's.
const APPLICATION_ID: i64 = 0x6279_6761;

/// The schema version of the first release. Databases of earlier versions are refused.
pub(crate) const RELEASED: i64 = 3;

/// The first step makes the tables of the first release, and each further one migrates to the next schema version.
const STEPS: &[&str] = &[TABLES];

/// The schema version that this code reads and writes.
pub(crate) const VERSION: i64 = RELEASED - 1 + STEPS.len() as i64;

/// Counters are integers in base units (bytes, nanoseconds, counts). Values that SQL does not need are JSON. Ends have a row each, by
/// role, for any number of ends.
const TABLES: &str = "
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started_unix_ns INTEGER NOT NULL,
    finished_unix_ns INTEGER,
    status TEXT NOT NULL,
    plan_name TEXT NOT NULL,
    workload TEXT NOT NULL,
    seed TEXT NOT NULL,              -- 64 bits without a sign do not fit SQLite's integers
    margin REAL NOT NULL,
    version TEXT NOT NULL,
    plan TEXT NOT NULL,              -- JSON
    machine TEXT NOT NULL,           -- JSON, before the first trial
    machine_after TEXT NOT NULL,     -- JSON, after the last
    notes TEXT NOT NULL,             -- JSON array of texts
    imported INTEGER NOT NULL        -- 1: measured elsewhere, never resumed
);
CREATE TABLE groups (
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    factors TEXT NOT NULL,           -- JSON object, the conditions
    PRIMARY KEY (session, id)
);
CREATE TABLE group_facts (
    session INTEGER NOT NULL,
    group_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,             -- JSON
    PRIMARY KEY (session, group_id, name),
    FOREIGN KEY (session, group_id) REFERENCES groups (session, id) ON DELETE CASCADE
);
CREATE TABLE cells (
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    group_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    twin_of TEXT,
    factors TEXT NOT NULL,           -- JSON object, the level of every factor
    outcome TEXT,
    reason TEXT,
    PRIMARY KEY (session, id),
    FOREIGN KEY (session, group_id) REFERENCES groups (session, id) ON DELETE CASCADE
);
CREATE TABLE blocks (
    session INTEGER NOT NULL,
    block INTEGER NOT NULL,
    group_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    surroundings TEXT NOT NULL,      -- JSON object
    PRIMARY KEY (session, block),
    FOREIGN KEY (session, group_id) REFERENCES groups (session, id) ON DELETE CASCADE
);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,          -- ascends in the order of measurement
    session INTEGER NOT NULL,
    cell TEXT NOT NULL,
    stage TEXT NOT NULL,
    block INTEGER NOT NULL,
    position INTEGER NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    workload TEXT NOT NULL,          -- what was said over the path
    bytes INTEGER NOT NULL,
    calls INTEGER NOT NULL,          -- completed at the client, or taken from a ring, in the window
    wall_ns INTEGER NOT NULL,
    warmup_ns INTEGER NOT NULL,
    machine TEXT,                    -- JSON: what the whole machine did
    FOREIGN KEY (session, cell) REFERENCES cells (session, id) ON DELETE CASCADE
);
CREATE TABLE ends (
    trial INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    role TEXT NOT NULL,              -- source, sink, client, server, competitor, ring
    cpu INTEGER,                     -- of its first flow, where it was pinned
    bytes INTEGER,                   -- null, as what follows, where the end did not report
    calls INTEGER,
    short_calls INTEGER,
    window_ns INTEGER,
    user_ns INTEGER,
    system_ns INTEGER,
    cpu_ns INTEGER,
    voluntary_switches INTEGER,
    involuntary_switches INTEGER,
    total_bytes INTEGER,
    verified_bytes INTEGER,
    detail TEXT,                     -- JSON: flows, TCP_INFO, effective options, calls
    PRIMARY KEY (trial, role)
);
CREATE TABLE series (
    trial INTEGER NOT NULL,
    role TEXT NOT NULL,
    flow INTEGER NOT NULL,
    bins TEXT NOT NULL,              -- JSON array of [nanoseconds, bytes]
    PRIMARY KEY (trial, role, flow),
    FOREIGN KEY (trial, role) REFERENCES ends (trial, role) ON DELETE CASCADE
);
CREATE INDEX trials_of_session ON trials (session); -- its rows are in the order of measurement
CREATE VIEW rates AS
    SELECT trials.session, cells.group_id, trials.cell, cells.kind, trials.stage, trials.block,
           cells.factors ->> 'transport' AS transport,
           cells.factors ->> 'read_size' AS read_size,
           cells.factors ->> 'write_size' AS write_size,
           cells.factors ->> 'flows' AS flows,
           cells.factors ->> 'server_engine' AS server_engine,
           iif(trials.workload = 'stream', trials.bytes * 1e9 / trials.wall_ns, NULL) AS bytes_per_second,
           iif(trials.workload = 'call', trials.calls * 1e9 / trials.wall_ns, NULL) AS calls_per_second,
           iif(trials.workload = 'ring', trials.calls * 1e9 / trials.wall_ns, NULL) AS nops_per_second,
           cells.factors
    FROM trials JOIN cells ON cells.session = trials.session AND cells.id = trials.cell
    WHERE trials.outcome = 'measured' AND trials.wall_ns > 0
    ORDER BY trials.id;
";

/// Why an existing file with content is not a database.
///
/// SQLite takes a file shorter than its smallest page (512 bytes) for an empty database, and would overwrite a short
/// text file.
pub(crate) fn no_database(path: &Path) -> Option<&'static str> {
    // Opening a named pipe would wait for its writer. SQLite reports files that cannot be read, with its reason.
    path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut head = Vec::new();
    File::open(path).ok()?.take(512).read_to_end(&mut head).ok()?;
    match head.len() {
        0 => None,
        _ if !head.starts_with(b"SQLite format 3\0") => Some("it is no SQLite file"),
        1..512 => Some("it is cut off within its first page"),
        _ => None,
    }
}

/// The version of a database: 0 for an empty one.
///
/// # Errors
/// If it belongs to another program, was written by a later version or before the first release, or has other tables, views or triggers
/// than those of its version.
pub(crate) fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    // One transaction: between separate reads another process may create the tables.
    let look = connection.unchecked_transaction()?;
    let owner: i64 = look.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = look.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let objects: i64 = look.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let path = path.to_owned();
    match owner {
        APPLICATION_ID if version > 0 && !(RELEASED..=VERSION).contains(&version) => {
            Err(StoreError::OtherVersion { path, found: version, known: RELEASED..=VERSION })
        }
        APPLICATION_ID if !is_ours(&look, version)? => Err(StoreError::Damaged(path, OTHER_SCHEMA.into())),
        APPLICATION_ID => Ok(version),
        0 if version == 0 && objects == 0 => Ok(0),
        _ => Err(StoreError::NotAStore(path, "it is another program's database".into())),
    }
}

/// Why a file with other tables is refused.
const OTHER_SCHEMA: &str = "its tables, views or triggers are not those that bytegauge makes";

/// Whether a database of a version has the tables, views and triggers of that version, and no others.
fn is_ours(connection: &Connection, version: i64) -> Result<bool, StoreError> {
    let Some(steps) = taken(version).and_then(|taken| STEPS.get(..taken)) else { return Ok(false) };
    let mut ours = Connection::open_in_memory()?;
    take_steps(&mut ours, steps)?;
    Ok(objects(connection)? == objects(&ours)?)
}

/// The objects of a database with the text that makes each, except SQLite's own tables and indexes.
fn objects(connection: &Connection) -> Result<Vec<(String, String, String)>, StoreError> {
    let sql = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema
               WHERE type NOT IN ('table', 'index') OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
               ORDER BY name, type LIMIT 100";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The number of steps that a database of a version has taken; `None` for a version before the first release.
fn taken(version: i64) -> Option<usize> {
    match version {
        0 => Some(0),
        version => usize::try_from(version - RELEASED + 1).ok().filter(|taken| *taken > 0),
    }
}

/// Migrates the tables. Every step is a transaction of its own: after a failure the previous version remains.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    take_steps(connection, STEPS)
}

fn take_steps(connection: &mut Connection, steps: &[&str]) -> Result<(), StoreError> {
    // A process that only reads must not wait for a lock when there is nothing to do.
    let current: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if taken(current).is_some_and(|taken| taken >= steps.len()) {
        return Ok(());
    }
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again under the lock: another process may be migrating.
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let next = taken(version).and_then(|taken| Some((steps.get(taken)?, RELEASED + taken as i64)));
        let Some((step, reached)) = next else { return Ok(()) };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", reached)?;
        transaction.commit()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_in_order_and_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        let first = ["CREATE TABLE a (x); INSERT INTO a VALUES (1);"];
        take_steps(&mut connection, &first).unwrap();
        let both = [first[0], "ALTER TABLE a ADD COLUMN y; UPDATE a SET y = x + 1;"];
        take_steps(&mut connection, &both).unwrap();
        take_steps(&mut connection, &both).unwrap();
        let rows: Vec<(i64, i64)> = connection
            .prepare("SELECT x, y FROM a")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(rows, [(1, 2)]);
    }

    #[test]
    fn a_failing_step_leaves_the_version_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a (x);", "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1);"];
        assert!(take_steps(&mut connection, &steps).is_err());
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!((tables, version), (1, RELEASED));
    }

    #[test]
    fn databases_of_other_programs_are_refused() {
        let check = |batch: &str, expected: Result<i64, &str>| {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(batch).unwrap();
            match (version(&connection, Path::new("x")).map_err(|error| error.to_string()), expected) {
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{batch}: {error}"),
                (found, expected) => assert_eq!(found, expected.map_err(str::to_owned), "{batch}"),
            }
        };
        check("", Ok(0));
        check("CREATE TABLE bookmarks (url)", Err("another program's database"));
        check("PRAGMA user_version = 1", Err("another program's database"));
        check(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1"), Err("have schema 1,"));
        check(
            &format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {RELEASED}"),
            Err(OTHER_SCHEMA),
        );
        check(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99"), Err("have schema 99,"));
    }
}
