//! A store of any earlier version opens as if it had been written today.
//!
//! `fixtures/schema-N.sql` is what version N wrote, `fixtures/schema-N.jsonl` what it exported: both frozen.

use std::fs;
use std::path::{Path, PathBuf};

use bytegauge_model::SessionId;
use bytegauge_store::{ImportOptions, Store};
use rusqlite::Connection;

fn fixture(version: i64, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/schema-{version}.{ending}"))
}

fn current_version(fresh: &Path) -> i64 {
    drop(Store::open(fresh).unwrap());
    Connection::open(fresh).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Every table and view with its columns, every index: what there is, however it came about.
fn shape(path: &Path) -> Vec<(String, String, String)> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT s.type, s.name, coalesce(group_concat(c.name || ' ' || c.type || ' ' || c.\"notnull\"), '')
               FROM sqlite_schema s LEFT JOIN pragma_table_info(s.name) c
               WHERE s.name NOT LIKE 'sqlite_%' GROUP BY s.type, s.name ORDER BY s.type, s.name";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn export(store: &Store, id: SessionId) -> String {
    let mut out = Vec::new();
    store.export_jsonl(id, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_version_comes_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("fresh.db");
    let current = current_version(&fresh);
    for version in 1..=current {
        let path = folder.path().join(format!("{version}.db"));
        let sql = fs::read_to_string(fixture(version, "sql")).unwrap();
        let old = Connection::open(&path).unwrap();
        // Tables stand in the file by name, not by dependence.
        old.pragma_update(None, "foreign_keys", false).unwrap();
        old.execute_batch(&sql).unwrap();
        drop(old);

        let mut store = Store::open(&path).unwrap();
        let lines = fs::read(fixture(version, "jsonl")).unwrap();
        let imported = store.import(lines.as_slice(), &ImportOptions::default()).unwrap();
        let expected = export(&store, imported.session).replacen("\"id\":2", "\"id\":1", 1);
        assert_eq!(export(&store, SessionId(1)), expected, "version {version}");
        drop(store);
        assert_eq!(shape(&path), shape(&fresh), "version {version}");
    }
}
