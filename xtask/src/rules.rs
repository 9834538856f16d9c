//! `cargo xtask rules`: checks of the sources that the compiler and clippy do not make: the crates that may contain unsafe code, the
//! length of files, dependencies, wording, and lines of code ([`budget`]).
//!
//! Looks at text, not at syntax: a rule that needs a parser belongs to clippy.

use std::fs;

use anyhow::{Result, bail};
use clap::{ArgMatches, Command};
use xtask::cargo;

use crate::budget;

/// A longer file gives the reason in its header, in a line that contains [`LONG_BECAUSE`].
const LINES_MAX: usize = 600;
const LONG_BECAUSE: &str = "Long because";

/// Unsafe code. Each crate but one forbids it; tests and programs are crates of their own.
const UNSAFE: &str = concat!("unsafe", " *(\\{|fn|impl|trait|extern)");

/// `cargo xtask rules`.
pub fn command() -> Command {
    Command::new("rules").about("Check dependencies between crates, files, lines of code, and wording")
}

/// Runs every check.
///
/// # Errors
/// With every breach.
pub fn run(_: &ArgMatches) -> Result<()> {
    check()
}

/// Runs every check.
///
/// # Errors
/// With every breach.
pub fn check() -> Result<()> {
    let breaches = [forbidden_edges()?, in_sources()?, budget::breaches()?, wording_breaches()?].concat();
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} breaches:\n  {}", breaches.len(), breaches.join("\n  "))
}

/// Breaches of the rules for source files: unsafe code and length.
fn in_sources() -> Result<Vec<String>> {
    let found = cargo::grep("-nE", UNSAFE, &["*.rs", ":!crates/sys"])?;
    let mut breaches: Vec<String> =
        found.iter().map(|line| format!("{line}: it belongs to crates/sys, behind a safe function")).collect();
    for file in cargo::git(&["ls-files", "*.rs"])?.lines() {
        // A file that was removed and is still tracked.
        let Ok(text) = fs::read_to_string(cargo::root().join(file)) else { continue };
        breaches.extend(breach_of_length(file, &text));
    }
    Ok(breaches)
}

fn breach_of_length(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let explained = text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(LONG_BECAUSE));
    (lines > LINES_MAX && !explained).then(|| {
        format!(
            "{name} has {lines} lines: split it, or give the reason in its header: `//! {LONG_BECAUSE} …` (over {LINES_MAX})"
        )
    })
}

// Banned words in text and identifiers, and the form of commit subjects.
//
// A person reads the rest: no program judges names and sentences.

/// Characters of a commit's subject.
const SUBJECT_MAX: usize = 60;

/// Banned words, with what to write instead.
const BANNED: [(&str, &str); 8] = [
    ("nobody|whoever|somebody|someone|everybody|anybody", "name the actor: the reader, the server, the user"),
    ("he|him|his|himself", "it, its; or name the person: the user"),
    ("beside", "next to, in addition to, compared with"),
    ("dearer|dearest", "slower (rates), uses more CPU (CPU time)"),
    ("says?|said", "reports, shows, states, contains"),
    ("mend(s|ed)?|heal(s|ed)?", "fix, fixes, fixed"),
    ("so many|so much|anew|in vain|in small|but for|want of|the like of", "a plain word"),
    ("leash(es)?|astray|strangers?|hatch|soiled|labour|clerks?", "the field's term"),
];

/// Files that are checked. Released steps of the migration never change, and this file contains the words.
const CHECKED: [&str; 6] = ["*.rs", "*.ts", "*.toml", "*.md", ":!crates/store/src/schema.rs", ":!xtask/src/rules.rs"];

/// Every line with a banned word, and every commit subject that `main` does not have and that breaks a rule.
fn wording_breaches() -> Result<Vec<String>> {
    let mut breaches: Vec<String> = subjects()?.iter().flat_map(|subject| breaches_of_subject(subject)).collect();
    for (words, instead) in BANNED {
        let pattern = format!("(^|[^a-z])({words})([^a-z]|$)");
        let found = cargo::grep("-niIE", &pattern, &CHECKED)?;
        breaches.extend(found.iter().map(|line| format!("{line}: write {instead}")));
    }
    Ok(breaches)
}

/// Subjects of the commits that `main` does not have. Empty where git has no such branch, as in a shallow clone.
fn subjects() -> Result<Vec<String>> {
    let bases = ["main", "origin/main"];
    let Some(base) = bases.iter().find(|base| cargo::git(&["rev-parse", "--verify", "--quiet", base]).is_ok()) else {
        return Ok(Vec::new());
    };
    let subjects = cargo::git(&["log", "--no-merges", "--format=%s", &format!("{base}..HEAD")])?;
    Ok(subjects.lines().map(str::to_owned).collect())
}

