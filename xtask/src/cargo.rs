//! Calls git and the cargo that runs this program, finds the repository, and reads `cargo metadata`.
//!
//! Reads manifests; never builds anything by itself.
//!
//! Also steps one after another, each with its time, until one fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// The part of `cargo metadata --format-version 1` that the tasks read.
#[derive(Deserialize)]
pub struct Metadata {
    /// Crates of the workspace.
    pub packages: Vec<Package>,
    /// Where cargo builds to.
    pub target_directory: PathBuf,
}

/// One crate.
#[derive(Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its dependencies of every kind.
    pub dependencies: Vec<Dependency>,
}

/// A dependency as a manifest declares it.
#[derive(Deserialize)]
pub struct Dependency {
    /// The crate's name.
    pub name: String,
    /// `dev`, `build`, or none for a normal one.
    pub kind: Option<String>,
}

/// The repository's folder.
pub fn root() -> &'static Path {
    // The manifest's folder is known when this program is built, and it is built where it is run.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A cargo command in the repository, by the same cargo that runs us, without standard input.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root()).stdin(std::process::Stdio::null());
    command
}

/// Output of a git command in the repository.
///
/// # Errors
/// If git cannot be started or fails.
pub fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(root()).output().context("starting git")?;
    ensure!(output.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines of tracked files with a match of an extended regular expression, each with its file and number. `options` are those of
/// git-grep(1).
///
/// # Errors
/// If git cannot be started, or refuses the pattern.
pub fn grep(options: &str, pattern: &str, paths: &[&str]) -> Result<Vec<String>> {
    let mut grep = Command::new("git");
    let output = grep.args(["grep", options, pattern, "--"]).args(paths).current_dir(root()).output();
    let output = output.context("starting git")?;
    // 1 means that nothing was found.
    let is_done = output.status.success() || output.status.code() == Some(1);
    ensure!(is_done, "git grep: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Builds `bytegauge` for release and returns the path of the binary.
///
/// # Errors
/// If the build fails.
pub fn release_build() -> Result<PathBuf> {
    let mut build = command(&["build", "--locked", "--release", "--quiet", "--package", "bytegauge"]);
    visible(&mut build).context("building bytegauge")?;
    Ok(workspace()?.target_directory.join("release/bytegauge"))
}

/// The crates of the workspace alone; needs no network.
pub fn workspace() -> Result<Metadata> {
    let output = command(&["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("starting `cargo metadata`: is cargo on the PATH?")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    serde_json::from_slice(&output.stdout).context("reading the output of `cargo metadata`")
}

// Steps one after another, each with its time, until one fails.

/// One step.
pub struct Step<'a> {
    /// Its name.
    pub name: &'a str,
    /// The command that repeats this step alone.
    pub repeat: String,
    /// Its work: the parts that could not be tried, with the reasons. Output appears as it is printed.
    pub work: Box<dyn FnOnce() -> Result<Vec<String>> + 'a>,
}

impl<'a> Step<'a> {
    /// A step that skips nothing.
    pub fn new(name: &'a str, repeat: impl Into<String>, work: impl FnOnce() -> Result<()> + 'a) -> Step<'a> {
        Step { name, repeat: repeat.into(), work: Box::new(move || work().map(|()| Vec::new())) }
    }
}

/// Runs the steps in order and prints a summary line.
///
/// # Errors
/// With the first step that fails, and the command that repeats it.
pub fn run_all(steps: Vec<Step<'_>>) -> Result<()> {
    let (began, total) = (Instant::now(), steps.len());
    let mut skipped = 0;
    for (index, step) in steps.into_iter().enumerate() {
        println!("── {}/{total} {}: {}", index + 1, step.name, step.repeat);
        let step_began = Instant::now();
        let done = (step.work)();
        let took = step_began.elapsed().as_secs_f64();
        match done {
            Ok(reasons) if reasons.is_empty() => println!("   passed in {took:.1} s"),
            Ok(reasons) => {
                println!("   passed in {took:.1} s, except {} skipped:", reasons.len());
                reasons.iter().for_each(|reason| println!("      {reason}"));
                skipped += reasons.len();
            }
            Err(error) => {
                println!("   FAILED after {took:.1} s");
                bail!("{} failed: {error:#}\nrepeat this step with: {}", step.name, step.repeat);
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!("{total} steps passed in {took:.0} s, {skipped} parts skipped, named above");
    Ok(())
}

/// Runs a command with its output visible.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn visible(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lines_are_found_in_tracked_files() {
        let lines = |pattern: &str| grep("-nE", pattern, &["xtask/src/main.rs"]);
        let found = lines("^fn ma(i|u)n").unwrap();
        assert!(found.len() == 1 && found[0].starts_with("xtask/src/main.rs:"), "{found:?}");
        assert_eq!(lines("^fn nothing").unwrap(), Vec::<String>::new());
        assert!(lines("(").is_err());
    }

    /// Crates with their features, as cargo would build them.
    fn built(what: &[&str]) -> BTreeSet<String> {
        let tree = ["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"];
        let output = command(&tree).args(what).output().expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    }

    /// Crates that are built twice: two small ones, to which Parquet adds features, and the crate that has planted faults
    /// only where tests ask for them.
    const BUILT_TWICE: [&str; 3] = ["num-traits ", "zerocopy ", "bytegauge-traffic "];

    #[test]
    fn every_other_crate_is_built_once() {
        let of_tests = built(&["--workspace"]);
        for (what, words) in [("xtask", ["--package", "xtask"].as_slice()), ("docs", &["--workspace"])] {
            let built = built(&[words, &["--edges", "normal,build"]].concat());
            let is_known = |built: &&String| BUILT_TWICE.iter().any(|known| built.starts_with(known));
            let once_more: Vec<&String> = built.difference(&of_tests).filter(|built| !is_known(built)).collect();
            assert_eq!(once_more, Vec::<&String>::new(), "{what}: the tests build it with other features");
        }
    }
}

#[cfg(test)]
mod steps_tests {
    use super::*;

    fn step(name: &str, done: Result<Vec<String>>) -> Step<'_> {
        Step { name, repeat: format!("cargo {name}"), work: Box::new(move || done) }
    }

    #[test]
    fn a_failure_names_the_command_that_repeats_it() {
        let after = Step { name: "after", repeat: String::new(), work: Box::new(|| panic!("must not run")) };
        let steps = vec![step("fmt", Ok(Vec::new())), step("clippy", Err(anyhow::anyhow!("exit code 1"))), after];
        let error = run_all(steps).unwrap_err().to_string();
        assert_eq!(error, "clippy failed: exit code 1\nrepeat this step with: cargo clippy");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(visible(&mut Command::new("false")).is_err());
        assert!(visible(&mut Command::new("true")).is_ok());
    }
}
