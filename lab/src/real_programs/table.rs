//! A table of the results in the sessions' documents. Judges nothing by itself.

use bytegauge_model::Bytes;
use bytegauge_model::unit::significant;
use serde_json::Value;

use super::cases::{ProgramCase, VALUES};
use xtask::markdown::table;

/// Limits of a good result, and of a bad one for a single case.
const GOOD: f64 = 0.05;
const BAD: f64 = 0.15;

/// CPU use of other programs above which misses of a case show nothing.
const CROWDED: f64 = 0.2;

/// One size of a program.
struct Tried {
    size: u64,
    rate: f64,
    /// Bounds of how much slower it is than the best confirmed one, simultaneous.
    bounds: Option<(f64, f64)>,
    is_best: bool,
}

/// How much slower the recommended size is than the program's best.
struct LossRow {
    by_median: f64,
    bounds: Option<(f64, f64)>,
}

impl LossRow {
    fn is_shown_good(&self) -> bool {
        self.bounds.is_some_and(|(_, upper)| upper <= GOOD)
    }

    fn may_be_good(&self) -> bool {
        self.by_median <= GOOD || self.bounds.is_some_and(|(lower, _)| lower <= GOOD)
    }
}

/// The result of one case.
struct CaseResult<'a> {
    case: &'a ProgramCase,
    question: String,
    /// Every size that the recommendation names, and the one that a single setting takes.
    named: Vec<String>,
    advised: Option<u64>,
    tried: Vec<Tried>,
    steal: f64,
    /// CPU use of other programs, during the test or during the program: the larger.
    others: f64,
}

/// The section.
pub fn text(measured: &[(&ProgramCase, Value)], missing: &[String]) -> String {
    let stories: Vec<CaseResult<'_>> =
        measured.iter().map(|(case, documents)| CaseResult::of(case, documents)).collect();
    let losses: Vec<LossRow> = stories.iter().filter_map(CaseResult::loss).collect();
    let defaults: Vec<f64> = stories.iter().filter_map(|story| story.above_best(story.default()?)).collect();
    let count = |holds: &dyn Fn(&LossRow) -> bool| losses.iter().filter(|loss| holds(loss)).count();
    let worst = |losses: &mut dyn Iterator<Item = f64>| losses.fold(0.0, f64::max);
    let mut text = format!(
        "For each program the matching test by `bytegauge stream`, then \
         the program itself by `bytegauge tune` with the recommendation among 4, 16, 64, 256 KiB and 1 MiB, in random order \
         within blocks.\n\n\
         In {} cases the recommendation is within 5 % of the program's best in {} (95 % confidence); its median is within 5 % in {}, its \
         interval reaches there in {}; the worst median is {} slower. Defaults of the programs, or common choices: within 5 % in {}, \
         the worst {} slower.\n\n",
        losses.len(),
        count(&LossRow::is_shown_good),
        count(&|loss| loss.by_median <= GOOD),
        count(&LossRow::may_be_good),
        share(worst(&mut losses.iter().map(|loss| loss.by_median))),
        defaults.iter().filter(|loss| **loss <= GOOD).count(),
        share(worst(&mut defaults.iter().copied())),
    );
    text.push_str(&constants(&stories));
    text.push_str(&hindsight(&stories));
    text.push_str(&table(
        &[
            "program",
            "set",
            "test",
            "recommendation",
            "best set of the program",
            "slower than its best",
            "default",
            "CPU steal",
            "others, CPUs",
        ],
        stories.iter().map(CaseResult::row),
    ));
    let of = |holds: &dyn Fn(f64) -> bool| -> Vec<&str> {
        let losing = stories.iter().filter(|story| story.loss().is_some_and(|loss| holds(loss.by_median)));
        losing.map(|story| story.case.name).collect()
    };
    for (what, names) in [
        ("Beyond 15 %", of(&|loss| loss > BAD)),
        ("Between 5 and 15 %", of(&|loss| loss > GOOD && loss <= BAD)),
        (
            "With other programs' work (more than 0.2 CPUs), so that a miss shows nothing",
            stories.iter().filter(|story| story.others > CROWDED).map(|story| story.case.name).collect(),
        ),
        (
            "Without a result",
            stories.iter().filter(|story| story.loss().is_none()).map(|story| story.case.name).collect(),
        ),
    ] {
        if !names.is_empty() {
            text.push_str(&format!("\n{what}: {}.\n", names.join(", ")));
        }
    }
    if !missing.is_empty() {
        text.push_str(&format!("\nNot tried: {}.\n", missing.join("; ")));
    }
    text
}

