//! Reads the output of benchmark tools: `go test -bench`, benchstat, hyperfine, wrk and oha.
//!
//! Such results name a benchmark or a command and its rate, and nothing of a path. They become a session of the workload
//! `check`: a benchmark is a test, its variants are the values that are compared, and the nth result of each variant is its nth
//! block.

use std::rc::Rc;

use bytegauge_model::{
    CellId, CellKind, Counted, EndReport, EndRole, Level, Outcome, Spec, Stage, TaskReport, Trial, Workload,
};

use super::arrange::arrange;
use super::limits;
use super::number::number;
use super::observation::{MACHINE, Observation};
use super::{Format, ImportDraft, ImportError, Parser, is_external_json};

/// One published result.
#[derive(Clone, Debug, PartialEq)]
struct PublishedResult {
    line: u64,
    /// The benchmark; empty where there is only one.
    test: String,
    /// The variant.
    value: String,
    /// Runs or requests per second.
    per_second: f64,
    /// How many of them were measured; 1 where that is not known.
    runs: u64,
}

/// Lines of `go test -bench`.
pub(super) struct GoBench;
/// A table of benchstat.
pub(super) struct Benchstat;
/// The document of `hyperfine --export-json`.
pub(super) struct Hyperfine;
/// The output of wrk, wrk2 and oha.
pub(super) struct HttpLoad;

/// The samples of data, or the line and what is wrong there.
type ResultsOrError = Result<Vec<PublishedResult>, (u64, String)>;

macro_rules! parser {
    ($name:ident, $is:ident, $samples:ident) => {
        impl Parser for $name {
            fn format(&self) -> Format {
                Format::$name
            }

            fn recognises(&self, text: &str, first: &str) -> bool {
                $is(text, first)
            }

            fn parse(
                &self,
                text: &str,
                map: &[(String, String)],
                name: Option<String>,
            ) -> Result<ImportDraft, ImportError> {
                draft($samples(text), map, name, Format::$name)
            }
        }
    };
}

parser!(GoBench, is_go_bench, go_bench);
parser!(Benchstat, is_benchstat, benchstat);
parser!(Hyperfine, is_hyperfine, hyperfine);
parser!(HttpLoad, is_http_load, http_load);

fn is_go_bench(text: &str, _: &str) -> bool {
    text.lines().any(|line| go_line(1, line).is_some())
}

fn is_benchstat(text: &str, _: &str) -> bool {
    text.contains('│') && text.contains("/op")
}

fn is_hyperfine(text: &str, first: &str) -> bool {
    is_external_json(first) && text.contains("\"times\"")
}

fn is_http_load(text: &str, _: &str) -> bool {
    text.lines().any(|line| requests_per_second(line).is_some())
}

fn draft(
    samples: ResultsOrError,
    map: &[(String, String)],
    name: Option<String>,
    format: Format,
) -> Result<ImportDraft, ImportError> {
    if let Some((ours, theirs)) = map.first().cloned() {
        return Err(ImportError::MapUseless { ours, theirs, format });
    }
    let samples = samples.map_err(|(line, reason)| ImportError::Line { line, reason })?;
    limits::results(samples.len())?;
    let mut draft = arrange(samples.iter().map(observation).collect(), name, Vec::new())?;
    draft.session.notes.push(format!("imported from {format}: the machine and the order of the runs are not known"));
    Ok(draft)
}

fn observation(sample: &PublishedResult) -> Observation {
    let mut factors = Spec::of(Workload::Check);
    factors.set("value", Level::Name(sample.value.clone()));
    if !sample.test.is_empty() {
        factors.set(MACHINE, Level::Name(sample.test.clone()));
    }
    let task = TaskReport { rate: sample.per_second, counted: Counted::Runs, ..TaskReport::default() };
    let end = EndReport { task: Some(Box::new(task)), ..EndReport::default() };
    let cell = CellId("".into());
    let trial = Trial {
        calls: sample.runs,
        wall_ns: (sample.runs as f64 / sample.per_second * 1e9) as u64,
        ends: [(EndRole::Command, end)].into_iter().collect(),
        ..Trial::without_numbers(cell, Workload::Check, Stage::Confirm, Outcome::Measured)
    };
    Observation {
        line: sample.line,
        factors: Rc::new(factors),
        group: None,
        cell: None,
        kind: CellKind::Candidate,
        twin_of: None,
        block: None,
        position: None,
        block_complete: None,
        trial,
    }
}

