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

/// Step n migrates from schema version n to n + 1.
const STEPS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3];

/// The schema version that this code reads and writes.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// Counters are integers in base units (bytes, nanoseconds, counts). Values that SQL does not need are JSON.
const VERSION_1: &str = "
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
    bytes INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,
    warmup_ns INTEGER NOT NULL,
    source_cpu INTEGER,
    sink_cpu INTEGER,
    source_bytes INTEGER,            -- the writing end; null where nobody writes
    source_calls INTEGER,
    source_short_calls INTEGER,
    source_window_ns INTEGER,
    source_user_ns INTEGER,
    source_system_ns INTEGER,
    source_cpu_ns INTEGER,
    source_voluntary_switches INTEGER,
    source_involuntary_switches INTEGER,
    source_total_bytes INTEGER,
    source_verified_bytes INTEGER,
    sink_bytes INTEGER,              -- the reading end
    sink_calls INTEGER,
    sink_short_calls INTEGER,
    sink_window_ns INTEGER,
    sink_user_ns INTEGER,
    sink_system_ns INTEGER,
    sink_cpu_ns INTEGER,
    sink_voluntary_switches INTEGER,
    sink_involuntary_switches INTEGER,
    sink_total_bytes INTEGER,
    sink_verified_bytes INTEGER,
    detail TEXT NOT NULL,            -- JSON: flows, TCP_INFO, effective options, machine use
    FOREIGN KEY (session, cell) REFERENCES cells (session, id) ON DELETE CASCADE
);
CREATE INDEX trials_of_session ON trials (session); -- its rows are in the order of measurement
CREATE TABLE series (
    trial INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    sink INTEGER NOT NULL,           -- 1: the reading end, 0: the writing end
    flow INTEGER NOT NULL,
    bins TEXT NOT NULL,              -- JSON array of [nanoseconds, bytes]
    PRIMARY KEY (trial, sink, flow)
);
CREATE VIEW rates AS
    SELECT trials.session, cells.group_id, trials.cell, cells.kind, trials.stage, trials.block,
           cells.factors ->> 'transport' AS transport,
           cells.factors ->> 'read_size' AS read_size,
           cells.factors ->> 'write_size' AS write_size,
           trials.bytes * 1e9 / trials.wall_ns AS bytes_per_second,
           cells.factors
    FROM trials JOIN cells ON cells.session = trials.session AND cells.id = trials.cell
    WHERE trials.outcome = 'measured' AND trials.wall_ns > 0
    ORDER BY trials.id;
";

/// Calls have a rate of their own. Trials that were stored before were streams, which have none.
const VERSION_2: &str = "
ALTER TABLE trials ADD COLUMN calls INTEGER NOT NULL DEFAULT 0; -- completed at the client in the window
DROP VIEW rates;
CREATE VIEW rates AS
    SELECT trials.session, cells.group_id, trials.cell, cells.kind, trials.stage, trials.block,
           cells.factors ->> 'transport' AS transport,
           cells.factors ->> 'read_size' AS read_size,
           cells.factors ->> 'write_size' AS write_size,
           cells.factors ->> 'flows' AS flows,
           cells.factors ->> 'server_engine' AS server_engine,
           iif(sessions.workload = 'stream', trials.bytes * 1e9 / trials.wall_ns, NULL) AS bytes_per_second,
           iif(sessions.workload = 'call', trials.calls * 1e9 / trials.wall_ns, NULL) AS calls_per_second,
           cells.factors
    FROM trials JOIN cells ON cells.session = trials.session AND cells.id = trials.cell
    JOIN sessions ON sessions.id = trials.session
    WHERE trials.outcome = 'measured' AND trials.wall_ns > 0
    ORDER BY trials.id;
";

/// Ends by role, one row each, for any number of ends. Trials of earlier versions used new connections.
const VERSION_3: &str = "
DROP VIEW rates;
DROP INDEX trials_of_session;
ALTER TABLE series RENAME TO series_of_two_ends;
ALTER TABLE trials RENAME TO trials_of_two_ends;
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
CREATE TEMPORARY TABLE roles (workload TEXT, sink INTEGER, role TEXT);
INSERT INTO roles VALUES ('stream', 0, 'source'), ('stream', 1, 'sink'), ('call', 0, 'client'), ('call', 1, 'server'),
                         ('ring', 1, 'ring');
INSERT INTO trials
    SELECT trials.id, session, cell, stage, block, position, trials.started_unix_ns, outcome, reason,
           iif(workload IN ('call', 'ring'), workload, 'stream'), bytes, calls, wall_ns, warmup_ns,
           nullif(detail -> '$.machine', 'null')
    FROM trials_of_two_ends AS trials JOIN sessions ON sessions.id = session;
