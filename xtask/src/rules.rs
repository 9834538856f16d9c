//! `cargo xtask rules`: checks of the sources that the compiler and clippy do not make: the crates that may contain unsafe code, the
//! length of files, dependencies ([`edges`]), lines of code ([`budget`]) and wording ([`words`]).
//!
//! Looks at text, not at syntax: a rule that needs a parser belongs to clippy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{ArgMatches, Command};

use crate::{budget, edges, words};
use xtask::cargo;

/// A longer file gives the reason in its header, in a line that contains [`LONG_BECAUSE`].
const LINES_MAX: usize = 600;
const LONG_BECAUSE: &str = "Long because";

/// The only crate with unsafe code.
const UNSAFE_CRATE: &str = "crates/sys/";
const FORBID: &str = "#![forbid(unsafe_code)]";
// Put together, so that this file does not hold the word that it looks for.
const KEYWORD: &str = concat!("un", "safe");

/// Folders that hold sources.
const PLACES: [&str; 3] = ["crates", "lab", "xtask"];

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
    let breaches = [edges::breaches()?, in_sources()?, budget::breaches()?, words::breaches()?].concat();
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} breaches:\n  {}", breaches.len(), breaches.join("\n  "))
}

/// Breaches of the rules for source files: unsafe code and length.
fn in_sources() -> Result<Vec<String>> {
    let mut files = Vec::new();
    for place in PLACES {
        collect(&cargo::root().join(place), &mut files)?;
    }
    files.sort();
    let roots = crate_roots()?;
    let mut breaches = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(cargo::root()).unwrap_or(&file).to_string_lossy().into_owned();
        breaches.extend(breaches_of(&name, &text, roots.contains(&file)));
    }
    Ok(breaches)
}

fn breaches_of(name: &str, text: &str, is_root: bool) -> Vec<String> {
    let mut breaches = Vec::new();
    let lines = text.lines().count();
    let explained = text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(LONG_BECAUSE));
    if lines > LINES_MAX && !explained {
        breaches.push(format!(
            "{name} has {lines} lines: split it, or give the reason in its header: `//! {LONG_BECAUSE} …` (over {LINES_MAX})"
        ));
    }
    if name.starts_with(UNSAFE_CRATE) {
        return breaches;
    }
    let first_attribute = text.lines().map(str::trim).find(|line| line.starts_with("#!["));
    if is_root && first_attribute != Some(FORBID) {
        breaches.push(format!("{name}: the first attribute of a crate's root is {FORBID}"));
    }
    let unsafe_lines = text.lines().enumerate().filter(|(_, line)| has_keyword(line));
    breaches.extend(unsafe_lines.map(|(index, _)| {
        format!("{name}:{}: {KEYWORD} code belongs to {UNSAFE_CRATE}, behind a safe function", index + 1)
    }));
    breaches
}

/// Whether a line of code holds the keyword; comments do not count.
fn has_keyword(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == KEYWORD)
}

/// Roots of what is shipped or run: libraries, binaries, build scripts. Tests and examples are crates of their
/// own too; for them the search for the keyword suffices.
fn crate_roots() -> Result<Vec<PathBuf>> {
    let is_shipped = |kind: &String| ["lib", "bin", "custom-build"].contains(&kind.as_str());
    let targets = cargo::workspace()?.packages.into_iter().flat_map(|package| package.targets);
    Ok(targets.filter(|target| target.kind.iter().any(is_shipped)).map(|target| target.src_path).collect())
}

/// Every source file below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_keep_to_the_rules() {
        assert_eq!(in_sources().unwrap(), Vec::<String>::new());
    }

    fn check(name: &str, text: &str, is_root: bool, expected: &[&str]) {
        let got = breaches_of(name, text, is_root);
        assert_eq!(got.len(), expected.len(), "{got:#?}");
        for (got, expected) in got.iter().zip(expected) {
            assert!(got.contains(expected), "{got}");
        }
    }

    #[test]
    fn rules() {
        let block = format!("fn f() {{ {KEYWORD} {{ g() }} }}\n");
        let long = "\n".repeat(LINES_MAX + 1);
        check("crates/a/src/x.rs", "// nothing\n", false, &[]);
        check("crates/a/src/x.rs", &format!("// {KEYWORD} is not here\n{FORBID}\n"), true, &[]);
        check("crates/a/src/x.rs", &block, false, &["x.rs:1:"]);
        check("crates/sys/src/x.rs", &block, false, &[]);
        check("crates/a/src/lib.rs", &format!("#![allow(missing_docs)]\n{FORBID}\n"), true, &["first attribute"]);
        check("crates/a/src/lib.rs", "fn f() {}\n", true, &["first attribute"]);
        check("crates/a/src/x.rs", &long, false, &["601 lines"]);
        check("crates/a/src/x.rs", &format!("//! {LONG_BECAUSE} of its table.{long}"), false, &[]);
    }
}
