//! `cargo xtask rules`: checks of the sources that the compiler and clippy do not make: the crates that may contain unsafe code,
//! dependencies, files that documents name, wording, and lines of code.
//!
//! Looks at text, not at syntax: a rule that needs a parser belongs to clippy.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use clap::Command;
use xtask::cargo;

/// Unsafe code. Each crate but one forbids it; tests and programs are crates of their own.
const UNSAFE: &str = concat!("unsafe", " *(\\{|fn|impl|trait|extern)");

/// `cargo xtask rules`.
pub fn command() -> Command {
    Command::new("rules").about("Check dependencies between crates, unsafe code, lines of code, and wording")
}

/// Runs every check.
///
/// # Errors
/// With every breach.
pub fn check() -> Result<()> {
    let breaches =
        [forbidden_edges()?, unsafe_code()?, budget_breaches()?, wording_breaches()?, missing_files()?].concat();
    ensure!(breaches.is_empty(), "{} breaches:\n  {}", breaches.len(), breaches.join("\n  "));
    Ok(())
}

/// Unsafe code outside of its crate.
fn unsafe_code() -> Result<Vec<String>> {
    let found = cargo::grep("-nE", UNSAFE, &["*.rs", ":!crates/sys"])?;
    Ok(found.iter().map(|line| format!("{line}: it belongs to crates/sys, behind a safe function")).collect())
}

/// Source files that a document names and that do not exist.
fn missing_files() -> Result<Vec<String>> {
    let files = cargo::git(&["ls-files"])?;
    let is_there = |name: &str| files.lines().any(|file| file == name || file.ends_with(&format!("/{name}")));
    let mut missing = Vec::new();
    for document in cargo::git(&["ls-files", "*.md"])?.lines() {
        let text = fs::read_to_string(cargo::root().join(document))?;
        let named = text.split('`').filter(|word| word.ends_with(".rs") && !word.contains(['*', ' ', '{']));
        missing.extend(
            named
                .filter(|name| !is_there(name))
                .map(|name| format!("{document}: there is no `{name}`: name the present file")),
        );
    }
    Ok(missing)
}

// Banned words in text and identifiers. A person reads the rest: no program judges names and sentences.

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

/// Every line with a banned word.
fn wording_breaches() -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for (words, instead) in BANNED {
        let pattern = format!("(^|[^a-z])({words})([^a-z]|$)");
        let found = cargo::grep("-niIE", &pattern, &CHECKED)?;
        breaches.extend(found.iter().map(|line| format!("{line}: write {instead}")));
    }
    Ok(breaches)
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
    ("tune", "model observe report sys traffic"),
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

// Lines of code of each crate, at most as many as `xtask/budget.toml` allows.
//
// Counts tracked Rust and TypeScript files without tests, comments and blank lines.

/// Every crate over its budget, and every crate without one; empty if there is none.
///
/// # Errors
/// If git, the table or a file cannot be read.
fn budget_breaches() -> Result<Vec<String>> {
    let table = fs::read_to_string(cargo::root().join("xtask/budget.toml")).context("reading xtask/budget.toml")?;
    Ok(breaches_of(&counted()?, &toml::from_str(&table).context("xtask/budget.toml")?))
}

fn breaches_of(counts: &BTreeMap<String, usize>, budget: &BTreeMap<String, usize>) -> Vec<String> {
    let advice = "delete code, or raise the row in xtask/budget.toml and give the reason in the commit";
    let total = counts.values().sum();
    let rows = counts.iter().map(|(name, lines)| (name.as_str(), *lines)).chain([("total", total)]);
    rows.filter_map(|(name, lines)| match budget.get(name) {
        Some(most) if lines > *most => {
            Some(format!("{name} has {lines} lines of code, {} more than its budget of {most}: {advice}", lines - most))
        }
        Some(_) => None,
        None => Some(format!("{name} has {lines} lines of code and no row in xtask/budget.toml: add one")),
    })
    .collect()
}

/// Lines of code by folder: each crate, and each other folder with code.
fn counted() -> Result<BTreeMap<String, usize>> {
    let listed = cargo::git(&["ls-files", "-z"])?;
    let mut counts = BTreeMap::new();
    for file in listed.split('\0').filter(|file| is_counted(file)) {
        // A file that was removed and is still tracked.
        let Ok(text) = fs::read_to_string(cargo::root().join(file)) else { continue };
        let parts = if file.starts_with("crates/") { 2 } else { 1 };
        let folder = file.split('/').take(parts).collect::<Vec<_>>().join("/");
        *counts.entry(folder).or_default() += code_lines(&text);
    }
    ensure!(!counts.is_empty(), "git lists no sources in {}", cargo::root().display());
    Ok(counts)
}

