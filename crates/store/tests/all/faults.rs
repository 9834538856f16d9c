//! Files that are missing, damaged, read-only or of another program: a clear message with the next step.

use std::fs;
use std::path::Path;

use crate::support::*;
use bytegauge_model::*;
use bytegauge_store::{Store, StoreError};

fn check_open(path: &Path, expected: &[&str]) {
    let message = Store::open(path).map(|_| ()).unwrap_err().to_string();
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
    assert!(message.contains("--store"), "no next step in: {message}");
}

#[test]
fn paths_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    check_open(folder.path(), &["is a folder", "give the path of a file"]);
    check_open(&file.join("results.db"), &["cannot create the folder"]);
    check_open(Path::new("/proc/bytegauge/results.db"), &["cannot create the folder /proc/bytegauge"]);
    check_open(Path::new("/proc/results.db"), &["cannot open the results at /proc/results.db"]);
}

#[test]
fn files_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "some notes that are no database, long enough to be mistaken for one\n".repeat(100)).unwrap();
    check_open(&text, &["is not a result store", "move it away"]);

    let short = folder.path().join("short.txt");
    fs::write(&short, "a line").unwrap();
    check_open(&short, &["is not a result store"]);
    assert_eq!(fs::read(&short).unwrap(), b"a line");

    let other = folder.path().join("bookmarks.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    check_open(&other, &["another program's database"]);
    let tables: i64 = rusqlite::Connection::open(&other)
        .unwrap()
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1, "the file must not change");
}

#[test]
fn another_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    drop(begin(&path));
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    check_open(&path, &["schema 99", "reads 3 to", "use the version that wrote them"]);
    assert!(matches!(Store::open_existing(&path), Err(StoreError::OtherVersion { found: 99, .. })));
}

#[test]
fn truncated_at_any_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let (mut store, session) = begin(&path);
    for n in 0..50 {
        store.record_trial(session, &plain_trial(n)).unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    for length in (1..whole.len()).step_by(1_777) {
        let cut = folder.path().join("cut.db");
        fs::write(&cut, &whole[..length]).unwrap();
        let result = Store::open_existing(&cut).and_then(|store| store.trials(session));
        let message = result.unwrap_err().to_string();
        let known = message.contains("are damaged") || message.contains("is not a result store");
        assert!(known && message.contains("move"), "{length} bytes: {message}");
    }
}

#[test]
fn an_invalid_value_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let (mut store, session) = begin(&path);
    store.record_trial(session, &plain_trial(0)).unwrap();
    drop(store);
    for wrong in [
        "trials SET stage = 'brew'",
        "trials SET outcome = 'eaten'",
        "trials SET workload = 'idle'",
        "trials SET machine = '{'",
        "ends SET role = 'cook' WHERE role = 'sink'",
        "ends SET detail = '{'",
        "ends SET calls = 'many'",
        "sessions SET notes = '[\"' || hex(zeroblob(3000000)) || '\"]'",
    ] {
        let sql = format!("UPDATE {wrong}");
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        rusqlite::Connection::open(&copy).unwrap().execute(&sql, []).unwrap();
        let store = Store::open_existing(&copy).unwrap();
        let error = store.trials(session).map(drop).and_then(|()| store.session(session).map(drop)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{wrong}: {error}");
    }
}

/// Twelve pages of references, each 300 times to the next one, and the last to the only row: 300^12 rows.
#[test]
fn rows_without_end_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    drop(begin(&path));
    let connection = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'";
    let root: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    drop(connection);
    let (root, page) = (root as usize, page as usize);
    let mut file = fs::read(&path).unwrap();
    let pages = file.len() / page;
    let leaf = file[(root - 1) * page..root * page].to_vec();
    file.extend_from_slice(&leaf);
    for level in 0..12 {
        // The inner page of a table: references of four bytes, each with a key of two (sqlite.org/fileformat2.html).
        let (next, first) = ((pages + 1 + level) as u32, page - 300 * 6);
        let mut inner = vec![5, 0, 0];
        inner.extend([300u16.to_be_bytes(), (first as u16).to_be_bytes()].concat());
        inner.extend([&[0], &next.to_be_bytes()[..]].concat());
        (0..300).for_each(|cell| inner.extend((first as u16 + cell * 6).to_be_bytes()));
        inner.resize(first, 0);
        (0..300).for_each(|_| inner.extend([&next.to_be_bytes()[..], &[0x81, 0]].concat()));
        file.extend(inner);
    }
    let top = file[file.len() - page..].to_vec();
    file[(root - 1) * page..root * page].copy_from_slice(&top);
    file[28..32].copy_from_slice(&((pages + 13) as u32).to_be_bytes());
    fs::write(&path, file).unwrap();
    let error = Store::open_existing(&path).unwrap().sessions().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("refers to its own pages again and again"), "{error}");
}

