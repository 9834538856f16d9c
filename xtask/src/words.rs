//! Banned words in text and identifiers, and the form of commit subjects.
//!
//! A person reads the rest: no program judges names and sentences.

use anyhow::Result;
use xtask::cargo;

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
const CHECKED: [&str; 6] = ["*.rs", "*.ts", "*.toml", "*.md", ":!crates/store/src/schema.rs", ":!xtask/src/words.rs"];

/// Every line with a banned word, and every commit subject that `main` does not have and that breaks a rule.
///
/// # Errors
/// If git cannot be started.
pub fn breaches() -> Result<Vec<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
