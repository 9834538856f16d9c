//! The raw data of a session, read back through `export`: the contents of the store.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::bench::Bench;

/// The lines of one export, by kind.
#[derive(Debug, Default)]
pub struct Raw {
    /// The session.
    pub session: Value,
    /// Groups with their facts.
    pub groups: Vec<Value>,
    /// Cells with their outcomes.
    pub cells: Vec<Value>,
    /// Blocks.
    pub blocks: Vec<Value>,
    /// Trials, in the order of measurement.
    pub trials: Vec<Value>,
}

impl Raw {
    /// Reads a session back.
    #[track_caller]
    pub fn of(bench: &Bench, session: i64) -> Raw {
        Raw::parse(&bench.run(&format!("report export {session}")).exits(0).json_lines())
    }

    /// Sorts lines by kind.
    pub fn parse(lines: &[Value]) -> Raw {
        let mut raw = Raw::default();
        for line in lines {
            match line["kind"].as_str() {
                Some("session") => raw.session = line["session"].clone(),
                Some("group") => raw.groups.push(line.clone()),
                Some("cell") => raw.cells.push(line.clone()),
                Some("block") => raw.blocks.push(line["block"].clone()),
                Some("trial") => raw.trials.push(line["trial"].clone()),
                kind => panic!("a line of kind {kind:?}"),
            }
        }
        raw
    }

    /// The state of the session.
    pub fn status(&self) -> &str {
        self.session["status"].as_str().unwrap_or_default()
    }

    /// Complete confirmation blocks of every group.
    pub fn confirmed(&self) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<String, u64> =
            self.groups.iter().map(|line| (name(&line["group"]["id"]), 0)).collect();
        for block in self.blocks.iter().filter(|block| block["stage"] == "confirm" && block["complete"] == true) {
            *counts.entry(name(&block["group"])).or_default() += 1;
        }
        counts
    }

    /// Trials that were not measured, with their reasons.
    pub fn reasons(&self) -> Vec<String> {
        let outcomes = self.trials.iter().map(|trial| &trial["outcome"]);
        outcomes.filter(|outcome| outcome["kind"] != "measured").map(|outcome| name(&outcome["reason"])).collect()
    }

    /// The same without those of a busy machine that kept an end from running in a short trial.
    pub fn troubles(&self) -> Vec<String> {
        self.reasons()
            .into_iter()
            .filter(|reason| {
                !["use a longer --trial-time", "measured once more, for longer"]
                    .iter()
                    .any(|busy| reason.contains(busy))
            })
            .collect()
    }

    /// Conditions of every session, complete or interrupted: blocks have consecutive numbers; within a
    /// block positions are consecutive from 0; a complete block has a measured trial of each compared cell; the counts of
    /// each trial agree.
    #[track_caller]
    pub fn check_sound(&self) {
        let mut by_block: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        for trial in &self.trials {
            by_block.entry(number(&trial["block"])).or_default().push(trial);
        }
        // A block that was cut off has trials but no record, one stopped at once a record but no trials.
        let recorded = self.blocks.iter().map(|block| number(&block["index"]));
        let numbers: BTreeSet<u64> = by_block.keys().copied().chain(recorded).collect();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "blocks {numbers:?}");
        for (block, trials) in &by_block {
            let positions: Vec<u64> = trials.iter().map(|trial| number(&trial["position"])).collect();
            assert_eq!(positions, (0..positions.len() as u64).collect::<Vec<_>>(), "positions in block {block}");
        }
        let floors: Vec<&Value> = self
            .cells
            .iter()
            .map(|line| &line["cell"])
            .filter(|cell| cell["kind"] == "floor")
            .map(|cell| &cell["id"])
            .collect();
        for block in self.blocks.iter().filter(|block| block["complete"] == true) {
            let trials = by_block.get(&number(&block["index"])).map(Vec::as_slice).unwrap_or_default();
            assert!(!trials.is_empty(), "an empty block counts as complete: {block}");
            // The harness's own trial is compared with nothing: one that failed costs a block no answer.
            let lost = trials
                .iter()
                .filter(|trial| trial["outcome"]["kind"] != "measured" && !floors.contains(&&trial["cell"]));
            assert_eq!(lost.collect::<Vec<_>>(), Vec::<&&Value>::new(), "{block}");
        }
        for trial in self.trials.iter().filter(|trial| trial["outcome"]["kind"] == "measured") {
            check_trial(trial);
        }
    }
}

#[track_caller]
fn check_trial(trial: &Value) {
    if trial["workload"] == "tune" {
        // The bytes of an external program can be unknown.
        let end = &trial["ends"]["command"];
        assert!(end["task"]["rate"].as_f64() > Some(0.0) && number(&end["window_ns"]) > 0, "{trial}");
        return assert_eq!(trial["wall_ns"], end["window_ns"], "{trial}");
    }
    let sink = &trial["ends"]["sink"];
    assert!(number(&trial["bytes"]) > 0 && number(&trial["wall_ns"]) > 0, "{trial}");
    assert_eq!(trial["bytes"], sink["bytes"], "{trial}");
    assert!(number(&sink["total_bytes"]) >= number(&sink["bytes"]), "{trial}");
    assert!(number(&sink["short_calls"]) <= number(&sink["calls"]), "{trial}");
    let flows = sink["flows"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(flows.iter().map(|flow| number(&flow["bytes"])).sum::<u64>(), number(&sink["bytes"]), "{trial}");
    if !trial["ends"]["source"].is_null() {
        assert_eq!(trial["ends"]["source"]["total_bytes"], sink["total_bytes"], "{trial}");
    }
}

/// A whole number that must be there.
#[track_caller]
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

/// The sentences of a document about the conditions of its results: their scope, relays, links.
pub fn scope(document: &Value) -> Vec<String> {
    document["scope"].as_array().expect("a list").iter().map(name).collect()
}

/// A name that must be there.
#[track_caller]
pub fn name(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
