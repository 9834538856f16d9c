//! `bytegauge selftest`: checks the statistics on data with known truth, and the harness against itself.

use bytegauge_selftest::harness_check;
use bytegauge_selftest::verify::{self, PUBLISHED, Scale, VerificationRow};
use clap::ArgMatches;
use serde_json::json;

use crate::exit_code::{DONE, FAILED, Failure};
use crate::progress::Steps;
use crate::{args, print, terminal};

/// The default seed, fixed so that two users see the same table.
const SEED: u64 = 1;

/// The scales; a glance is for tests of the command.
pub const SCALES: [(&str, Scale); 2] = [("test", Scale::Glance), ("minute", Scale::Minute)];

/// Runs both halves and prints the table, failing rows included.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(SEED);
    let scale = SCALES.iter().find(|(name, _)| args::text(matches, "scale") == Some(name));
    let scale = scale.map_or(Scale::Minute, |(_, scale)| *scale);
    let mut steps = Steps::new();
    let harness = harness_check::run(scale, seed, |done, total, what| steps.show(done, total, what));
    let harness = harness.map_err(|error| Failure::failed(error.to_string()))?;
    let simulated = verify::run(scale, seed, |done, total, what| steps.show(done as u64, total as u64, what));
    steps.clear();
    let rows: Vec<VerificationRow> = harness.into_iter().chain(simulated).collect();
    let failed = rows.iter().filter(|row| !row.passed).count();
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&json!({"seed": seed, "failed": failed, "rows": rows})),
        _ => terminal::print(&print::fitted(&table(&rows, seed, failed))),
    }
    Ok(if failed == 0 { DONE } else { FAILED })
}

fn table(rows: &[VerificationRow], seed: u64, failed: usize) -> String {
    let mut text = String::new();
    for row in rows {
        let mark = match (row.passed, row.negative_control) {
            (true, false) => "ok    ",
            (true, true) => "ok (-)",
            (false, _) => "FAILED",
        };
        let got = format!("{} {}", bytegauge_model::unit::significant(row.got, 4), row.unit);
        // A number without a target is shown, not judged.
        let (mark, target) = match row.target.as_str() {
            PUBLISHED => ("value ", "no target: the value here"),
            target => (mark, target),
        };
        text += &format!("{mark}  {got:>14}  {}\n{:>24}{target}\n", row.name, "");
    }
    text += &format!(
        "{} rows, {failed} failed, seed {seed}. value: shown, not judged. (-): a negative control, which must miss its target and does.\n",
        rows.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_mark_of_its_kind() {
        let row = |name: &str, target: &str, passed, negative_control| VerificationRow {
            name: name.into(),
            target: target.into(),
            got: 96.06,
            unit: "%".into(),
            passed,
            negative_control,
            note: String::new(),
        };
        let rows = [
            row("coverage", "94 to 97 %", true, false),
            row("coverage of a method without blocks", "94 to 97 %", true, true),
            row("bias", "below 1 %", false, false),
            row("share of proofs", PUBLISHED, true, false),
        ];
        let text = table(&rows, 7, 1);
        for line in [
            "ok             96.06 %  coverage\n",
            "ok (-)         96.06 %  coverage of a method without blocks\n",
            "FAILED         96.06 %  bias\n",
            "value          96.06 %  share of proofs\n",
            "no target: the value here\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let last = text.lines().last().unwrap();
        assert!(!text.contains(PUBLISHED) && last.starts_with("4 rows, 1 failed, seed 7. "), "{text}");
    }
}
