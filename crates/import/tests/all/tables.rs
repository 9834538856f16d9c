//! Published tables, other programs' tables, and wrong tables.

use bytegauge_import::{Format, ImportError, ImportOptions, Imported, import, import_file};
use bytegauge_model::*;
use bytegauge_store::Store;

/// A temporary store.
struct Desk {
    store: Store,
    _folder: tempfile::TempDir,
}

fn desk() -> Desk {
    let folder = tempfile::tempdir().unwrap();
    Desk { store: Store::open(&folder.path().join("results.db")).unwrap(), _folder: folder }
}

impl Desk {
    fn import(&mut self, text: &str, map: &[(&str, &str)]) -> Result<Imported, ImportError> {
        let map = map.iter().map(|(ours, theirs)| ((*ours).to_owned(), (*theirs).to_owned())).collect();
        import(&mut self.store, text.as_bytes(), &ImportOptions { map, ..ImportOptions::default() })
    }

    /// Every trial as `group cell transport read/write machine bytes wall block`.
    fn trials(&self, id: SessionId) -> Vec<String> {
        let cells = self.store.cells(id).unwrap();
        let line = |trial: Trial| {
            let cell = &cells.iter().find(|row| row.cell.id == trial.cell).unwrap().cell;
            let level = |name: &str| cell.factors.get(name).to_string();
            format!(
                "{} {} {} {}/{} {} {} {} {}",
                cell.group,
                cell.id,
                level("transport"),
                level("read_size"),
                level("write_size"),
                level("machine"),
                trial.bytes,
                trial.wall_ns,
                trial.block
            )
        };
        self.store.trials(id).unwrap().into_iter().map(line).collect()
    }

