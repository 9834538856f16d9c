//! Checks that the project's text is plain technical English: banned phrases, sentences that begin with a relative
//! clause, long names of tests, and commit subjects.
//!
//! Reads Rust, TypeScript, Markdown and TOML as text, identifiers included. The tables are in [`words`].

mod tokens;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use tokens::{Syntax, Word};
use words::{ALLOWED, BANNED, OPENERS, SKIPPED, STILL_TO_CLEAN};
use xtask::cargo;

/// Words of a test's name.
const TEST_WORDS_MAX: usize = 8;
/// Characters of a commit's subject.
const SUBJECT_MAX: usize = 60;

/// Every place that breaks a rule, and every exemption that exempts nothing; empty if there is none.
///
/// # Errors
/// If git or a file cannot be read.
pub fn breaches() -> Result<Vec<String>> {
    let mut breaches: Vec<String> = subjects()?.iter().flat_map(|subject| breaches_of_subject(subject)).collect();
    let mut needed = vec![false; STILL_TO_CLEAN.len()];
    for file in files()? {
        let found = breaches_of_file(&file)?;
        match STILL_TO_CLEAN.iter().position(|path| file.starts_with(path)) {
            Some(exempt) => needed[exempt] |= !found.is_empty(),
            None => breaches.extend(found),
        }
    }
    let clean = STILL_TO_CLEAN.iter().zip(needed).filter(|(_, is_needed)| !is_needed);
    breaches.extend(
        clean.map(|(path, _)| format!("{path} is clean: remove it from STILL_TO_CLEAN in xtask/src/wording/words.rs")),
    );
    Ok(breaches)
}

/// Every place below a path that breaks a rule, even if the path is exempt.
///
/// # Errors
/// If git or a file cannot be read.
pub fn breaches_below(path: &str) -> Result<Vec<String>> {
    let files = files()?.into_iter().filter(|file| file.starts_with(path.trim_end_matches('/')));
    Ok(files.map(|file| breaches_of_file(&file)).collect::<Result<Vec<_>>>()?.concat())
}

/// The breaches of one file, given relative to the repository; none for a file that is not checked.
fn breaches_of_file(file: &Path) -> Result<Vec<String>> {
    let Some(syntax) = syntax_of(file) else { return Ok(Vec::new()) };
    if SKIPPED.iter().any(|(path, _)| file.starts_with(path)) {
        return Ok(Vec::new());
    }
    let path = cargo::root().join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(breaches_of(&file.to_string_lossy(), &text, syntax))
}