/// `BenchmarkRead/64K-8` as `Read` and `64K`; without a variant the benchmark is the value of one test.
fn benchmark(name: &str) -> (String, String) {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    // The number of CPUs that Go appends.
    let name = match name.rsplit_once('-') {
        Some((name, cpus)) if cpus.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    };
    match name.split_once('/') {
        Some((test, value)) => (test.to_owned(), value.to_owned()),
        None => (String::new(), name.to_owned()),
    }
}

/// `BenchmarkRead/64K-8   1000   1234 ns/op   53.1 MB/s`.
fn go_line(line: u64, text: &str) -> Option<Result<PublishedResult, (u64, String)>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, runs, rest @ ..] = words.as_slice() else { return None };
    let ns = rest.windows(2).find(|pair| pair[1] == "ns/op")?[0];
    if !name.starts_with("Benchmark") {
        return None;
    }
    let parsed = number(ns).ok().filter(|ns| *ns > 0.0).zip(runs.parse().ok());
    let Some((ns, runs)) = parsed else { return Some(Err((line, format!("`{ns} ns/op` is no time above 0")))) };
    let (test, value) = benchmark(name);
    Some(Ok(PublishedResult { line, test, value, per_second: 1e9 / ns, runs }))
}

fn go_bench(text: &str) -> ResultsOrError {
    (1..).zip(text.lines()).filter_map(|(line, text)| go_line(line, text)).collect()
}

/// Units of time per operation in a table of benchstat, seconds.
const BENCHSTAT_UNITS: [(&str, f64); 5] = [("n", 1e-9), ("µ", 1e-6), ("u", 1e-6), ("m", 1e-3), ("", 1.0)];

/// The columns of a table in `sec/op` are the values, its rows the tests. Other tables (bytes and allocations) are left out.
fn benchstat(text: &str) -> ResultsOrError {
    let (mut names, mut before, mut in_time) = (Vec::new(), Vec::new(), false);
    let mut samples = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.contains('│') {
            let columns: Vec<String> =
                text.split('│').map(str::trim).filter(|column| !column.is_empty()).map(str::to_owned).collect();
            if columns.iter().any(|column| column.contains("/op") || column.contains("B/s")) {
                in_time = columns[0].starts_with("sec/op") || columns[0].starts_with("time/op");
                names = std::mem::take(&mut before);
            } else {
                before = columns;
            }
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((name, rest)) = words.split_first().filter(|(name, _)| in_time && **name != "geomean") else {
            continue;
        };
        // The value is in front of its `±`.
        let values = rest.iter().zip(rest.iter().skip(1)).filter(|(_, next)| **next == "±").map(|(value, _)| *value);
        for (at, value) in values.enumerate() {
            let unit = BENCHSTAT_UNITS.iter().find_map(|(unit, s)| Some((value.strip_suffix(unit)?, *s)));
            let seconds = unit.and_then(|(digits, unit)| Some(number(digits).ok()? * unit)).filter(|s| *s > 0.0);
            let seconds =
                seconds.ok_or_else(|| (line, format!("`{value}` is no time per operation, such as 1.72µ")))?;
            let value = names.get(at).cloned().unwrap_or_else(|| format!("column {}", at + 1));
            let test = benchmark(name);
            let test = if test.0.is_empty() { test.1 } else { format!("{}/{}", test.0, test.1) };
            samples.push(PublishedResult { line, test, value, per_second: 1.0 / seconds, runs: 1 });
        }
    }
    Ok(samples)
}

fn hyperfine(text: &str) -> ResultsOrError {
    let document: serde_json::Value =
        serde_json::from_str(text).map_err(|error| (error.line() as u64, format!("it is not JSON: {error}")))?;
    let results = document.get("results").and_then(|results| results.as_array());
    let mut samples = Vec::new();
    for result in
        results.ok_or_else(|| (1, "it has no `results`, as `hyperfine --export-json` writes them".to_owned()))?
    {
        let command = result.get("command").and_then(|command| command.as_str()).unwrap_or("command").to_owned();
        for time in result.get("times").and_then(|times| times.as_array()).into_iter().flatten() {
            let seconds = time.as_f64().filter(|seconds| *seconds > 0.0);
            let seconds = seconds.ok_or_else(|| (1, format!("`{time}` of `{command}` is no time above 0")))?;
            let (test, value) = (String::new(), command.clone());
            samples.push(PublishedResult { line: 1, test, value, per_second: 1.0 / seconds, runs: 1 });
        }
    }
    Ok(samples)
}