    #[track_caller]
    fn check_refused(&mut self, text: &str, map: &[(&str, &str)], expected: &[&str]) {
        let message = self.import(text, map).unwrap_err().to_string();
        for part in expected {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(self.store.sessions().unwrap(), [], "nothing may be half imported");
    }
}

const TABLES: &str = "\
# A benchmark

buf sizes below.

## Unix sockets

Best = 4 KiB

```
buf_size=1; duration=1.5s; num_syscalls=6000000; 3.8 MiB/s; 4000000.0 syscalls/s; short_reads=0
buf_size=4096; duration=742.017215ms; num_syscalls=1500000; 7444.7 MiB/s; 2021516.2 syscalls/s; short_reads=9000
```

## TCP Localhost
```
buf_size=4096; duration=2s; num_syscalls=1000000; 1953.1 MiB/s; 500000.0 syscalls/s; short_reads=0
```

## TCP Remote
```
TCP reader sock; SO_RCVBUF=131072
buf_size=4096; duration=2s; num_syscalls=400000; 700.5 MiB/s; 200000.0 syscalls/s; short_reads=1 (0.0%)
```

## /dev/zero
```
buf_size=4096; duration=2s; num_syscalls=9000000; 17578.1 MiB/s; 4500000.0 syscalls/s; short_reads=0
```

## /dev/urandom
```
buf_size=4096; duration=2s; num_syscalls=200000; 390.6 MiB/s; 100000.0 syscalls/s; short_reads=0
```
";

#[test]
fn text_tables() {
    let mut desk = desk();
    let imported = desk.import(TABLES, &[]).unwrap();
    assert_eq!((imported.trials, imported.cells), (6, 6));
    assert_eq!(
        desk.trials(imported.session),
        [
            // No short reads: calls × size, which the printed rate agrees with.
            "g0 c0 unix 1/– – 6000000 1500000000 0",
            // Short reads: the printed rate × duration.
            "g0 c1 unix 4096/– – 5792434026 742017215 0",
            "g1 c2 tcp 4096/– – 4096000000 2000000000 1",
            "g2 c3 tcp 4096/– TCP Remote 1469054976 2000000000 2",
            "g3 c4 /dev/zero 4096/– – 36864000000 2000000000 3",
            "g4 c5 /dev/urandom 4096/– – 819200000 2000000000 4",
        ]
    );
    let sink = desk.store.trials(imported.session).unwrap()[1].end(EndRole::Sink).cloned().unwrap();
    assert_eq!((sink.calls, sink.short_calls, sink.window_ns), (1_500_000, 9_000, 742_017_215));
    let cells = desk.store.cells(imported.session).unwrap();
    assert!(cells.iter().all(|row| factor::of(Workload::Stream).all(|factor| row.cell.factors.states(factor.name))));
    assert_eq!(cells[0].cell.factors.get("writer_work"), Level::Name("none".into()));
    assert_eq!(cells[4].cell.factors.get("writer_work"), Level::Absent, "a device is not written to");
    let session = desk.store.session(imported.session).unwrap();
    assert_eq!((session.status, session.plan_name.as_str()), (SessionStatus::Imported, "import"));
}

#[test]
fn durations_without_a_unit_are_refused() {
    let table = |delay: &str| {
        format!(
            "link_delay,transport,read_size,throughput_mib_s,rcvbuf\n{delay},tcp,64K,1.3,128K\n{delay},tcp,64K,2.4,256K\n"
        )
    };
    let mut desk = desk();
    let error = desk.import(&table("91"), &[]).unwrap_err().to_string();
    assert!(error.contains("column link_delay: `91` has no unit: use ns, us, ms, s, m"), "{error}");
    let imported = desk.import(&table("91ms"), &[]).unwrap();
    assert_eq!(desk.store.cells(imported.session).unwrap()[0].cell.factors.link_delay(), Some(91_000_000));
}

#[test]
fn options_never_measured_again_may_be_drift() {
    let mut desk = desk();
    let mut check = |text: &str, groups: Option<&str>| {
        let imported = desk.import(text, &[]).unwrap();
        let notes = desk.store.session(imported.session).unwrap().notes;
        let drift_notes: Vec<&String> = notes.iter().filter(|note| note.contains("drift")).collect();
        let expected =
            groups.map(|groups| format!("{groups}: each option was measured in one go, in the order of the table: "));
        assert_eq!(drift_notes.len(), usize::from(groups.is_some()), "{notes:?}");
        assert!(expected.is_none_or(|expected| drift_notes[0].starts_with(&expected)), "{notes:?}");
    };
    // One run a size; only the Unix sockets have more than one size.
    check(TABLES, Some("g0"));
    // The third repetition returns to the first cell.
    check(GRID, None);
    let (header, row) = ("transport,buf_size,duration_sec,bytes\n", |size: u32| format!("tcp,{size},2,{size}000\n"));
    let table = |sizes: [u32; 4]| sizes.map(row).into_iter().fold(header.to_owned(), |table, row| table + &row);
    check(&table([1, 1, 2, 2]), Some("g0"));
    check(&table([1, 2, 2, 1]), None);
}

#[test]
fn text_tables_without_a_heading() {
    let row = "buf_size=4096; duration=2s; num_syscalls=1; 0.002 MiB/s; 0.5 syscalls/s; short_reads=0\n";
    let mut desk = desk();
    desk.check_refused(row, &[], &["line 1", "no heading above it", "--map transport==unix"]);
    desk.check_refused(&format!("# Results\n{row}"), &[], &["line 2", "`Results`, names no transport"]);
    let imported = desk.import(row, &[("transport", "=unix")]).unwrap();
    assert_eq!(desk.trials(imported.session), ["g0 c0 unix 4096/– – 4096 2000000000 0"]);
}

const GRID: &str = "\
machine_configuration,use_buffer,write_buffer_bytes,connection_type,read_buffer_bytes,duration_sec,num_syscalls,short_reads,throughput (MiB/s)
local,true,4096,unix,1024,2.0,1000,0,0.5
local,false,4096,unix,1024,2.0,1000,1,0.25
local,True,4096,TCP localhost,1024,2.0,1000,1,0.25
two hosts,False,4096,tcp,1024,2.0,1000,1,0.25
local,true,4096,unix,2048,2.0,1000,1,0.25
local,true,4096,unix,1024,2.5,1000,1,0.75
";

#[test]
fn the_published_grid_needs_no_mapping() {
    let mut desk = desk();
    let imported = desk.import(GRID, &[]).unwrap();
    assert_eq!(imported.warnings, [""; 0]);
    assert_eq!(
        desk.trials(imported.session),
        [
            "g0 c0 unix 1024/4096 local 1024000 2000000000 0",
            "g1 c1 unix 1024/4096 local 524288 2000000000 1",
            "g2 c2 tcp 1024/4096 local 524288 2000000000 2",
            "g3 c3 tcp 1024/4096 two hosts 524288 2000000000 3",
            "g0 c4 unix 2048/4096 local 524288 2000000000 0",
            "g0 c0 unix 1024/4096 local 1966080 2500000000 4",
        ]
    );
    let cells = desk.store.cells(imported.session).unwrap();
    let profile = |index: usize| {
        ["work", "writer_work", "profile", "working_set"].map(|n| cells[index].cell.factors.get(n).to_string())
    };
    assert_eq!(profile(0), ["sum", "touch", "sum", "0"]);
    assert_eq!(profile(1), ["none", "none", "drain", "0"]);
    // In block 4 one of the group's two cells is missing.
    let complete: Vec<bool> = desk.store.blocks(imported.session).unwrap().iter().map(|b| b.complete).collect();
    assert_eq!(complete, [true, true, true, true, false]);
    assert!(desk.store.trials(imported.session).unwrap().iter().all(|trial| trial.stage == Stage::Confirm));
}

#[test]
fn any_table_with_a_mapping() {
    let text = "buffer;secs;speed;weather\n64K;1.5;10;rain\n131072;1500ms;20.5;sun\n";
    let mut desk = desk();
    let map = [
        ("transport", "=tcp"),
        ("read_size", "buffer"),
        ("write_size", "buffer"),
        ("duration_sec", "secs"),
        ("throughput_gbit_s", "speed"),
    ];
    let imported = desk.import(text, &map).unwrap();
    assert_eq!(imported.warnings, ["column weather ignored: map it with --map factor=weather"]);
    assert_eq!(
        desk.trials(imported.session),
        ["g0 c0 tcp 65536/65536 – 1875000000 1500000000 0", "g0 c1 tcp 131072/131072 – 3843750000 1500000000 0",]
    );
}

#[test]
fn tables_that_lack_something() {
    let mut desk = desk();
    desk.check_refused("", &[], &["there is no trial"]);
    desk.check_refused("just words", &[], &["convert them to CSV"]);
    desk.check_refused("{\"a\": 1}", &[], &["line 1", "not the first line"]);
    desk.check_refused(
        "transport,buf_size,duration_sec\nunix,1,2\n",
        &[],
        &["no column for bytes or throughput", "transport, buf_size, duration_sec", "--map throughput_mib_s=COLUMN"],
    );
    desk.check_refused("a,b\n1,2\n", &[], &["no column for the transport", "a, b", "--map transport==VALUE"]);
    desk.check_refused("transport,buf_size,duration_sec,bytes\n", &[], &["there is no trial"]);
    let whole = "transport,buf_size,duration_sec,bytes\nunix,1,2,3\n";
    desk.check_refused(whole, &[("read_sise", "buf_size")], &["did you mean `read_size`?"]);
    desk.check_refused(
        whole,
        &[("write_size", "wbuf")],
        &["no such column", "transport, buf_size", "write_size==wbuf"],
    );
    desk.check_refused(whole, &[("flows", "bytes"), ("flows", "=2")], &["flows is mapped twice"]);
    desk.check_refused(whole, &[("write_size", "=1Q")], &["--map write_size==1Q", "`Q`"]);
}

#[test]
fn published_calls_need_only_missing_values() {
    let mut desk = desk();
    let text = "SO_RCVBUF,cps.mean,duration.mean\n2000,3120.5,16.1\n5000,4711.25,10.6\n100000,4698,10.7\n";
    desk.check_refused(text, &[], &["no column for the transport", "--map transport==VALUE"]);
    desk.check_refused(text, &[("transport", "=tcp")], &["no column for the size of a request", "--map request=="]);
    let imported = desk.import(text, &[("transport", "=tcp"), ("request", "=512")]).unwrap();
    assert!(imported.warnings.iter().any(|warning| warning.contains("the table has no durations")), "{imported:?}");
    let cells = desk.store.cells(imported.session).unwrap();
    let rcvbuf: Vec<_> = cells.iter().map(|row| row.cell.factors.rcvbuf()).collect();
    assert_eq!(rcvbuf, [Some(2000), Some(5000), Some(100_000)]);
    let trials = desk.store.trials(imported.session).unwrap();
    let rates: Vec<_> = trials.iter().map(|trial| (trial.workload, trial.rate())).collect();
    let calls = |rate| (Workload::Call, Some(rate));
    assert_eq!(rates, [calls(3120.5), calls(4711.25), calls(4698.0)]);
    let counted = "transport,request,connections,calls/s,seconds,completed_calls\nunix,64,50,,2.0,1000\n";
    let imported = desk.import(counted, &[]).unwrap();
    assert_eq!(imported.warnings, [""; 0]);
    assert_eq!(desk.store.trials(imported.session).unwrap()[0].rate(), Some(500.0));
}

#[test]
fn impossible_rates_are_refused_with_their_row() {
    let mut desk = desk();
    let head = "transport,buf_size,duration_ns,bytes\nunix,1,2000,3\n";
    let text = format!("{head}unix,1,1,18446744073709551615\n");
    desk.check_refused(&text, &[], &["line 3", "more than any memory can move", "check the units"]);
    let calls = "transport,request,duration_ns,completed_calls\nunix,1,1,1000\n";
    desk.check_refused(calls, &[], &["line 2", "more than any machine can make"]);
    desk.import(&format!("{head}unix,1,1000000000,4000000000000\n"), &[]).unwrap();
}

#[test]
fn long_fields_are_not_echoed() {
    let mut desk = desk();
    let long = "9".repeat(1 << 20);
    let mut check = |text: &str| {
        let message = desk.import(text, &[]).unwrap_err().to_string();
        assert!(message.len() < 2000, "{} bytes", message.len());
    };
    check(&format!("transport,buf_size,duration_sec,bytes\nunix,{long},2,3\n"));
    check(&format!("transport,buf_size,duration_sec,{long}\nunix,1,2,3\n"));
    check(&format!("{{\"kind\":\"{long}\"}}\n"));
}

#[test]
fn bad_lines_are_named_and_nothing_is_kept() {
    let mut desk = desk();
    let mut check = |row: &str, expected: &str| {
        let text = format!("transport,buf_size,duration_sec,bytes\nunix,1,2,3\n{row}\nunix,1,2,3\n");
        desk.check_refused(&text, &[], &["line 3", expected, "nothing was imported"]);
    };
    check("unix,1,2", "3 fields where the header has 4");
    check("pigeon,1,2,3", "`pigeon` names no transport");
    check("unix,-1,2,3", "column buf_size: `-1` is negative");
    check("unix,1,soon,3", "column duration_sec: `soon` is no number");
    check("unix,1,-2,3", "no number from 0 up");
    check("unix,1,0,3", "its duration is 0");
    check("unix,1,2,", "neither bytes nor a throughput");
    check("unix,1,2,many", "`many` is no count");
    check(",1,2,3", "it has no transport");
    let calls = "engine,transport,flows,request,calls_per_second\nepoll,tcp,50,1,200000\n";
    desk.check_refused(calls, &[], &["line 2", "rate of calls", "server_engine"]);
    let bad = "# Unix\nbuf_size=1; duration=2s; fast\n";
    desk.check_refused(bad, &[], &["line 2", "`fast`"]);
}

#[test]
fn json_lines_that_contradict_themselves() {
    let mut desk = desk();
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/fixtures/schema-3-stream.jsonl");
    let good = std::fs::read_to_string(good).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let mut check = |lines: &[&str], expected: &str| desk.check_refused(&lines.join("\n"), &[], &[expected]);
    check(&lines[1..], "not the first line");
    check(&[lines[0], lines[2]], "line 2: group g1 is not described by an earlier line");
    check(&[lines[0], lines[1], lines[lines.len() - 1]], "line 3: cell g1n is not described by an earlier line");
    check(&[lines[0], lines[0]], "line 2: a second session begins");
    check(&[lines[0], "{\"kind\":"], "line 2: EOF");
    let newer = lines[0].replacen("\"schema_version\":3", "\"schema_version\":7", 1);
    check(&[&newer], "exported by a newer bytegauge");
    desk.check_refused(&good, &[("flows", "x")], &["no columns to map"]);
}

#[test]
fn name_and_format_can_be_given() {
    let mut desk = desk();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid-2023.csv");
    std::fs::write(&path, GRID).unwrap();
    let imported = import_file(&mut desk.store, &path, &ImportOptions::default()).unwrap();
    assert_eq!(desk.store.session(imported.session).unwrap().plan_name, "grid-2023");
    let named = ImportOptions { name: Some("mine".into()), format: Some(Format::Csv), ..ImportOptions::default() };
    let imported = import_file(&mut desk.store, &path, &named).unwrap();
    assert_eq!(desk.store.session(imported.session).unwrap().plan_name, "mine");
    let error = import_file(&mut desk.store, &folder.path().join("none.csv"), &named).unwrap_err().to_string();
    assert!(error.contains("none.csv") && error.contains("check the path"), "{error}");
}

#[test]
fn numbers_may_have_separators() {
    let mut desk = desk();
    let imported = desk.import("transport;read_size;throughput_mib_s\ntcp;4K;11,090\ntcp;4K;11,100\n", &[]).unwrap();
    assert_eq!((imported.trials, imported.cells), (2, 1));
    let units = "transport;read_size;throughput\ntcp;4K;1500\n";
    desk_refuses(units, &["no unit", "GiB/s"]);
}

fn desk_refuses(text: &str, expected: &[&str]) {
    desk().check_refused(text, &[], expected);
}

#[test]
fn our_own_tables_are_refused() {
    let table = "session,cell,twin_of,block_complete,transport,read_size,bytes,wall_ns\n1,c0,,true,unix,1,2,3\n";
    desk_refuses(table, &["export of bytegauge", "bytegauge report export"]);
}

/// Every format has the same limits: nothing is imported beyond them.
#[test]
fn limits_hold_in_every_format() {
    let long = "x".repeat(5_000);
    let line = "x".repeat(100_000);
    let rows = |count: usize| (1..=count).map(|size| format!("tcp,{size},100000,1.5\n")).collect::<String>();
    let columns: String = (0..1_001).map(|column| format!(",c{column}")).collect();
    for (text, expected) in [
        (format!("transport,read_size,bytes,duration_sec,machine\ntcp,1,1,1,{long}\n"), "5000 bytes"),
        (format!("transport,read_size,bytes,duration_sec,{long}\ntcp,1,1,1,2\n"), "bytes in a field"),
        (format!("transport,read_size,bytes,duration_sec,{line}\ntcp,1,1,1,2\n"), "line 1: it has 100039 bytes"),
        (format!("transport,read_size,bytes,duration_sec{columns}\n"), "more than 1000 columns"),
        (format!("transport,read_size,bytes,duration_sec\n{}", rows(5_001)), "more than 5000 options"),
        (
            format!("transport,read_size,bytes,duration_sec\n{}", "tcp,1,1,1\n".repeat(300_001)),
            "more than 300000 results",
        ),
    ] {
        let mut desk = desk();
        let error = desk.import(&text, &[]).map(|_| ()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:.300}: {expected}");
        assert!(desk.store.sessions().unwrap().is_empty());
    }
    desk().import(&format!("transport,read_size,bytes,duration_sec\n{}", rows(1_000)), &[]).unwrap();
}
