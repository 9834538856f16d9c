//! The screen in the README and the tutorial: the report of the stored session of the pictures.

use std::fs::{self, File};

use anyhow::{Context, Result};
use bytegauge_import::ImportOptions;
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

/// The README with the screen in its place.
///
/// # Errors
/// When the session cannot be read, or the README has no place for it.
pub fn readme() -> Result<String> {
    with_screen(README)
}

/// The tutorial with the screen in its place.
///
/// # Errors
/// When the session cannot be read, or the tutorial has no place for it.
pub fn tutorial() -> Result<String> {
    with_screen(TUTORIAL)
}

fn with_screen(path: &str) -> Result<String> {
    let document = fs::read_to_string(cargo::root().join(path)).with_context(|| format!("reading {path}"))?;
    let missing = || format!("{path} has no lines `{}` and a block of code below it", BEGINS.trim_end());
    let (before, rest) = document.split_once(BEGINS).with_context(missing)?;
    let (_, behind) = rest.split_once(ENDS).with_context(missing)?;
    Ok(format!("{before}{BEGINS}{}{ENDS}{behind}", screen()?))
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
    fn readme_has_one_screen() {
        let screen = screen().unwrap();
        assert!(screen.starts_with("bytegauge buffer-size · session 1 · "), "{screen}");
        let widest = screen.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= COLUMNS && screen.contains("\nSummary\n"), "{screen}");
    }
}
