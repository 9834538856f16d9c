//! `bytegauge doctor --selftest`: checks the statistics on data with known truth, and the harness against itself.

use bytegauge_model::escape;
use bytegauge_model::unit::significant;
use bytegauge_selftest::harness_check;
use bytegauge_selftest::verify::{self, PUBLISHED, Scale, VerificationRow};
use clap::ArgMatches;
use serde_json::json;

use crate::exit_code::{DONE, FAILED, Failure};
use crate::progress::Line;
use crate::{args, terminal};

/// The default seed, fixed so that two users see the same table.
const SEED: u64 = 1;

/// The scales; a glance is for tests of the command.
pub const SCALES: [(&str, Scale); 2] = [("test", Scale::Glance), ("minute", Scale::Minute)];

/// Runs both halves and prints a summary, or every row with `--full`.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(SEED);
    let scale = SCALES.iter().find(|(name, _)| args::text(matches, "scale") == Some(name));
    let scale = scale.map_or(Scale::Minute, |(_, scale)| *scale);
    let mut line = Line::on_terminal();
    let mut show = |done: u64, total: u64, what: &str| {
        let step = format!("{done} of {total} steps done: {}", escape::line(what));
        line.iter_mut().for_each(|line| line.put(&step));
    };
    let harness = harness_check::run(scale, seed, &mut show);
    let harness = harness.map_err(Failure::failed)?;
    let simulated = verify::run(scale, seed, |done, total, what| show(done as u64, total as u64, what));
    line.iter_mut().for_each(Line::remove);
    let measured = harness.len();
    let rows: Vec<VerificationRow> = harness.into_iter().chain(simulated).collect();
    let failed = rows.iter().filter(|row| !row.passed).count();
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&json!({"seed": seed, "failed": failed, "rows": rows})),
        _ if matches.get_flag("full") => {
            terminal::print(&terminal::fitted(table(&rows, seed, failed).lines(), terminal::COLUMNS));
        }
        _ => {
            terminal::print(&terminal::fitted(
                summary(&rows[..measured], &rows[measured..], seed).lines(),
                terminal::COLUMNS,
            ));
        }
    }
    Ok(if failed == 0 { DONE } else { FAILED })
}

/// The facts that a user needs: the numbers of this machine, the failed rows, and what to do about them.
fn summary(harness: &[VerificationRow], simulated: &[VerificationRow], seed: u64) -> String {
    let mut text = format!("bytegauge doctor --selftest · seed {seed}\n\nMeasured on this machine\n");
    for row in harness {
        text += &format!("{:>10}  {}\n", format!("{} {}", significant(row.got, 2), row.unit).trim_end(), row.name);
    }
    let judged = |rows: &[VerificationRow], control| {
        let judged = rows.iter().filter(|row| row.target != PUBLISHED && row.negative_control == control);
        let (passed, failed): (Vec<_>, Vec<_>) = judged.partition(|row| row.passed);
        (passed.len(), passed.len() + failed.len())
    };
    let ((held, of), (seen, controls)) = (judged(simulated, false), judged(simulated, true));
    text += &format!(
        "\nSimulated, where the truth is known\n  {held} of {of} properties of the statistics hold; {seen} of {controls} methods with a deliberate mistake are detected.\n"
    );
    let failed: Vec<&VerificationRow> = harness.iter().chain(simulated).filter(|row| !row.passed).collect();
    if !failed.is_empty() {
        text += "\nFailed\n";
    }
    for row in &failed {
        text += &format!("  {}: {} {}, target {}\n", row.name, significant(row.got, 4), row.unit, row.target);
    }
    text += "\nResult\n";
    text += &match failed.len() {
        0 => "  Passed: the statistics and the measurement work here as documented.\n".to_owned(),
        failed => format!(
            "  Failed: {failed} of {}. A check can fail by chance, in about one run of eight; those of this machine also fail if it is busy (`bytegauge doctor`). Repeat with another seed: bytegauge doctor --selftest --seed {}\n  If the same check fails again, report it as a bug, with the output of --full.\n",
            of + controls + judged(harness, false).1,
            seed.wrapping_add(1)
        ),
    };
    // A check of the harness without a target has a note with the reason.
    let open = harness.iter().filter(|row| row.target == PUBLISHED && !row.note.is_empty()).count();
    if open > 0 {
        text += &format!(
            "  Not judged: {open} checks of small slowdowns, since the rates of this machine vary too much now: bytegauge doctor\n"
        );
    }
    text + "  All checks with their targets: bytegauge doctor --selftest --full\n"
}

fn table(rows: &[VerificationRow], seed: u64, failed: usize) -> String {
    let mut text = String::new();
    for row in rows {
        let mark = match (row.passed, row.negative_control) {
            (true, false) => "ok    ",
            (true, true) => "ok (-)",
            (false, _) => "FAILED",
        };
        let got = format!("{} {}", significant(row.got, 4), row.unit);
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
    fn summary_shows_failures_and_next_steps() {
        let row = |name: &str, target: &str, passed, negative_control| VerificationRow {
            name: name.into(),
            target: target.into(),
            got: 12.34,
            unit: "%".into(),
            passed,
            negative_control,
            note: String::new(),
        };
        let harness = [row("equal options differ", "0 to 13 %", true, false), row("spread", PUBLISHED, true, false)];
        let sound = [row("coverage", "94 to 97 %", true, false), row("no blocks", "must miss: 95 %", true, true)];
        let passed = summary(&harness, &sound, 1);
        for line in ["      12 %  spread\n", "  1 of 1 properties of the statistics hold; 1 of 1 methods", "  Passed: "]
        {
            assert!(passed.contains(line), "{line}: {passed}");
        }
        assert!(!passed.contains("Failed") && !passed.contains("coverage"), "{passed}");
        let failed = summary(&harness, &[row("bias", "at most 1 %", false, false)], 7);
        for line in
            ["  bias: 12.34 %, target at most 1 %\n", "  Failed: 1 of 2.", "bytegauge doctor --selftest --seed 8\n"]
        {
            assert!(failed.contains(line), "{line}: {failed}");
        }
    }

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
