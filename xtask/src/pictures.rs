//! `cargo xtask pictures`: makes the README's pictures from the session in `docs/pictures`.
//!
//! The renderers of the program make the screen and the page; `page/scripts/pictures.mjs` shows both in a browser. Never
//! measures.

use std::fs;
use std::process::Command as Process;

use anyhow::{Context, Result};
use clap::{ArgMatches, Command};

use crate::generate::screen;
use crate::page;
use xtask::{cargo, steps};

/// `cargo xtask pictures`.
pub fn command() -> Command {
    Command::new("pictures")
        .about("Make the README's pictures from docs/pictures/session.jsonl.gz; needs npm and a browser")
}

/// Makes them.
///
/// # Errors
/// When the session cannot be read, or npm or a browser is missing.
pub fn run(_: &ArgMatches) -> Result<()> {
    let view = screen::view()?;
    let folder = tempfile::tempdir()?;
    let command = format!("$ bytegauge report {}\n", view.session);
    fs::write(folder.path().join("screen.txt"), command + &screen::shown(&view, true)).context("writing the screen")?;
    fs::write(folder.path().join("page.html"), bytegauge_formats::page::render(&[view], serde_json::Value::Null))
        .context("writing the page")?;
    let browser = page::browser().map_err(anyhow::Error::msg)?;
    let npm = ["run", "--silent", "pictures", "--"];
    steps::visible(
        Process::new("npm")
            .current_dir(cargo::root().join("page"))
            .args(npm)
            .arg(folder.path())
            .env("CHROMIUM", browser),
    )
    .map(drop)
    .context("npm run pictures (its tools: `npm ci` in page/)")
}
