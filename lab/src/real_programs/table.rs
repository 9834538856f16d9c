//! Tables of the results in the sessions' documents. Judges nothing by itself.

use bytegauge_model::Bytes;
use bytegauge_model::unit::significant;
use serde_json::Value;
use xtask::markdown::table;

use super::cases::{ProgramCase, VALUES};

/// How much slower than the best a good choice may be.
const GOOD: f64 = 0.05;

/// One size of a program.
struct Tried {
    size: u64,
    rate: f64,
    /// Bounds of how much slower it is than the best confirmed one, simultaneous.
    bounds: Option<(f64, f64)>,
    is_best: bool,
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
    /// CPU use of other programs, during the test or during the program: the larger. Work of others explains a miss.
    others: f64,
}

/// The section: the choices that one could make for all programs, and each program.
pub fn text(measured: &[(&ProgramCase, Value)], missing: &[String]) -> String {
    let results: Vec<CaseResult<'_>> =
        measured.iter().map(|(case, documents)| CaseResult::of(case, documents)).collect();
    let choice = |name: String, size: &dyn Fn(&CaseResult<'_>) -> Option<u64>| {
        let losses: Vec<f64> = results.iter().filter_map(|result| result.loss(size(result)?)).collect();
        let good = losses.iter().filter(|loss| **loss <= GOOD).count();
        vec![name, format!("{good} of {}", losses.len()), share(losses.iter().copied().fold(0.0, f64::max))]
    };
    let named = [
        choice("recommendation".to_owned(), &|result| result.advised),
        choice("default, or a common choice".to_owned(), &|result| result.default()),
    ];
    // The recommendation must exceed one size for all programs.
    let sizes =
        VALUES.split(',').filter_map(size_of).map(|size| choice(format!("{} for all", Bytes(size)), &|_| Some(size)));
    let choices = table(&["choice", "at most 5 % slower than the best", "worst"], named.into_iter().chain(sizes));
    let headings = [
        "program",
        "set",
        "test",
        "recommendation",
        "best set of the program",
        "slower than its best",
        "default",
        "CPU steal",
        "others, CPUs",
    ];
    let programs = table(&headings, results.iter().map(CaseResult::row));
    let missing = missing.iter().map(|reason| format!("\nNot tried: {reason}\n")).collect::<String>();
    format!("{choices}\n{programs}{missing}")
}

impl<'a> CaseResult<'a> {
    fn of(case: &'a ProgramCase, documents: &Value) -> CaseResult<'a> {
        let (question, check) = (&documents["question"], &documents["check"]);
        let test = &question["tests"][0];
        let recommended = list(&test["options"]).find(|option| option["id"] == test["recommended"]);
        let settings = recommended.and_then(|option| option["settings"].as_object()).into_iter().flatten();
        let named: Vec<(&String, u64)> = settings.filter_map(|(name, size)| Some((name, size.as_u64()?))).collect();
        let confirmed = list(&check["cells"]).filter(|cell| cell["kind"] == "candidate" && cell["stage"] == "confirm");
        let tried = confirmed.filter_map(|cell| {
            Some(Tried {
                size: cell["factors"]["value"].as_u64()?,
                rate: cell["estimate"]["median"].as_f64()?,
                bounds: cell["above_best_lower"].as_f64().zip(cell["above_best_upper"].as_f64()),
                is_best: list(&check["groups"][0]["best_set"]).any(|id| *id == cell["id"]),
            })
        });
        let of_others = |document: &Value| document["environment"]["foreign_cpus"].as_f64().unwrap_or(0.0);
        CaseResult {
            case,
            question: test["title"].as_str().unwrap_or_default().to_owned(),
            named: named.iter().map(|(name, size)| format!("{} {}", name.replace('_', " "), Bytes(*size))).collect(),
            advised: named.iter().map(|(_, size)| *size).max(),
            tried: tried.collect(),
            steal: check["environment"]["steal_share"].as_f64().unwrap_or(0.0),
            others: of_others(check).max(of_others(question)),
        }
    }

    fn default(&self) -> Option<u64> {
        size_of(self.case.default)
    }

    /// How much slower a size is than the best median, as a share of the best's cost.
    fn loss(&self, size: u64) -> Option<f64> {
        let best = self.tried.iter().map(|tried| tried.rate).reduce(f64::max)?;
        Some(best / self.tried.iter().find(|tried| tried.size == size)?.rate - 1.0)
    }

    fn row(&self) -> Vec<String> {
        let shown = |size: Option<u64>| size.and_then(|size| self.loss(size)).map_or("–".to_owned(), share);
        let best = self.tried.iter().filter(|tried| tried.is_best).map(|tried| Bytes(tried.size).to_string());
        let advised = self.tried.iter().find(|tried| Some(tried.size) == self.advised).and_then(|tried| tried.bounds);
        let bounds = advised.map_or(String::new(), |(lower, upper)| format!(" ({} to {})", share(lower), share(upper)));
        vec![
            self.case.name.to_owned(),
            self.case.setting.to_owned(),
            self.question.clone(),
            self.named.join(", "),
            best.collect::<Vec<_>>().join(", "),
            shown(self.advised) + &bounds,
            format!("{}: {}", self.case.default, shown(self.default())),
            share(self.steal),
            format!("{:.2}", self.others),
        ]
    }
}

fn size_of(text: &str) -> Option<u64> {
    text.parse().ok().map(|Bytes(size)| size)
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

    fn check(read: u64, write: u64, expected: &[&str]) {
        let section = text(&[(&CASES[0], documents(read, write))], &["pv is missing".to_owned()]);
        for line in expected {
            assert!(section.contains(line), "{line}: {section}");
        }
    }

    #[test]
    fn settings_for_both_ends_take_the_larger_size() {
        check(
            65_536,
            262_144,
            &[
                "| recommendation | 1 of 1 | 0 % |\n| default, or a common choice | 0 of 1 | 4 × |",
                "| 64 KiB for all | 0 of 1 | 25 % |\n| 256 KiB for all | 1 of 1 | 0 % |",
                "| TCP | read size 64 KiB, write size 256 KiB | 256 KiB | 0 % (0 % to 2 %) | 512: 4 × | 1 % | 1.30 |",
                "Not tried: pv is missing\n",
            ],
        );
    }

    #[test]
    fn misses_and_missing_results_are_shown() {
        check(65_536, 65_536, &["| recommendation | 0 of 1 | 25 % |", "| 25 % (20 % to 30 %) |"]);
        check(7, 7, &["| recommendation | 0 of 0 | 0 % |", "| 256 KiB | – | 512: 4 × |"]);
    }
}