/// Breaches of one commit subject.
fn breaches_of_subject(subject: &str) -> Vec<String> {
    let mut found = Vec::new();
    let length = subject.chars().count();
    if length > SUBJECT_MAX {
        found.push(format!("commit subject `{subject}` has {length} characters: use at most {SUBJECT_MAX}"));
    }
    let is_area =
        |area: &str| !area.is_empty() && area.chars().all(|c| c.is_ascii_lowercase() || "0123456789-/, ".contains(c));
    let has_form = subject
        .split_once(": ")
        .is_some_and(|(area, rest)| is_area(area) && rest.chars().next().is_some_and(char::is_lowercase));
    if !has_form {
        found.push(format!("commit subject `{subject}` has no area: write `area: verb object`"));
    }
    found
}

// Which crate may depend on which.
//
// The list is an upper bound on the `[dependencies]` of the manifests. It keeps results readable on any
// machine (`report` never reaches `traffic`) and plans makeable without one (`plan` neither). Dev-dependencies
// are free: tests may look across.

/// The edges allowed, in the words of ARCHITECTURE.md: a part of the workspace, and the others that it may depend on.
const ALLOWED: &[(&str, &str)] = &[
    ("model", ""),
    ("sys", ""),
    ("wire", ""),
    ("plan", "model"),
    ("stats", "model"),
    ("store", "model sys"),
    // Formats of other programs.
    ("import", "model store"),
    ("traffic", "model sys wire"),
    // Ends on other hosts: harness and traffic know them as `RemoteHost`.
    ("agent", "model sys traffic wire"),
    ("harness", "model plan stats store sys traffic"),
    ("mesh", "model stats sys"),
    // Tests the harness and the statistics from outside: neither depends on it.
    ("selftest", "harness model plan stats sys traffic"),
    // Parts of their own, which the core does not know.
    ("serve", "model sys traffic"),
    ("emulated-link", "model sys traffic"),
    ("observe", "model sys traffic"),
    ("bottleneck", "model stats"),
    ("report", "bottleneck model stats store"),
    ("tune", "model report sys traffic"),
    // Several sessions together.
    ("compare", "model report stats"),
    ("flamegraph", "harness model plan report sys traffic"),
    (
        "bytegauge",
        "agent compare emulated-link flamegraph harness import mesh model observe plan report selftest serve stats store sys traffic \
         tune wire",
    ),
    // `compare` and `report` for the schemas of their documents, `import` and `store` for the session that the README shows.
    ("xtask", "compare import model plan report store"),
    // `traffic` contains the commands of an end that is measured alone.
    ("lab", "model stats sys traffic xtask"),
];

/// A package by its name in the table.
fn short(package: &str) -> &str {
    package.strip_prefix("bytegauge-").unwrap_or(package)
}

/// Every dependency beyond the allowed edges, as text; empty if there is none.
fn forbidden_edges() -> Result<Vec<String>> {
    let metadata = cargo::workspace()?;
    let members: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut breaches = Vec::new();
    for package in &metadata.packages {
        let declared = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name.as_str())
            .filter(|name| members.contains(name));
        breaches.extend(beyond(&package.name, declared));
    }
    Ok(breaches)
}

fn beyond<'a>(package: &str, declared: impl Iterator<Item = &'a str>) -> Vec<String> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == short(package)) else {
        return vec![format!("{package} is not in the table of edges: add it to xtask/src/rules.rs")];
    };
    declared
        .filter(|name| !allowed.split(' ').any(|one| one == short(name)))
        .map(|name| format!("{package} must not depend on {name}: see the edges in xtask/src/rules.rs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_keep_to_the_rules() {
        assert_eq!(in_sources().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn long_files_give_a_reason() {
        let long = "\n".repeat(LINES_MAX + 1);
        assert_eq!(breach_of_length("x.rs", "// nothing\n"), None);
        assert!(breach_of_length("x.rs", &long).is_some_and(|breach| breach.contains("601 lines")));
        assert_eq!(breach_of_length("x.rs", &format!("//! {LONG_BECAUSE} of its table.{long}")), None);
    }

    #[test]
    fn commit_subjects_are_short_and_have_an_area() {
        let check = |subject: &str, expected: usize| {
            let got = breaches_of_subject(subject);
            assert_eq!(got.len(), expected, "{got:?}");
        };
        check("report: show the interval of every option", 0);
        check("report, cli: show it", 0);
        check("Show the interval", 1);
        check("report: Show the interval", 1);
        check(&format!("report: {}", "x".repeat(SUBJECT_MAX)), 1);
    }

    #[test]
    fn the_manifests_keep_to_the_edges() {
        assert_eq!(forbidden_edges().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_table_has_no_circle() {
        for (index, (name, allowed)) in ALLOWED.iter().enumerate() {
            for target in allowed.split(' ').filter(|target| !target.is_empty()) {
                let at = ALLOWED.iter().position(|(other, _)| *other == target);
                assert!(at.is_some_and(|at| at < index), "{name} → {target}: a crate comes after what it uses");
            }
        }
    }

    #[test]
    fn a_forbidden_edge_is_named() {
        let got = beyond("bytegauge-report", ["bytegauge-model", "bytegauge-traffic"].into_iter());
        assert_eq!(got, ["bytegauge-report must not depend on bytegauge-traffic: see the edges in xtask/src/rules.rs"]);
        assert_eq!(beyond("new", std::iter::empty()).len(), 1);
    }
}
