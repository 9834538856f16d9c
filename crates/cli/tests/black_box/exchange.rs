//! Data that go out and come in: our own lines, tables of others.

use serde_json::Value;

use crate::bench::{Bench, QUICK};
use crate::contract::check_document;
use crate::raw::number;

const SEED_TEXT: &str = "\
# Buffer Size Benchmark

## Unix sockets

Best = 4 KiB

```
buf_size=1024; duration=1.941036403s; num_syscalls=6504097; 3272.3 MiB/s; 3350837.2 syscalls/s; short_reads=55
buf_size=2048; duration=1.906473243s; num_syscalls=5317469; 5442.1 MiB/s; 2789165.3 syscalls/s; short_reads=11736
buf_size=4096; duration=1.720335621s; num_syscalls=3286452; 7444.7 MiB/s; 1910355.1 syscalls/s; short_reads=21315
```

## /dev/zero

```
buf_size=4096; duration=2s; num_syscalls=9000000; 17578.1 MiB/s; 4500000.0 syscalls/s; short_reads=0
```
";

const GRID: &str = "\
machine_configuration,use_buffer,write_buffer_bytes,connection_type,read_buffer_bytes,duration_sec,num_syscalls,short_reads,throughput (MiB/s)
local,true,4096,unix,1024,2.0,204800,0,100
local,true,4096,unix,2048,2.0,204800,1,200
local,true,65536,unix,1024,2.0,307200,1,150
local,false,4096,tcp,1024,2.0,163840,1,80
";

/// A document without what a store decides: the session's number, and that only the original can be resumed.
/// The heading names the session, and the next command differs for a copy.
fn reported(bench: &Bench, session: i64) -> Value {
    let mut document = bench.run(&format!("report {session} --format json")).exits(0).json();
    check_document(&document);
    document["session"] = Value::Null;
    for key in ["heading", "next"] {
        document.as_object_mut().expect("an object").remove(key).expect(key);
    }
    without_advice(&mut document);
    document
}

/// Without the forecasts, which only the original has.
fn without_advice(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_advice),
        Value::Object(keys) => {
            keys.remove("more_blocks");
            keys.values_mut().for_each(without_advice);
        }
        _ => {}
    }
}

#[test]
fn our_own_lines_come_back_as_they_were() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    bench.run("report export 1 -o out.jsonl").exits(0);
    bench.run("report import out.jsonl").exits(0).prints(&["session 2", "bytegauge report 2"]);
    let elsewhere = bench.run("--store other.db report import out.jsonl").exits(0);
    elsewhere.prints(&["show it with `bytegauge --store /", "other.db report 1`"]);
    assert_eq!(reported(&bench, 2), reported(&bench, 1));
    let without_header = |session: i64| {
        let text = bench.run(&format!("report export {session}")).exits(0).stdout;
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_header(2), without_header(1));
    bench.run("report list").exits(0).prints(&["complete, imported"]);
    // An imported session cannot be resumed.
    bench.run("stream --resume 2").exits(2).complains(&["session 2 was measured elsewhere"]);
}

#[test]
fn own_csv_is_refused() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    bench.run("report export 1 --format csv -o out.csv").exits(0);
    bench.run("report import out.csv").exits(2).complains(&["export of bytegauge", "JSON lines"]);
}

#[test]
fn imported_table_is_mapped() {
    let bench = Bench::new();
    // Without a trend: blocks that resemble their neighbours would be merged, and rightly.
    let noise = [3, 0, 5, 1, 6, 2, 4, 7, 1, 5, 0, 6];
    let rows: String = noise.iter().map(|n| format!("4096;1.0;{}\n65536;1.0;{}\n", 1000 + n, 2000 - n)).collect();
    bench.write("strange.csv", &format!("buffer;secs;MBps\n{rows}"));
    let map = "--map read_size=buffer,duration_sec=secs --map throughput_megabytes_s=MBps --map transport==unix,write_size==64K";
    bench.run(&format!("report import strange.csv {map}")).exits(0).prints(&["24 trials of 2 options"]);
    let document = reported(&bench, 1);
    let medians: Vec<f64> = document["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter_map(|cell| cell["estimate"]["median"].as_f64())
        .collect();
    assert_eq!(medians.len(), 2);
    assert!((1.0e9..1.01e9).contains(&medians[0]) && (1.99e9..2.0e9).contains(&medians[1]), "{medians:?}");
    assert_eq!(document["groups"][0]["best_set"], serde_json::json!([document["cells"][1]["id"]]), "statistics apply");
}

#[test]
fn what_is_no_file_is_not_read() {
    let bench = Bench::new();
    bench.shell("mkfifo pipe").exits(0);
    bench
        .run("report import pipe")
        .exits(2)
        .complains(&["pipe is a named pipe, not a file", "bytegauge report import - <pipe"]);
    bench.run("report import /dev/zero").exits(2).complains(&["/dev/zero is a device"]);
}

#[test]
fn standard_input_is_imported_and_reported() {
    let bench = Bench::new();
    bench.write("calls.csv", "SO_RCVBUF,cps.mean\n2000,3120.5\n5000,4711.25\n");
    let words = "report import - --map transport==tcp,request==512 <calls.csv";
    bench.shell(&format!("exec \"$BYTEGAUGE\" {words}")).exits(0).prints(&["2 trials of 2 options"]);
    bench.run("report --full").exits(0).prints(&["k calls/s", "5000 B       4.71"]);
    bench.run("report --interval 1s").exits(0).prints(&["OVER TIME", "--trial-time 10s"]);
    bench
        .run("stream --interval 1ms --transport unix")
        .exits(2)
        .complains(&["--interval: bins are a millisecond long"]);
    bench
        .shell(&format!("cat calls.csv | {}", "\"$BYTEGAUGE\" report import - 2>&1"))
        .exits(2)
        .prints(&["--map transport=="]);
}

#[test]
fn the_published_grid_needs_no_mapping() {
    let bench = Bench::new();
    bench.write("grid.csv", GRID);
    let ran = bench.run("report import grid.csv").exits(0).prints(&["4 trials of 4 options"]);
    assert_eq!(ran.stderr, "");
    let document = reported(&bench, 1);
    assert_eq!(document["plan"]["name"], "grid");
    let cell = &document["cells"][1];
    assert_eq!((number(&cell["factors"]["read_size"]), number(&cell["factors"]["write_size"])), (2048, 4096));
    assert_eq!(cell["estimate"]["median"], 200.0 * 1024.0 * 1024.0);
    bench.run("report --full").exits(0).prints(&["4K"]);
}

#[test]
fn the_published_text_needs_no_mapping() {
    let bench = Bench::new();
    bench.write("published.txt", SEED_TEXT);
    bench.run("report import published.txt").exits(0).prints(&["4 trials of 4 options"]);
    let document = reported(&bench, 1);
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    let median = cells[2]["estimate"]["median"].as_f64().expect("a median") / (1024.0 * 1024.0);
    assert!((median - 7444.7).abs() < 0.1, "{median}");
    assert_eq!(number(&cells[2]["counters"]["short_reads"]), 21315);
    assert!(document["environment"]["grade"].is_null(), "nothing is known about that machine");
    bench.run("report --full").exits(0).prints(&[
        "Unix sockets",
        "/dev/zero",
        "imported",
        "cannot be separated from the choice",
    ]);
    for format in ["csv", "markdown"] {
        bench.run(&format!("report --format {format}")).exits(0);
    }
}
