//! The same questions in other words: which of them gives recommendations that hold in the programs?

use bytegauge_model::Bytes;
use serde_json::{Value, json};

use super::cases::ProgramCase;
use super::table::{BAD, CaseResult, GOOD, LossRow, share};
use xtask::markdown::table;

/// The document of a question with words added.
pub struct VariantAnswer<'a> {
    pub words: &'a str,
    pub question: &'static [&'static str],
    pub document: Value,
}

/// The section: a row for each variant, over the programs whose question has a recommendation.
pub fn text(measured: &[(&'static ProgramCase, Value)], variants: &[&String], answers: &[VariantAnswer<'_>]) -> String {
    let rows = variants.iter().map(|words| row(words, measured, answers));
    format!(
        "Made by `cargo lab real-programs --with WORDS`: each question again, with other words for what the ends do with the bytes, \
         compared with what the programs did in the table below.\n\n{}",
        table(
            &[
                "words",
                "recommendation within 5 %",
                "its interval reaches there",
                "beyond 15 %",
                "worst",
                "named sizes"
            ],
            rows
        )
    )
}

fn row(words: &str, measured: &[(&'static ProgramCase, Value)], answers: &[VariantAnswer<'_>]) -> Vec<String> {
    let documents: Vec<(&ProgramCase, Value)> = measured
        .iter()
        .filter_map(|(case, documents)| {
            let answer = answers.iter().find(|answer| answer.words == words && answer.question == case.question)?;
            Some((*case, json!({"question": answer.document, "check": documents["check"]})))
        })
        .collect();
    let results: Vec<CaseResult<'_>> =
        documents.iter().map(|(case, documents)| CaseResult::of(case, documents)).collect();
    let losses: Vec<LossRow> = results.iter().filter_map(CaseResult::loss).collect();
    let count = |holds: &dyn Fn(&LossRow) -> bool| losses.iter().filter(|loss| holds(loss)).count();
    let mut named: Vec<String> = Vec::new();
    for result in &results {
        let named_by_first = results.iter().find(|first| first.case.question == result.case.question);
        if named_by_first.is_some_and(|first| first.case.name == result.case.name) {
            named.push(format!(
                "{} {}",
                result.case.name,
                result.advised.map_or("–".to_owned(), |size| Bytes(size).to_string())
            ));
        }
    }
    vec![
        format!("`{words}`"),
        format!("{} of {}", count(&|loss| loss.by_median <= GOOD), losses.len()),
        count(&LossRow::may_be_good).to_string(),
        count(&|loss| loss.by_median > BAD).to_string(),
        share(losses.iter().map(|loss| loss.by_median).fold(0.0, f64::max)),
        named.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    #[test]
    fn each_variant_is_judged_by_the_programs() {
        let cell = |id: &str, size: u64, rate: f64| json!({"id": id, "kind": "candidate", "stage": "confirm", "factors": {"value": size}, "estimate": {"median": rate}});
        let check = json!({"cells": [cell("a", 4096, 1.0), cell("b", 65_536, 2.0)], "groups": [{"best_set": ["b"]}]});
        let measured = [(&CASES[0], json!({"check": check}))];
        let answer = |words, size: u64| VariantAnswer {
            words,
            question: CASES[0].question,
            document: json!({"tests": [{"recommended": "x", "options": [{"id": "x", "settings": {"read_size": size}}]}]}),
        };
        let (small, large) = ("--small".to_owned(), "--large".to_owned());
        let section = text(&measured, &[&small, &large], &[answer("--small", 4096), answer("--large", 65_536)]);
        assert!(section.contains("| `--small` | 0 of 1 | 0 | 1 | 2 × | dd 4 KiB |"), "{section}");
        assert!(section.contains("| `--large` | 1 of 1 | 1 | 0 | 0 % | dd 64 KiB |"), "{section}");
    }
}
