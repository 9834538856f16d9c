//! Calls git, the cargo that runs this program and other programs, finds the repository, and reads `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
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

/// Runs a step of several with its output visible, and prints its time. `repeat` is the command that repeats this step alone.
///
/// # Errors
/// When its work fails.
pub fn step(name: &str, repeat: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("── {name}: {repeat}");
    let began = Instant::now();
    let done = work();
    let how = if done.is_ok() { "passed in" } else { "FAILED after" };
    println!("   {how} {:.1} s", began.elapsed().as_secs_f64());
    done.with_context(|| format!("{name} failed: repeat this step with: {repeat}"))
}

/// The file of a program: the distribution's, or else the first in PATH. The PATH of a user may lack the folders of servers,
/// and a file earlier in PATH may be a script that selects a version.
///
/// # Errors
/// If there is none.
pub fn on_path(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/usr/sbin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("{program} is not installed"))
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

    #[test]
    fn a_failure_names_the_command_that_repeats_it() {
        let error = step("clippy", "cargo clippy", || visible(&mut Command::new("false"))).unwrap_err();
        assert_eq!(format!("{error:#}"), "clippy failed: repeat this step with: cargo clippy: exit status: 1");
        assert!(step("fmt", "cargo fmt", || visible(&mut Command::new("true"))).is_ok());
    }

    #[test]
    fn programs_are_found() {
        assert!(on_path("sh").is_ok_and(|file| file.ends_with("sh")));
        let missing = on_path("no-such-program-anywhere").unwrap_err();
        assert_eq!(missing.to_string(), "no-such-program-anywhere is not installed");
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