/// `Requests/sec:  12,345.67`, as wrk and oha print it.
fn requests_per_second(line: &str) -> Option<&str> {
    line.trim().strip_prefix("Requests/sec:").map(str::trim)
}

/// Each output is a result. It is named by its `Running … @ URL` line and its connections, or `run`.
fn http_load(text: &str) -> ResultsOrError {
    let (mut url, mut connections) = (None, None);
    let mut samples = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let trimmed = text.trim();
        if let Some((_, target)) = trimmed.split_once(" @ ").filter(|_| trimmed.starts_with("Running")) {
            (url, connections) = (Some(target.to_owned()), None);
        } else if trimmed.ends_with("connections") {
            connections = Some(trimmed.to_owned());
        } else if let Some(rate) = requests_per_second(text) {
            let per_second = number(rate).ok().filter(|rate| *rate > 0.0);
            let per_second = per_second.ok_or_else(|| (line, format!("`{rate}` is no rate above 0")))?;
            let names: Vec<String> = [url.clone(), connections.clone()].into_iter().flatten().collect();
            let value = if names.is_empty() { "run".to_owned() } else { names.join(", ") };
            samples.push(PublishedResult { line, test: String::new(), value, per_second, runs: 1 });
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: ResultsOrError, expected: &[(&str, &str, f64)]) {
        let samples = samples.unwrap();
        let found: Vec<(&str, &str, f64)> = samples
            .iter()
            .map(|one| (one.test.as_str(), one.value.as_str(), (one.per_second * 100.0).round() / 100.0))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_go() {
        let text = "goos: linux\npkg: x\nBenchmarkRead/4K-8 \t 1000 \t 2000 ns/op \t 53.10 MB/s\nBenchmarkRead/64K-8 10 1,000,000 ns/op\n\
                    BenchmarkEcho 7 500 ns/op\nPASS\n";
        check(go_bench(text), &[("Read", "4K", 500_000.0), ("Read", "64K", 1000.0), ("", "Echo", 2_000_000.0)]);
        assert!(go_bench("BenchmarkRead-8 10 0 ns/op").is_err());
    }

    #[test]
    fn tables_of_benchstat() {
        let text = "goos: linux\n          │  old.txt  │             new.txt             │\n          │  sec/op   │   sec/op     vs base            │\n\
                    Read/4K-8   2.000µ ± 1%   1.000µ ± 2%  -50.00% (p=0.000 n=10)\ngeomean 1µ 1µ\n\n          │ old.txt │ new.txt │\n\
                    \x20         │  B/op   │  B/op   │\nRead/4K-8   16.00 ± 0%   16.00 ± 0%\n";
        check(benchstat(text), &[("Read/4K", "old.txt", 500_000.0), ("Read/4K", "new.txt", 1_000_000.0)]);
    }

    #[test]
    fn documents_of_hyperfine() {
        let text = r#"{"results":[{"command":"a","times":[0.5,0.25]},{"command":"b","times":[1.0]}]}"#;
        check(hyperfine(text), &[("", "a", 2.0), ("", "a", 4.0), ("", "b", 1.0)]);
        assert!(hyperfine("{}").is_err() && hyperfine(r#"{"results":[{"command":"a","times":[0]}]}"#).is_err());
    }

    #[test]
    fn outputs_of_http_load_generators() {
        let text = "Running 30s test @ http://a:80/\n  2 threads and 100 connections\nRequests/sec:  12,345.5\nTransfer/sec: 1MB\n\
                    Running 30s test @ http://b:80/\nRequests/sec: 7\n";
        check(
            http_load(text),
            &[("", "http://a:80/, 2 threads and 100 connections", 12_345.5), ("", "http://b:80/", 7.0)],
        );
        check(http_load("Summary:\n  Requests/sec:\t3.5\n"), &[("", "run", 3.5)]);
    }
}
