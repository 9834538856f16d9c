//! Formats for other programs: each is read back by a small parser of its grammar, and the numbers are those of the
//! session.

use std::collections::BTreeMap;

use bytegauge_model::{CellKind, Outcome};
use bytegauge_report::render;
use bytegauge_report::results::{Claim, InvalidReason};
use bytegauge_report::{Report, SessionData, Settings};

use crate::support::{Plan, session};

fn planted() -> (SessionData, Report) {
    let plan = Plan {
        transports: vec!["unix", "tcp"],
        profiles: vec!["sum"],
        read_sizes: vec![4096, 65_536],
        write_sizes: vec![65_536],
        finalists: 2,
        confirm_blocks: 8,
        ..Plan::default()
    };
    let data = session(&plan);
    let view = Report::of(&data, &Settings::default());
    (data, view)
}

/// golang.org/design/14313-benchmark-format: a name without spaces, a count, pairs of a number and a unit.
fn benchmarks(text: &str) -> BTreeMap<String, Vec<BTreeMap<String, f64>>> {
    let mut read: BTreeMap<String, Vec<BTreeMap<String, f64>>> = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("Benchmark") else {
            let known = line.starts_with("Unit ")
                || line.split_once(": ").is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase()));
            assert!(known, "neither a line of a configuration nor of a unit: {line}");
            continue;
        };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        assert!(
            rest.starts_with(|c: char| c.is_ascii_uppercase()) && fields.len() >= 4 && fields.len().is_multiple_of(2),
            "{line}"
        );
        assert!(fields[1].parse::<u64>().is_ok_and(|count| count > 0), "{line}");
        let pairs = fields[2..].chunks(2).map(|pair| (pair[1].to_owned(), pair[0].parse().expect("a number")));
        read.entry(fields[0].to_owned()).or_default().push(pairs.collect());
    }
    read
}

#[test]
fn benchstat_finds_a_line_a_trial() {
    let (data, view) = planted();
    let read = benchmarks(&render::go_bench::render(&view, &data));
    let cells: Vec<_> = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.trials > 0).collect();
    assert_eq!(read.len(), cells.len());
    for cell in cells {
        let name = format!("BufferSize/transport={}/read_size={}", cell.level("transport"), cell.level("read_size"));
        let trials = &read[&name];
        assert_eq!(trials.len(), cell.trials, "{name}");
        let own = data.trials.iter().find(|trial| trial.cell == cell.id && Some(trial.stage) == cell.stage).unwrap();
        let (first, rate) = (&trials[0], own.rate().unwrap());
        assert!((first["B/s"] / rate - 1.0).abs() < 1e-4 && first.contains_key("cpu-ns/MiB"), "{first:?}");
        assert!((first["ns/MiB"] * rate / (1e9 * 1_048_576.0) - 1.0).abs() < 1e-4, "{first:?}");
    }
}

#[test]
fn a_trial_that_failed_is_no_benchmark() {
    let (mut data, view) = planted();
    let lines = |data: &SessionData| render::go_bench::render(&view, data).lines().count();
    let before = lines(&data);
    let cell = view.cells.iter().find(|cell| cell.trials > 0).unwrap();
    let trial = data.trials.iter_mut().find(|trial| trial.cell == cell.id && Some(trial.stage) == cell.stage).unwrap();
    trial.outcome = Outcome::Failed("planted".into());
    assert_eq!(lines(&data), before - 1);
}

/// The elements of a document, in order: every one that is opened is closed, and nothing in it is unescaped.
fn elements(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let (mut open, mut found, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once('<') {
        assert!(!before.contains('>') && !before.contains("&&"), "{before}");
        let (tag, after) = after.split_once('>').expect("a tag's end");
        rest = after;
        if tag.starts_with('?') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (tag, alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut read = BTreeMap::new();
        let mut quoted = attributes.split('"');
        while let (Some(key), Some(value)) = (quoted.next(), quoted.next()) {
            read.insert(key.trim().trim_end_matches('=').to_owned(), value.to_owned());
        }
        found.push((name.to_owned(), read));
        if !alone {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    found
}

#[test]
fn junit_has_a_case_for_each_test() {
    let (_, mut view) = planted();
    let count =
        |view: &Report, name: &str| elements(&render::junit::render(view)).iter().filter(|(of, _)| of == name).count();
    let ids: Vec<_> = view.tests[1].options.iter().map(|option| option.id.clone()).collect();
    view.tests[0].claim = Claim::Use { options: ids.clone(), at_most: 0.0 };
    view.tests[1].claim = Claim::FreeChoice { options: ids, apart: 0.1 };
    view.decisions[1].set.clear();
    view.decisions[1].why = "a < b & \"c\" > 'd' \u{1}".into();
    assert_eq!((count(&view, "testcase"), count(&view, "skipped"), count(&view, "failure")), (view.tests.len(), 1, 0));
    let read = elements(&render::junit::render(&view));
    let skipped = read.iter().find(|(name, _)| name == "skipped").unwrap();
    assert_eq!(skipped.1["message"], ": a &lt; b &amp; &quot;c&quot; &gt; &apos;d&apos; \\u{1}");
    let suite = &read.iter().find(|(name, _)| name == "testsuite").unwrap().1;
    assert_eq!((suite["tests"].as_str(), suite["skipped"].as_str(), suite["errors"].as_str()), ("2", "1", "0"));
    view.tests[0].claim = Claim::Invalid { reason: InvalidReason::NothingMeasured };
    assert_eq!((count(&view, "error"), count(&view, "skipped")), (1, 1));
}
