//! `cargo lab verify-stats`: runs the simulations behind the statistics and writes their results.
//!
//! All results are written, missed targets first.

use std::fs;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use bytegauge_model::unit::significant;
use bytegauge_selftest::harness_check;
use bytegauge_selftest::verify::{self, Scale, VerificationRow};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::section;
use xtask::cargo;
use xtask::markdown::table;

const DOCUMENT: &str = "docs/research/verification.md";
const SIMULATED: &str = "verify-stats";
/// Results on a machine depend on the machine and the hour, so they have a section and a date of their own.
const MEASURED: &str = "verify-stats on a machine";
const HEADER: &str =
    "# Verification\n\nThe properties of the statistical method, tested on simulations with known truth.";
const SCALES: &[(&str, Scale)] = &[("test", Scale::Test), ("minute", Scale::Minute), ("full", Scale::Full)];

/// `cargo lab verify-stats`.
pub fn command() -> Command {
    let scales = SCALES.iter().map(|(name, _)| *name);
    Command::new("verify-stats")
        .about("Simulate the statistics and write docs/research/verification.md")
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("1")
                .help("Seed of the simulations"),
        )
        .arg(
            Arg::new("scale")
                .long("scale")
                .value_name("SCALE")
                .value_parser(PossibleValuesParser::new(scales))
                .default_value("full")
                .help("Size of the simulations"),
        )
        .arg(
            Arg::new("resume")
                .long("resume")
                .action(ArgAction::SetTrue)
                .help("Continue after the last finished part of a run with the same scale, seed and sources"),
        )
        .arg(
            Arg::new("simulations")
                .long("simulations")
                .action(ArgAction::SetTrue)
                .help("Only simulate, which any machine can do; keep the measured section as it is"),
        )
        .arg(Arg::new("no-write").long("no-write").action(ArgAction::SetTrue).help("Print the table, write no file"))
}

/// Runs the simulations and writes the section.
///
/// # Errors
/// When the file cannot be written, or, after it was written, when a row misses its target.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let seed = *matches.get_one::<u64>("seed").context("--seed has a default")?;
    let name = matches.get_one::<String>("scale").context("--scale has a default")?;
    if cfg!(debug_assertions) {
        return in_release(seed, name, matches);
    }
    let (_, scale) = SCALES.iter().find(|(other, _)| other == name).context("--scale takes known names")?;
    // The row that needs a build comes first, so that a failure does not waste minutes of simulation.
    let kept = KeptParts::open(name, seed, matches.get_flag("resume"))?;
    let measures = !matches.get_flag("simulations");
    let mut reported = Vec::new();
    if *scale == Scale::Full && measures {
        eprintln!("a large session");
        reported = kept.rows("a large session", || Ok(vec![report_row()?]))?;
    }
    let mut rows = Vec::new();
    for (at, (part, make)) in verify::PARTS.into_iter().enumerate() {
        eprintln!("{at}/{} {part}", verify::PARTS.len());
        rows.extend(kept.rows(part, || Ok(make(*scale, seed)))?);
    }
    let date = section::today()?;
    let mut sections = vec![(SIMULATED, body(&rows, name, seed, &date))];
    if measures {
        let mut measured = kept.rows("on this machine", || on_this_machine(*scale, seed))?;
        measured.append(&mut reported);
        sections.push((MEASURED, body(&measured, name, seed, &date)));
        rows.append(&mut measured);
    }
    for (section, body) in sections {
        if matches.get_flag("no-write") {
            println!("{body}");
        } else {
            section::write(&cargo::root().join(DOCUMENT), section, HEADER, &body)?;
            println!("wrote {DOCUMENT}");
        }
    }
    let missed = rows.iter().filter(|row| !row.passed).count();
    if missed > 0 {
        bail!("{missed} of {} rows miss their target", rows.len());
    }
    println!("all {} rows meet their target", rows.len());
    Ok(())
}

/// Rows of finished parts, in files: the whole table may take longer than a machine is available.
struct KeptParts(PathBuf);

impl KeptParts {
    /// Those of an earlier run, or none.
    fn open(scale: &str, seed: u64, resume: bool) -> Result<KeptParts> {
        let folder = cargo::root().join(format!("target/verify-stats/{scale}-{seed}"));
        if !resume && folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(KeptParts(folder))
    }

    /// The rows of a part, made once.
    fn rows(&self, part: &str, make: impl FnOnce() -> Result<Vec<VerificationRow>>) -> Result<Vec<VerificationRow>> {
        let name: String = part.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let file = self.0.join(format!("{name}.json"));
        if let Ok(text) = fs::read_to_string(&file) {
            return serde_json::from_str(&text).with_context(|| format!("{}: remove it", file.display()));
        }
        let rows = make()?;
        // A file that exists is complete.
        let unfinished = file.with_extension("part");
        fs::write(&unfinished, serde_json::to_string(&rows)?).context("writing rows")?;
        fs::rename(&unfinished, &file).context("writing rows")?;
        Ok(rows)
    }
}