INSERT INTO ends
    SELECT old.id, role, source_cpu,
           source_bytes, source_calls, source_short_calls, source_window_ns,
           source_user_ns, source_system_ns, source_cpu_ns, source_voluntary_switches,
           source_involuntary_switches, source_total_bytes, source_verified_bytes,
           iif(source_bytes IS NULL, NULL, coalesce(nullif(detail -> '$.source', 'null'), '{}'))
    FROM trials_of_two_ends AS old JOIN trials USING (id) JOIN roles ON roles.workload = trials.workload AND sink = 0
    WHERE source_bytes IS NOT NULL OR source_cpu IS NOT NULL;
INSERT INTO ends
    SELECT old.id, role, sink_cpu,
           sink_bytes, sink_calls, sink_short_calls, sink_window_ns,
           sink_user_ns, sink_system_ns, sink_cpu_ns, sink_voluntary_switches,
           sink_involuntary_switches, sink_total_bytes, sink_verified_bytes,
           iif(sink_bytes IS NULL, NULL, coalesce(nullif(detail -> '$.sink', 'null'), '{}'))
    FROM trials_of_two_ends AS old JOIN trials USING (id) JOIN roles ON roles.workload = trials.workload AND sink = 1
    WHERE sink_bytes IS NOT NULL OR sink_cpu IS NOT NULL;
INSERT INTO ends
    SELECT id, 'competitor', NULL,
           detail ->> '$.competing.bytes', detail ->> '$.competing.calls',
           detail ->> '$.competing.short_calls', detail ->> '$.competing.window_ns',
           detail ->> '$.competing.user_ns', detail ->> '$.competing.system_ns',
           detail ->> '$.competing.cpu_ns', detail ->> '$.competing.voluntary_switches',
           detail ->> '$.competing.involuntary_switches', detail ->> '$.competing.total_bytes',
           detail ->> '$.competing.verified_bytes',
           detail -> '$.competing'
    FROM trials_of_two_ends WHERE detail ->> '$.competing.bytes' IS NOT NULL;
INSERT INTO series
    SELECT trial, role, flow, bins FROM series_of_two_ends AS old
    JOIN trials ON trials.id = trial JOIN roles ON roles.workload = trials.workload AND roles.sink = old.sink;
DROP TABLE roles;
DROP TABLE series_of_two_ends;
DROP TABLE trials_of_two_ends;
CREATE INDEX trials_of_session ON trials (session); -- its rows are in the order of measurement
INSERT OR IGNORE INTO group_facts SELECT session, id, 'age', '\"fresh\"' FROM groups;
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

/// Why a database cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaRefusal {
    /// It belongs to another program.
    OtherProgram,
    /// It was written by a later version.
    Newer(i64),
    /// Its tables, views or triggers are not those of its version.
    OtherObjects,
}

/// The version of a database: 0 for an empty one.
pub(crate) fn version(connection: &Connection) -> Result<Result<i64, SchemaRefusal>, StoreError> {
    // One transaction: between separate reads another process may create the tables.
    let look = connection.unchecked_transaction()?;
    let owner: i64 = look.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = look.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let objects: i64 = look.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match owner {
        APPLICATION_ID if version > VERSION => Err(SchemaRefusal::Newer(version)),
        APPLICATION_ID if !is_ours(&look, version)? => Err(SchemaRefusal::OtherObjects),
        APPLICATION_ID => Ok(version),
        0 if version == 0 && objects == 0 => Ok(0),
        _ => Err(SchemaRefusal::OtherProgram),
    })
}

/// Whether a database of a version has the tables, views and triggers of that version, and no others.
fn is_ours(connection: &Connection, version: i64) -> Result<bool, StoreError> {
    let mut ours = Connection::open_in_memory()?;
    let steps = usize::try_from(version).ok().and_then(|version| STEPS.get(..version)).unwrap_or_default();
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

/// Migrates the tables. Every step is a transaction of its own: after a failure the previous version remains.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    take_steps(connection, STEPS)
}

fn take_steps(connection: &mut Connection, steps: &[&str]) -> Result<(), StoreError> {
    // A process that only reads must not wait for a lock when there is nothing to do.
    let current: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if usize::try_from(current).is_ok_and(|version| version >= steps.len()) {
        return Ok(());
    }
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again under the lock: another process may be migrating.
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let Some(step) = usize::try_from(version).ok().and_then(|index| steps.get(index)) else { return Ok(()) };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version + 1)?;
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
        assert_eq!((tables, version), (1, 1));
    }

    #[test]
    fn databases_of_other_programs_are_refused() {
        let check = |batch: &str, expected: Result<i64, SchemaRefusal>| {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(batch).unwrap();
            assert_eq!(version(&connection).unwrap(), expected, "{batch}");
        };
        check("", Ok(0));
        check("CREATE TABLE bookmarks (url)", Err(SchemaRefusal::OtherProgram));
        check("PRAGMA user_version = 1", Err(SchemaRefusal::OtherProgram));
        check(
            &format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1"),
            Err(SchemaRefusal::OtherObjects),
        );
        check(
            &format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99"),
            Err(SchemaRefusal::Newer(99)),
        );
    }
}