fn is_counted(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    let is_code = name.ends_with(".rs") || (name.ends_with(".ts") && !name.ends_with(".d.ts"));
    let is_test = ["tests.rs", "miri.rs"].contains(&name) || name.ends_with(".test.ts");
    is_code && !is_test && !file.contains("/tests/") && !file.contains("/test/")
}

/// Lines that are neither blank, nor comment, nor part of an item under `#[cfg(test)]`, as rustfmt indents them.
fn code_lines(text: &str) -> usize {
    let (mut count, mut in_comment) = (0, false);
    // The indentation of an item of tests until its end, and whether its first line was seen.
    let mut in_tests: Option<(&str, bool)> = None;
    for line in text.lines() {
        let code = line.trim();
        if in_comment || code.starts_with("/*") {
            in_comment = !code.contains("*/");
        } else if let Some((indent, has_begun)) = in_tests {
            let rest = line.strip_prefix(indent).unwrap_or_default();
            let is_one_line = !has_begun && code.ends_with([';', ',', '}']);
            let begins = has_begun || !rest.starts_with('#');
            in_tests = (!rest.starts_with(['}', ')']) && !is_one_line).then_some((indent, begins));
        } else if code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test") {
            in_tests = Some((&line[..line.len() - line.trim_start().len()], false));
        } else if !code.is_empty() && !code.starts_with("//") {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row that CONTRIBUTING.md adds has fields of a row.
    #[test]
    fn the_first_change_has_known_fields() {
        let read = |file: &str| fs::read_to_string(cargo::root().join(file)).unwrap();
        let (text, row) = (read("CONTRIBUTING.md"), read("crates/model/src/factor/row.rs"));
        let (_, sample) = text.split_once("= OPTION {\n").unwrap();
        let fields = sample.lines().map_while(|line| line.strip_prefix("    ")?.split_once(": "));
        let fields: Vec<&str> = fields.map(|(name, _)| name).collect();
        assert!(fields.len() > 3, "{fields:?}");
        fields.iter().for_each(|name| assert!(row.contains(&format!("    pub {name}: ")), "{name}"));
    }

    #[test]
    fn unsafe_code_is_in_one_crate() {
        assert_eq!(unsafe_code().unwrap(), Vec::<String>::new());
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

#[cfg(test)]
mod budget_tests {
    use super::*;

    #[test]
    fn crates_keep_to_their_budgets() {
        assert_eq!(budget_breaches().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn comments_blanks_and_tests_do_not_count() {
        assert_eq!(code_lines("//! A.\n\nfn f() {\n    // b\n    g(); // c\n}\n/* d\ne */\nstatic X: u8 = 1;\n"), 4);
        let tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn a() {\n    }\n\n}\nfn g() {}\n";
        assert_eq!(code_lines(tests), 2);
        assert_eq!(code_lines("#[cfg(test)]\nmod tests;\nfn g() {}\n"), 1);
        assert_eq!(code_lines("#[cfg(test)]\nmod tests {\n    const A: &str = \"\nx;\n\";\n}\nfn g() {}\n"), 1);
        assert_eq!(
            code_lines("impl A {\n    #[cfg(test)]\n    #[rustfmt::skip]\n    fn t() {\n        x();\n    }\n}\n"),
            2
        );
    }

    #[test]
    fn a_crate_over_its_budget_is_named() {
        let of = |rows: &[(&str, usize)]| -> BTreeMap<String, usize> {
            rows.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect()
        };
        let budget = of(&[("crates/a", 10), ("total", 15)]);
        assert_eq!(breaches_of(&of(&[("crates/a", 10)]), &budget), Vec::<String>::new());
        let over = breaches_of(&of(&[("crates/a", 12), ("lab", 4)]), &budget);
        assert_eq!(over.len(), 3, "{over:?}");
        assert!(over[0].starts_with("crates/a has 12 lines of code, 2 more than its budget of 10"), "{over:?}");
        assert!(over[1].starts_with("lab has 4 lines of code and no row"), "{over:?}");
        assert!(over[2].starts_with("total has 16"), "{over:?}");
    }

    #[test]
    fn files_of_tests_do_not_count() {
        let counted = ["crates/a/src/x.rs", "page/src/x.ts", "lab/src/test.rs"];
        let tests =
            ["crates/a/tests/all/x.rs", "crates/a/src/tests.rs", "page/test/x.ts", "x.test.ts", "x.d.ts", "x.md"];
        assert!(counted.iter().all(|file| is_counted(file)) && !tests.iter().any(|file| is_counted(file)));
    }
}
