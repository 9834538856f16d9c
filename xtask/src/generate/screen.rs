//! The screen in the README and the tutorial: the report of the stored session of the pictures.

use std::fs::{self, File};

use anyhow::{Context, Result};
use bytegauge_import::ImportOptions;
use bytegauge_model::unit::counted;
use bytegauge_report::{SessionData, Settings, View, render};
use bytegauge_store::Store;
use flate2::read::GzDecoder;

use xtask::cargo;

const README: &str = "README.md";
const TUTORIAL: &str = "docs/tutorial.md";
/// Made by `bytegauge export`.
const SESSION: &str = "docs/pictures/session.jsonl.gz";
/// The lines before and after the screen.
const BEGINS: &str = "<!-- the screen: made by `cargo xtask generate` of docs/pictures/session.jsonl.gz -->\n```\n";
const ENDS: &str = "```\n";
/// As wide as the pictures.
const COLUMNS: usize = 80;
/// Tests that the README shows: it is read in a minute.
const README_TESTS: usize = 3;

/// The README with the screen in its place.
///
/// # Errors
/// When the session cannot be read, or the README has no place for it.
pub fn readme() -> Result<String> {
    with_screen(README, &excerpt(&screen()?, README_TESTS))
}

/// The tutorial with the screen in its place.
///
/// # Errors
/// When the session cannot be read, or the tutorial has no place for it.
pub fn tutorial() -> Result<String> {
    with_screen(TUTORIAL, &excerpt(&screen()?, 1))
}

/// The first tests of a screen, what their marks mean, and the summary: the tutorial explains one table.
fn excerpt(screen: &str, shown: usize) -> String {
    let (tests, summary) = screen.split_once("\nSummary\n").unwrap_or((screen, ""));
    let (tests, marks) = tests.split_once("\n\nWith ").unwrap_or((tests, ""));
    let marks = if marks.is_empty() { String::new() } else { format!("With {marks}\n\n") };
    let mut parts = tests.trim_end().split("\n\n");
    let first: Vec<&str> = parts.by_ref().take(1 + shown).collect();
    let more = counted(parts.count(), "more test");
    format!("{}\n\n[… {more}]\n\n{}Summary\n{summary}", first.join("\n\n"), marks.replace("\n\n\n", "\n\n"))
}

fn with_screen(path: &str, screen: &str) -> Result<String> {
    let document = fs::read_to_string(cargo::root().join(path)).with_context(|| format!("reading {path}"))?;
    let missing = || format!("{path} has no lines `{}` and a block of code below it", BEGINS.trim_end());
    let (before, rest) = document.split_once(BEGINS).with_context(missing)?;
    let (_, behind) = rest.split_once(ENDS).with_context(missing)?;
    Ok(format!("{before}{BEGINS}{screen}{ENDS}{behind}"))
}

fn screen() -> Result<String> {
    Ok(shown(&view()?, false))
}

/// The screen on a terminal as wide as the pictures.
pub fn shown(view: &View, colour: bool) -> String {
    let style = render::TerminalStyle { columns: COLUMNS, colour, ..render::TerminalStyle::default() };
    render::screen::render(view, &style)
}

/// The stored session, as shown on the machine where it was measured.
///
/// # Errors
/// When it cannot be read.
pub fn view() -> Result<View> {
    let folder = tempfile::tempdir()?;
    let mut store = Store::open(&folder.path().join("results.db"))?;
    let session = File::open(cargo::root().join(SESSION)).with_context(|| format!("opening {SESSION}"))?;
    let imported = bytegauge_import::import(&mut store, GzDecoder::new(session), &ImportOptions::default())?;
    let mut data = SessionData::load(&store, imported.session)?;
    data.record.imported = false;
    Ok(View::of(&data, &Settings::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_one_test_and_the_summary() {
        let screen = "head\n\nA\n 4K\n\nB\n 4K\n\nC\n 4K\n\nSummary\n  Next: x\n\nUse\n  A: 4K\n";
        let expected = "head\n\nA\n 4K\n\n[… 2 more tests]\n\nSummary\n  Next: x\n\nUse\n  A: 4K\n";
        assert_eq!(excerpt(screen, 1), expected);
    }

    #[test]
    fn readme_has_one_screen() {
        let screen = screen().unwrap();
        assert!(screen.starts_with("bytegauge buffer-size · session 1 · "), "{screen}");
        let widest = screen.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= COLUMNS && screen.contains("\nSummary\n"), "{screen}");
    }
}
