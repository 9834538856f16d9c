//! Output for other programs, read by these programs where they are installed.

use crate::bench::{Bench, possible};

/// A session of two values, of which nothing but what is printed decides.
fn session(bench: &Bench) {
    let words = ["tune", "--blocks", "6", "--analyses", "1", "--seed", "1", "--values", "1,2", "--quiet", "--metric"];
    let words: Vec<&str> = words.into_iter().chain(["time:took (.*)", "--", "echo", "took", "{value}"]).collect();
    bench.run_args(&words).exits(0);
}

#[test]
fn benchstat_reads_our_lines() {
    let why = "install it with `go install golang.org/x/perf/cmd/benchstat@latest`";
    if !possible(why, "benchstat", &["-h"]) {
        return;
    }
    let bench = Bench::new();
    session(&bench);
    let lines = bench.run("report --format go-bench").exits(0).stdout;
    let (base, head) = (bench.write("base.txt", &lines), bench.write("head.txt", &lines));
    let read = bench.shell(&format!("benchstat {base} {head}")).exits(0);
    read.prints(&["Check/value=1", "Check/value=2", "sec/op", "cpu-sec/op", "vs base"]);
}

#[test]
fn a_parser_of_openmetrics_reads_our_gauges() {
    gauges_are_read("prometheus_client.openmetrics.parser", "openmetrics");
}

#[test]
fn parser_of_prometheus_reads_gauges() {
    gauges_are_read("prometheus_client.parser", "prom");
}

fn gauges_are_read(module: &str, format: &str) {
    const PARSER: &str = "import text_string_to_metric_families as parse";
    let parser = &format!("from {module} {PARSER}");
    if !possible("install it with `apt-get install python3-prometheus-client`", "python3", &["-c", parser]) {
        return;
    }
    let bench = Bench::new();
    session(&bench);
    let script = format!(
        "{parser}\nimport sys\nfor family in parse(sys.stdin.read()):\n  \
         for sample in family.samples: print(family.type, sample.name, sample.labels['value'])"
    );
    assert_eq!(
        bench.run(&format!("report --format {format}")).exits(0).stdout.contains("# EOF"),
        format == "openmetrics"
    );
    let program = bench.write("read.py", &script);
    let read = bench.shell(&format!("\"$BYTEGAUGE\" report --format {format} | python3 {program}")).exits(0);
    read.prints(&["gauge bytegauge_rate 1", "gauge bytegauge_rate 2", "gauge bytegauge_trials 1"]);
}
