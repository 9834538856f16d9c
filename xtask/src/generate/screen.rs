//! The screen in the README and the tutorial: the report of a stored session.

use std::fs::{self, File};

use anyhow::{Context, Result};
use bytegauge_import::ImportOptions;
use bytegauge_report::{Report, SessionData, Settings, render};
use bytegauge_store::Store;
use flate2::read::GzDecoder;

use xtask::cargo;

/// Made by `bytegauge report export`.
const SESSION: &str = "docs/example/session.jsonl.gz";
/// The lines before and after the screen.
const BEGINS: &str = "<!-- the screen: made by `cargo xtask generate` of docs/example/session.jsonl.gz -->\n```\n";
const ENDS: &str = "```\n";
/// As wide as a usual terminal.
const COLUMNS: usize = 80;

/// A document with the screen in its place.
///
/// # Errors
/// When the session cannot be read, or the document has no place for it.
pub fn within(path: &str) -> Result<String> {
    let screen = screen()?;
    let document = fs::read_to_string(cargo::root().join(path)).with_context(|| format!("reading {path}"))?;
    let missing = || format!("{path} has no lines `{}` and a block of code below it", BEGINS.trim_end());
    let (before, rest) = document.split_once(BEGINS).with_context(missing)?;
    let (_, behind) = rest.split_once(ENDS).with_context(missing)?;
    Ok(format!("{before}{BEGINS}{screen}{ENDS}{behind}"))
}

/// The screen of the stored session, as shown on the machine where it was measured.
fn screen() -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut store = Store::open(&folder.path().join("results.db"))?;
    let session = File::open(cargo::root().join(SESSION)).with_context(|| format!("opening {SESSION}"))?;
    let imported = bytegauge_import::import(&mut store, GzDecoder::new(session), &ImportOptions::default())?;
    let mut data = SessionData::load(&store, imported.session)?;
    data.record.imported = false;
    let style = render::TerminalStyle { columns: COLUMNS, ..render::TerminalStyle::default() };
    Ok(render::screen::render(&Report::of(&data, &Settings::default()), &style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_has_one_screen() {
        let screen = screen().unwrap();
        assert!(screen.starts_with("bytegauge buffer-size #1  "), "{screen}");
        let widest = screen.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= COLUMNS && screen.lines().count() <= 25, "{screen}");
    }
}
