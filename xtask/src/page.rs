//! `cargo xtask page`: builds the report page and that of a mesh, tests them, and puts them where the program takes them from.
//!
//! The built pages are committed, so building the program needs no npm. `--check` builds the pages again, compares them, and runs the
//! page in a real browser. Without npm the check is skipped with a reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};

use xtask::steps::{self, StepDone};
use xtask::{cargo, setup};

/// The pages as npm builds them, and where the program embeds them from.
const PAGES: [(&str, &str); 2] =
    [("dist/page.html", "crates/report/page/page.html"), ("dist/mesh.html", "crates/mesh/page/mesh.html")];

/// Browsers that the tests may drive, and the Debian package of the first.
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
    match work(matches.get_flag("check"))? {
        StepDone::Passed => Ok(()),
        StepDone::Skipped(reason) => bail!("{reason}"),
        StepDone::Partly(reasons) => {
            reasons.iter().for_each(|reason| println!("skipped: {reason}"));
            Ok(())
        }
    }
}

/// The step of `cargo xtask test`.
///
/// # Errors
/// As [`run`]. A tool that the machine lacks is a reason to skip, not an error.
pub fn check() -> Result<StepDone> {
    work(true)
}

fn work(check: bool) -> Result<StepDone> {
    if let Some(reason) = no_npm() {
        return Ok(StepDone::Skipped(format!("{reason}, so the page cannot be built again")));
    }
    let folder = cargo::root().join("page");
    if let Err(error) = npm(&folder, &["ci", "--no-audit", "--no-fund"]) {
        // Without a network the step is skipped. A lock file that does not fit its manifest is an error.
        ensure!(!silent(Process::new("npm").current_dir(&folder).arg("ping")), error);
        return Ok(StepDone::Skipped("npm's registry cannot be reached, so the page cannot be built again".into()));
    }
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
    let browser = browser();
    let mut tests = Process::new("npm");
    tests.current_dir(&folder).args(["run", "test"]).env("BYTEGAUGE", program()?);
    if let Ok(path) = &browser {
        tests.env("CHROMIUM", path);
    }
    steps::visible(&mut tests)?;
    match browser {
        Ok(_) => Ok(StepDone::Passed),
        Err(reason) => Ok(StepDone::Partly(vec![format!("tests in a browser: {reason}")])),
    }
}

fn npm(folder: &Path, words: &[&str]) -> Result<()> {
    steps::visible(Process::new("npm").current_dir(folder).args(words))
        .map(drop)
        .with_context(|| format!("npm {}", words.join(" ")))
}

/// A browser that is here, or could be installed; else why not.
fn browser() -> Result<PathBuf, String> {
    let here = || BROWSERS.iter().find_map(|name| found(name));
    if let Some(path) = here() {
        return Ok(path);
    }
    setup::package(BROWSERS[0], BROWSERS[0])?;
    here().ok_or_else(|| format!("the package {} brought no browser", BROWSERS[0]))
}

/// The path of a program, if it exists.
fn found(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The program, built: its pages are looked at as well.
fn program() -> Result<PathBuf> {
    steps::visible(&mut cargo::command(&["build", "--locked", "--quiet", "--package", "bytegauge"]))?;
    Ok(cargo::workspace()?.target_directory.join("debug/bytegauge"))
}

/// The oldest Node.js that the page's tools run on.
const NODE_MIN: u32 = 20;

/// Why the page's tools cannot run here; `None` where they can.
fn no_npm() -> Option<String> {
    if !silent(Process::new("npm").arg("--version")) {
        return Some(format!("npm is not here: install Node.js {NODE_MIN} or later"));
    }
    let output = Process::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (major(&version)? < NODE_MIN).then(|| format!("Node.js is {version}: install {NODE_MIN} or later"))
}

/// `v20.11.1` → 20.
fn major(version: &str) -> Option<u32> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// Whether a program can be started and succeeds. Its output is discarded.
fn silent(command: &mut Process) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node() {
        assert_eq!(major("v20.11.1"), Some(20));
        assert_eq!(major("v9.0.0"), Some(9));
        assert_eq!(major("what"), None);
    }

    /// Its `resolved` addresses would name the registry of the last developer who updated it.
    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = fs::read_to_string(cargo::root().join("page/package-lock.json")).unwrap();
        assert!(lock.contains("\"integrity\"") && !lock.contains("\"resolved\""));
    }
}