/// Files that git tracks or would add, relative to the repository.
fn files() -> Result<Vec<PathBuf>> {
    let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut files: Vec<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| cargo::root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Subjects of the commits that `main` does not have. Empty where git has no such branch, as in a shallow clone.
fn subjects() -> Result<Vec<String>> {
    let bases = ["main", "origin/main"];
    let Some(base) = bases.iter().find(|base| git(&["rev-parse", "--verify", "--quiet", base]).is_ok()) else {
        return Ok(Vec::new());
    };
    let subjects = git(&["log", "--no-merges", "--format=%s", &format!("{base}..HEAD")])?;
    Ok(subjects.lines().map(str::to_owned).collect())
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(cargo::root()).output().context("starting git")?;
    ensure!(output.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn syntax_of(file: &Path) -> Option<Syntax> {
    match file.extension()?.to_str()? {
        "rs" | "ts" => Some(Syntax::Slashes),
        "toml" => Some(Syntax::Hash),
        "md" => Some(Syntax::Prose),
        _ => None,
    }
}

fn breaches_of(name: &str, text: &str, syntax: Syntax) -> Vec<String> {
    let mut found = banned_in(text);
    for passage in tokens::passages(text, syntax) {
        found.extend(openers_in(&passage.text).map(|(offset, message)| (passage.line_at(offset), message)));
    }
    if name.ends_with(".rs") {
        found.extend(long_tests_in(text));
    }
    found.sort();
    found.into_iter().map(|(line, message)| format!("{name}:{line}: {message}")).collect()
}

/// Banned phrases with their lines.
fn banned_in(text: &str) -> Vec<(usize, String)> {
    let words = tokens::words(text);
    let mut found = Vec::new();
    for start in 0..words.len() {
        let matches = |phrase: &str| matches_at(&words[start..], phrase);
        if ALLOWED.iter().any(|(phrase, _)| matches(phrase)) {
            continue;
        }
        found.extend(BANNED.iter().filter(|(phrase, _)| matches(phrase)).map(|(phrase, instead)| {
            let count = phrase.split(' ').count();
            let phrase: Vec<&str> = words[start..start + count].iter().map(|word| word.text.as_str()).collect();
            (words[start].line, format!("\"{}\": write {instead}", phrase.join(" ")))
        }));
    }
    found
}

/// Whether words begin with a phrase of the tables.
fn matches_at(words: &[Word], phrase: &str) -> bool {
    phrase.split(' ').enumerate().all(|(index, alternatives)| {
        words.get(index).is_some_and(|word| {
            (index == 0 || word.continues) && alternatives.split('|').any(|alternative| alternative == word.text)
        })
    })
}

/// Sentences that begin with a relative clause, with their offsets.
fn openers_in(text: &str) -> impl Iterator<Item = (usize, String)> {
    tokens::sentences(text).filter_map(|(offset, sentence)| {
        let first = sentence.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let is_opener = OPENERS.contains(&first) && sentence.contains(' ') && !sentence.ends_with('?');
        is_opener.then(|| (offset, format!("a sentence begins with \"{first}\": begin with the actor or the fact")))
    })
}

/// Tests with long names.
fn long_tests_in(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let name = line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
        let count = name.map_or(0, |name| name.split('_').filter(|word| !word.is_empty()).count());
        if is_test && count > TEST_WORDS_MAX {
            let message =
                format!("the name of a test has {count} words: name the behaviour in at most {TEST_WORDS_MAX}");
            found.push((index + 1, message));
        }
        is_test = line == "#[test]" || (is_test && name.is_none());
    }
    found
}

/// Breaches of one commit subject.
fn breaches_of_subject(subject: &str) -> Vec<String> {
    let mut found: Vec<String> = banned_in(subject).into_iter().map(|(_, message)| message).collect();
    let length = subject.chars().count();
    if length > SUBJECT_MAX {
        found.push(format!("has {length} characters: use at most {SUBJECT_MAX}"));
    }
    let is_area =
        |area: &str| !area.is_empty() && area.chars().all(|c| c.is_ascii_lowercase() || "0123456789-/, ".contains(c));
    let has_form = subject
        .split_once(": ")
        .is_some_and(|(area, rest)| is_area(area) && rest.chars().next().is_some_and(char::is_lowercase));
    if !has_form {
        found.push("has no area: write `area: verb object`".to_owned());
    }
    found.into_iter().map(|message| format!("commit subject `{subject}`: {message}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[&str]) {
        let got = breaches_of(name, text, syntax_of(Path::new(name)).unwrap());
        assert_eq!(got.len(), expected.len(), "{text}: {got:#?}");
        for (got, expected) in got.iter().zip(expected) {
            assert!(got.contains(expected), "{got}");
        }
    }

    #[test]
    fn banned_phrases_are_found_in_each_form() {
        check("a.rs", "// nothing\nfn f() {}\n", &[]);
        check("a.rs", "//! Nobody reads it.\n", &["a.rs:1: \"nobody\": write name the actor"]);
        check("a.rs", "let is_told = told(IsToldApart);\n", &["told", "told", "told"]);
        check("a.rs", "/// An error is\n/// sent\n/// home.\n", &["a.rs:2: \"sent home\""]);
        check("a.rs", "(sent, home)\n", &[]);
        check("a.rs", "// others' readers\n", &["others'"]);
        check("a.toml", "help = \"prints so many bytes\"\n", &["so many"]);
        check("a.md", "PRAGMA foreign_keys, a name that stands for it, foreign bytes\n", &["\"foreign\""]);
    }

    #[test]
    fn relative_clauses_at_the_start_are_found() {
        let message = "a sentence begins with \"What\"";
        check("a.rs", "/// What arrives is counted.\n", &[message]);
        check("a.rs", "/// Reads.\n///\n/// Counts. What\n/// arrives\n", &["a.rs:3: a sentence"]);
        check("a.rs", "/// What is it?\n/// Of.\n/// It counts what arrives.\n", &[]);
        check("a.rs", "/// An error: what is wrong.\n", &["\"what\""]);
        check("a.rs", "bail!(\"What arrives\")\n", &[message]);
        check(
            "a.md",
            "# What it measures\n\nOf these,\none.\n\n- Who waits\n",
            &["a.md:3: a sentence begins with \"Of\"", "a.md:6"],
        );
        check("a.md", "```\nWhat is this.\n```\n", &[]);
    }

    #[test]
    fn long_names_of_tests_are_found() {
        let nine = "one_two_three_four_five_six_seven_eight_nine";
        check("a.rs", &format!("#[test]\n#[ignore]\nfn {nine}() {{\n"), &["a.rs:3: the name of a test has 9 words"]);
        check("a.rs", &format!("#[test]\nfn short() {{\n}}\nfn {nine}() {{\n"), &[]);
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
        check("report: tell whoever reads", 1);
        check(&format!("report: {}", "x".repeat(SUBJECT_MAX)), 1);
    }

    #[test]
    fn tables_are_well_formed() {
        let phrases = BANNED.iter().chain(ALLOWED).chain(SKIPPED);
        assert!(phrases.clone().all(|(phrase, text)| !phrase.trim().is_empty() && !text.is_empty()));
        assert!(STILL_TO_CLEAN.is_sorted() && STILL_TO_CLEAN.iter().all(|path| cargo::root().join(path).exists()));
    }
}
