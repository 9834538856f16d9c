//! `cargo xtask page`: builds the report page and that of a mesh, tests them, and puts them where the program takes them from.
//!
//! The built pages are committed, so building the program needs no npm. `--check` builds the pages again, compares them, and runs the
//! page in a real browser. Needs Node.js 20 and npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};

use xtask::cargo;

/// The pages as npm builds them, and where the program embeds them from.
const PAGES: [(&str, &str); 2] =
    [("dist/page.html", "crates/report/page/page.html"), ("dist/mesh.html", "crates/mesh/page/mesh.html")];

/// Browsers that the tests may drive.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// `cargo xtask page [--check]`.
pub fn command() -> Command {
    Command::new("page").about("Build the report page, which the program embeds, and test it in a browser").arg(
        Arg::new("check")
            .long("check")
            .action(ArgAction::SetTrue)
            .help("Write nothing; fail if the page that is committed is not what would be built"),
    )
}

/// Builds the page and writes or checks it.
///
/// # Errors
/// When npm is missing, a test fails, or the committed page is stale.
pub fn run(matches: &ArgMatches) -> Result<()> {
    build(matches.get_flag("check"))
}

/// As [`run`].
///
/// # Errors
/// As [`run`].
pub fn build(check: bool) -> Result<()> {
    let folder = cargo::root().join("page");
    npm(&folder, &["ci", "--no-audit", "--no-fund"])?;
    npm(&folder, &["run", "build"])?;
    for (built, embedded) in PAGES {
        let (built, committed) = (folder.join(built), cargo::root().join(embedded));
        if check {
            let same = fs::read(&built).context("the page that was built")? == fs::read(&committed).unwrap_or_default();
            ensure!(same, "stale: {embedded}: run `cargo xtask page`");
        } else {
            fs::copy(&built, &committed).with_context(|| format!("writing {embedded}"))?;
            println!("wrote {embedded}");
        }
    }
    let mut tests = Process::new("npm");
    tests.current_dir(&folder).args(["run", "test"]).env("BYTEGAUGE", program()?);
    // Without a browser its tests skip themselves.
    if let Some(path) = BROWSERS.iter().find_map(|name| cargo::on_path(name).ok()) {
        tests.env("CHROMIUM", path);
    }
    cargo::visible(&mut tests)
}

fn npm(folder: &Path, words: &[&str]) -> Result<()> {
    cargo::visible(Process::new("npm").current_dir(folder).args(words))
        .with_context(|| format!("npm {}", words.join(" ")))
}

/// The program, built: its pages are looked at as well.
fn program() -> Result<PathBuf> {
    cargo::visible(&mut cargo::command(&["build", "--locked", "--quiet", "--package", "bytegauge"]))?;
    Ok(cargo::workspace()?.target_directory.join("debug/bytegauge"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its `resolved` addresses would name the registry of the last developer who updated it.
    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = fs::read_to_string(cargo::root().join("page/package-lock.json")).unwrap();
        assert!(lock.contains("\"integrity\"") && !lock.contains("\"resolved\""));
    }
}