#[test]
fn nothing_measured_yet() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("results.db");
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    for path in [&missing, &empty] {
        let error = Store::open_existing(path).map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::NoResults { .. }), "{error}");
        assert!(error.to_string().contains("run `bytegauge run buffer-size` first"), "{error}");
    }
    assert!(!missing.exists(), "reading must not create a file");
}

#[test]
fn names_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, session) = begin(&folder.path().join("results.db"));
    let check = |result: Result<(), StoreError>, expected: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    let missing = SessionId(99);
    check(store.session(missing).map(|_| ()), "no session 99");
    check(store.export_csv(missing, false, Vec::new()), "`bytegauge report list` lists them");
    check(store.add_note(missing, "x"), "no session 99");
    check(store.record_trial(session, &Trial { cell: CellId("c9".into()), ..plain_trial(0) }), "no cell c9");
    check(store.add_cells(session, &[Cell { group: GroupId("g9".into()), ..cell("c2", 1) }]), "no group g9");
    check(store.set_group_fact(session, &GroupId("g9".into()), "a", &serde_json::json!(1)), "no group g9");
    check(store.set_cell_outcome(session, &CellId("c9".into()), &Outcome::Skipped("x".into())), "no cell c9");
    assert_eq!(store.trials(session).unwrap(), []);
}

/// A store of another user: no reader runs its views and triggers.
#[test]
fn other_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    drop(begin(&path));
    let endless = "ALTER TABLE sessions RENAME TO renamed;
         CREATE VIEW sessions AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
         SELECT renamed.* FROM renamed, n;";
    let trigger = "CREATE TRIGGER gone AFTER UPDATE ON sessions BEGIN DELETE FROM trials; END;";
    for sql in [endless, trigger, "CREATE TABLE more (x);", "DROP VIEW rates;"] {
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        let other = rusqlite::Connection::open(&copy).unwrap();
        other.pragma_update(None, "legacy_alter_table", true).unwrap();
        other.execute_batch(sql).unwrap();
        drop(other);
        for opened in [Store::open(&copy), Store::open_existing(&copy)] {
            let message = opened.map(|_| ()).unwrap_err().to_string();
            assert!(
                message.contains("are not those that bytegauge makes") && message.contains(".recover"),
                "{message}"
            );
        }
        fs::remove_file(&copy).unwrap();
    }
}

/// A cut file, text that is no UTF-8, and JSON that ends early.
#[test]
fn damage_is_no_bug() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    drop(begin(&path));
    let damaged = |path: &Path| {
        let read = Store::open_existing(path).and_then(|store| store.session(SessionId(1)).and(store.sessions()));
        let message = read.map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("damaged") && !message.contains("bug"), "{message}");
    };
    for value in ["x'ff00fe'", "CAST(x'ff00fe' AS TEXT)"] {
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        let other = rusqlite::Connection::open(&copy).unwrap();
        other.execute(&format!("UPDATE sessions SET plan_name = {value}"), []).unwrap();
        drop(other);
        damaged(&copy);
        fs::remove_file(&copy).unwrap();
    }
    let whole = fs::read(&path).unwrap();
    let cut = folder.path().join("cut.db");
    fs::write(&cut, &whole[..whole.len() / 4096 / 2 * 4096]).unwrap();
    damaged(&cut);
}

#[test]
fn readers_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let session = begin(&path).1;
    let mut reader = Store::open_existing(&path).unwrap();
    assert!(matches!(reader.add_note(session, "a note"), Err(StoreError::ReadOnly { .. })));
}