/// The rows that need sockets.
fn on_this_machine(scale: Scale, seed: u64) -> Result<Vec<VerificationRow>> {
    let mut last = String::new();
    Ok(harness_check::run(scale, seed, |_, total, part| {
        if part != last {
            eprintln!("{total} comparisons on this machine: {part}");
            part.clone_into(&mut last);
        }
    })?)
}

/// Trials of the session whose report is timed.
const LARGE_TRIALS: &str = "100000";

/// How long a large session takes from the store to the four texts.
fn report_row() -> Result<VerificationRow> {
    let example = ["--package", "bytegauge-report", "--example", "large", "--", LARGE_TRIALS];
    let mut command = cargo::command(&["run", "--locked", "--release", "--quiet"]);
    let output = command.args(example).stderr(Stdio::null()).output().context("starting cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let seconds: f64 =
        printed.trim().parse().with_context(|| format!("the timing of a large report printed `{printed}`"))?;
    Ok(VerificationRow {
        name: "a session of 100,000 trials is reported".into(),
        target: "at most 2 s".into(),
        got: seconds,
        unit: "s".into(),
        passed: seconds <= 2.0,
        negative_control: false,
        note: "from the store to JSON, CSV, markdown and terminal".into(),
    })
}

/// The simulations take minutes; in the dev profile that `cargo lab` is built in, far longer.
fn in_release(seed: u64, scale: &str, matches: &ArgMatches) -> Result<()> {
    let seed = seed.to_string();
    let mut command = cargo::command(&["run", "--locked", "--release", "--quiet", "--package", "lab", "--"]);
    command.args(["verify-stats", "--seed", &seed, "--scale", scale]);
    for flag in ["no-write", "resume", "simulations"].into_iter().filter(|flag| matches.get_flag(flag)) {
        command.arg(format!("--{flag}"));
    }
    let status: ExitStatus = command.status().context("starting cargo")?;
    if status.success() { Ok(()) } else { bail!("see above ({status})") }
}

fn body(rows: &[VerificationRow], scale: &str, seed: u64, date: &str) -> String {
    let (controls, promises): (Vec<&VerificationRow>, Vec<&VerificationRow>) =
        rows.iter().partition(|row| row.negative_control);
    let mut text = format!(
        "Made by `cargo lab verify-stats --scale {scale} --seed {seed}` on {date}. Another seed gives other \
         figures and should give the same verdicts.\n\n"
    );
    let missed: Vec<&str> = rows.iter().filter(|row| !row.passed).map(|row| row.name.as_str()).collect();
    let verdict = if missed.is_empty() {
        format!("All {} rows meet their target.", rows.len())
    } else {
        format!("**{} of {} rows miss their target:** {}.", missed.len(), rows.len(), missed.join("; "))
    };
    text.push_str(&format!("{verdict}\n\n"));
    if controls.is_empty() {
        text.push_str(&rows_table(&promises, "met", "**MISSED**"));
        return text;
    }
    text.push_str("### Promises\n\n");
    text.push_str(&rows_table(&promises, "met", "**MISSED**"));
    text.push_str("\n### Negative controls\n\nThe same code and data with one switch changed. They must miss.\n\n");
    text.push_str(&rows_table(&controls, "misses, as it must", "**MET, but must not**"));
    text
}

fn rows_table(rows: &[&VerificationRow], passed: &str, failed: &str) -> String {
    table(
        &["test", "target", "got", "verdict", "how"],
        rows.iter().map(|row| {
            let verdict = match (row.passed, row.target.as_str()) {
                (true, "published") => "published",
                (true, _) => passed,
                (false, _) => failed,
            };
            let got = format!("{} {}", significant(row.got, 4), row.unit);
            vec![row.name.clone(), row.target.clone(), got.trim().to_owned(), verdict.to_owned(), row.note.clone()]
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, target: &str, passed: bool, negative_control: bool) -> VerificationRow {
        VerificationRow {
            name: name.into(),
            target: target.into(),
            got: 95.125,
            unit: "%".into(),
            passed,
            negative_control,
            note: "3805 of 4000".into(),
        }
    }

    #[test]
    fn misses_are_written_first() {
        let rows = [
            row("coverage", "94 to 97 %", true, false),
            row("power", "at least 97 %", false, false),
            row("serial", "must miss", true, true),
        ];
        let text = body(&rows, "full", 7, "2030-01-02");
        assert!(text.contains("--scale full --seed 7` on 2030-01-02"), "{text}");
        assert!(text.contains("**1 of 3 rows miss their target:** power."), "{text}");
        assert!(text.contains("| coverage | 94 to 97 % | 95.12 % | met | 3805 of 4000 |"), "{text}");
        assert!(text.contains("| power | at least 97 % | 95.12 % | **MISSED** |"), "{text}");
        assert!(text.contains("| serial | must miss | 95.12 % | misses, as it must |"), "{text}");
        // Measured rows have no controls, and no heading for them.
        assert!(!body(&rows[..2], "full", 7, "2030-01-02").contains("### "));
    }
}