/// How often one size for all programs is as good. The recommendations must exceed it.
fn constants(stories: &[CaseResult<'_>]) -> String {
    let of = |size: u64| {
        let losses: Vec<f64> = stories.iter().filter_map(|story| story.above_best(size)).collect();
        let within = losses.iter().filter(|loss| **loss <= GOOD).count();
        let worst = losses.iter().copied().fold(0.0, f64::max);
        format!("{} in {within} of {} (worst {})", Bytes(size), losses.len(), share(worst))
    };
    format!("One size for all programs is within 5 %: {}.\n\n", sizes().map(of).collect::<Vec<_>>().join(", "))
}

/// How often one size per question is as good, chosen when the programs' results are known. No recommendation that does not
/// run the program can exceed it.
fn hindsight(stories: &[CaseResult<'_>]) -> String {
    let sizes: Vec<u64> = sizes().collect();
    let mut questions: Vec<&[&str]> = stories.iter().map(|story| story.case.question).collect();
    questions.sort_unstable();
    questions.dedup();
    let within = |question: &[&str], size: u64| {
        let asked = stories.iter().filter(|story| story.case.question == question);
        asked.filter(|story| story.above_best(size).is_some_and(|loss| loss <= GOOD)).count()
    };
    let best: usize = questions
        .iter()
        .map(|question| sizes.iter().map(|size| within(question, *size)).max().unwrap_or_default())
        .sum();
    format!(
        "One size for each of the {} questions, chosen when the results of the programs are known, is within 5 % in {best} of {}. \
         That bounds each recommendation that does not depend on the program.\n\n",
        questions.len(),
        stories.len(),
    )
}

/// The sizes that every program is tried with.
fn sizes() -> impl Iterator<Item = u64> {
    VALUES.split(',').filter_map(|size| size.parse().ok()).map(|Bytes(size)| size)
}

impl<'a> CaseResult<'a> {
    fn of(case: &'a ProgramCase, documents: &Value) -> CaseResult<'a> {
        let test = &documents["question"]["tests"][0];
        let named: Vec<(&String, u64)> = list(&test["options"])
            .find(|option| option["id"] == test["recommended"])
            .and_then(|option| option["settings"].as_object())
            .into_iter()
            .flatten()
            .filter_map(|(name, size)| Some((name, size.as_u64()?)))
            .collect();
        let check = &documents["check"];
        let best: Vec<&str> = list(&check["groups"][0]["best_set"]).filter_map(Value::as_str).collect();
        let confirmed = list(&check["cells"]).filter(|cell| cell["kind"] == "candidate" && cell["stage"] == "confirm");
        let tried = confirmed.filter_map(|cell| {
            Some(Tried {
                size: cell["factors"]["value"].as_u64()?,
                rate: cell["estimate"]["median"].as_f64()?,
                bounds: cell["above_best_lower"].as_f64().zip(cell["above_best_upper"].as_f64()),
                is_best: cell["id"].as_str().is_some_and(|id| best.contains(&id)),
            })
        });
        CaseResult {
            case,
            question: test["title"].as_str().unwrap_or_default().to_owned(),
            named: named.iter().map(|(name, size)| format!("{} {}", name.replace('_', " "), Bytes(*size))).collect(),
            advised: named.iter().map(|(_, size)| *size).max(),
            tried: tried.collect(),
            steal: check["environment"]["steal_share"].as_f64().unwrap_or(0.0),
            others: [check, &documents["question"]]
                .iter()
                .filter_map(|document| document["environment"]["foreign_cpus"].as_f64())
                .fold(0.0, f64::max),
        }
    }

    fn default(&self) -> Option<u64> {
        self.case.default.parse().ok().map(|Bytes(bytes)| bytes)
    }

    fn at(&self, size: u64) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.size == size)
    }

    /// How much slower it is than the best median, as a share of the best's cost.
    fn above_best(&self, size: u64) -> Option<f64> {
        let best = self.tried.iter().map(|tried| tried.rate).reduce(f64::max)?;
        Some(best / self.at(size)?.rate - 1.0)
    }

    /// The cost of the recommendation compared with the best here, and its bounds.
    fn loss(&self) -> Option<LossRow> {
        let advised = self.advised?;
        Some(LossRow { by_median: self.above_best(advised)?, bounds: self.at(advised)?.bounds })
    }

    fn row(&self) -> Vec<String> {
        let best: Vec<String> =
            self.tried.iter().filter(|tried| tried.is_best).map(|tried| Bytes(tried.size).to_string()).collect();
        let loss = self.loss().map_or("–".to_owned(), |LossRow { by_median, bounds }| {
            let bounds =
                bounds.map_or(String::new(), |(lower, upper)| format!(" ({} to {})", share(lower), share(upper)));
            format!("{}{bounds}", share(by_median))
        });
        let default = self.default().and_then(|size| Some((size, self.above_best(size)?)));
        vec![
            self.case.name.to_owned(),
            self.case.setting.to_owned(),
            self.question.clone(),
            self.named.join(", "),
            best.join(", "),
            loss,
            default.map_or("–".to_owned(), |(size, loss)| format!("{}: {}", Bytes(size), share(loss))),
            share(self.steal),
            format!("{:.2}", self.others),
        ]
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A share in per cent; shares from 100 % on as a factor.
fn share(share: f64) -> String {
    match share {
        share if share >= 1.0 => format!("{} ×", significant(1.0 + share, 2)),
        share => format!("{} %", significant(share * 100.0, 2)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cases::CASES;
    use super::*;

    /// A program at three sizes, and a test that recommends a pair of them.
    fn documents(read: u64, write: u64) -> Value {
        let cell = |id: &str, size: u64, rate: f64, bounds: [f64; 2]| {
            json!({"id": id, "kind": "candidate", "stage": "confirm", "factors": {"value": size},
                "estimate": {"median": rate}, "above_best_lower": bounds[0], "above_best_upper": bounds[1]})
        };
        json!({
            "question": {"tests": [{"title": "TCP", "recommended": "c2", "options": [
                {"id": "c1", "settings": {"read_size": 512}},
                {"id": "c2", "settings": {"read_size": read, "write_size": write}}]}]},
            "check": {
                "environment": {"steal_share": 0.01, "foreign_cpus": 1.3},
                "groups": [{"best_set": ["c1"]}],
                "cells": [
                    cell("c1", 262_144, 4.0, [0.0, 0.02]),
                    cell("c2", 65_536, 3.2, [0.2, 0.3]),
                    cell("c3", 512, 1.0, [2.9, 3.1]),
                    {"id": "c1t", "kind": "twin", "stage": "confirm", "factors": {"value": 262_144},
                        "estimate": {"median": 9.0}},
                ],
            },
        })
    }

    #[test]
    fn settings_for_both_ends_take_the_larger_size() {
        let section = text(&[(&CASES[0], documents(65_536, 262_144))], &[]);
        assert!(
            section
                .contains("In 1 cases the recommendation is within 5 % of the program's best in 1 (95 % confidence);"),
            "{section}"
        );
        assert!(section.contains("its median is within 5 % in 1"), "{section}");
        assert!(section.contains("within 5 % in 0, the worst 4 × slower"), "{section}");
        assert!(
            section
                .contains("| TCP | read size 64 KiB, write size 256 KiB | 256 KiB | 0 % (0 % to 2 %) | 512 B: 4 × |"),
            "{section}"
        );
        assert!(!section.contains("Beyond"), "{section}");
        assert!(section.contains("64 KiB in 0 of 1 (worst 25 %), 256 KiB in 1 of 1 (worst 0 %)"), "{section}");
    }

    #[test]
    fn what_misses_is_named() {
        let missing = ["pv is missing".to_owned()];
        let section = text(&[(&CASES[0], documents(65_536, 65_536))], &missing);
        assert!(section.contains("its interval reaches there in 0; the worst median is 25 % slower"), "{section}");
        assert!(section.contains("Beyond 15 %: dd."), "{section}");
        assert!(section.contains("Not tried: pv is missing."), "{section}");
        assert!(
            section.contains("so that a miss shows nothing: dd.") && section.contains("| 1 % | 1.30 |"),
            "{section}"
        );
        let unknown = text(&[(&CASES[0], documents(7, 7))], &[]);
        assert!(unknown.contains("In 0 cases") && unknown.contains("Without a result: dd."), "{unknown}");
    }
}
