//! Lines of code of each crate, at most as many as `xtask/budget.toml` allows.
//!
//! Counts tracked Rust and TypeScript files without tests, comments and blank lines.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};

use xtask::cargo;

/// Every crate over its budget, and every crate without one; empty if there is none.
///
/// # Errors
/// If git, the table or a file cannot be read.
pub fn breaches() -> Result<Vec<String>> {
    let table = fs::read_to_string(cargo::root().join("xtask/budget.toml")).context("reading xtask/budget.toml")?;
    Ok(breaches_of(&counted()?, &parsed(&table)?))
}

/// The table: each line is `"folder" = lines`, a comment or blank.
fn parsed(table: &str) -> Result<BTreeMap<String, usize>> {
    let rows = table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let (name, lines) = row.split_once('=').with_context(|| format!("xtask/budget.toml: {row}: no `=`"))?;
        let lines = lines.trim().parse().with_context(|| format!("xtask/budget.toml: {row}: not a number of lines"))?;
        Ok((name.trim().trim_matches('"').to_owned(), lines))
    })
    .collect()
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

    #[test]
    fn crates_keep_to_their_budgets() {
        assert_eq!(breaches().unwrap(), Vec::<String>::new());
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
        let of = |rows: &[(&str, usize)]| rows.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect();
        let budget = parsed("# lines\n\"crates/a\" = 10\n\ntotal = 15\n").unwrap();
        assert_eq!(breaches_of(&of(&[("crates/a", 10)]), &budget), Vec::<String>::new());
        let over = breaches_of(&of(&[("crates/a", 12), ("lab", 4)]), &budget);
        assert_eq!(over.len(), 3, "{over:?}");
        assert!(over[0].starts_with("crates/a has 12 lines of code, 2 more than its budget of 10"), "{over:?}");
        assert!(over[1].starts_with("lab has 4 lines of code and no row"), "{over:?}");
        assert!(over[2].starts_with("total has 16"), "{over:?}");
        assert!(parsed("total 15").is_err() && parsed("total = x").is_err());
    }

    #[test]
    fn files_of_tests_do_not_count() {
        let counted = ["crates/a/src/x.rs", "page/src/x.ts", "lab/src/test.rs"];
        let tests =
            ["crates/a/tests/all/x.rs", "crates/a/src/tests.rs", "page/test/x.ts", "x.test.ts", "x.d.ts", "x.md"];
        assert!(counted.iter().all(|file| is_counted(file)) && !tests.iter().any(|file| is_counted(file)));
    }
}
