//! `cargo lab busy`, `quota` and `quiet`: the tests under conditions that `cargo xtask test` does not create.
//!
//! `busy` and `quota` check that no test depends on the speed or the load of the machine. They repeat the tests that open
//! sockets or start the program, next to busy loops and in a control group with half a CPU. A single failure fails the run.
//! `quiet` runs the ignored tests, whose effects noise can hide, so one of five rounds may fail.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytegauge_sys::process::die_with_parent;
use clap::{Arg, ArgMatches, Command, value_parser};
use xtask::cargo;
use xtask::steps;

/// The crates whose tests use system calls; the others only compute.
const PACKAGES: [&str; 4] = ["bytegauge-sys", "bytegauge-traffic", "bytegauge-harness", "bytegauge"];

/// Busy loops per CPU.
const LOOPS_PER_CPU: usize = 2;

/// The quota of the control group in each period, microseconds: half a CPU.
const QUOTA_US: u32 = 50_000;
/// The kernel's default period, microseconds (Documentation/admin-guide/cgroup-v2.rst, `cpu.max`).
const PERIOD_US: u32 = 100_000;

/// `cargo lab busy`.
pub fn busy_command() -> Command {
    repeating("busy", "Repeat the tests next to two busy loops per CPU; all must pass", "20")
}

/// `cargo lab quota`.
pub fn quota_command() -> Command {
    repeating("quota", "Repeat the tests in a control group of half a CPU (root); all must pass", "1")
}

/// `cargo lab quiet`.
pub fn quiet_command() -> Command {
    repeating("quiet", "Run tests that need a quiet machine; four of five rounds must pass", "5")
}

fn repeating(name: &'static str, about: &'static str, rounds: &'static str) -> Command {
    let times = Arg::new("times").long("times").value_name("N").default_value(rounds).help("Rounds");
    Command::new(name)
        .about(about)
        .arg(times.value_parser(value_parser!(u32).range(1..=10_000)))
        .arg(Arg::new("tests").value_name("TEST").help("Run only tests with this text in their name"))
}

/// Runs `cargo lab busy`.
///
/// # Errors
/// If a test failed, with its name and round.
pub fn run_busy(matches: &ArgMatches) -> Result<()> {
    build()?;
    let cpus = available_parallelism().context("counting the CPUs")?.get();
    let _loops = BusyLoops::start(LOOPS_PER_CPU * cpus)?;
    repeat(matches, &[], None, 0)
}

/// Runs `cargo lab quota`.
///
/// # Errors
/// As [`run_busy`].
pub fn run_quota(matches: &ArgMatches) -> Result<()> {
    build()?;
    match QuotaGroup::new() {
        Ok(group) => repeat(matches, &[], Some(&group), 0),
        Err(reason) => {
            println!("skipped: no control group can be limited here: {reason:#}");
            Ok(())
        }
    }
}

/// Runs `cargo lab quiet`.
///
/// # Errors
/// If too few rounds passed, with the names of the failed tests.
pub fn run_quiet(matches: &ArgMatches) -> Result<()> {
    build()?;
    // Each test needs the machine alone.
    repeat(matches, &["--ignored", "--test-threads=1"], None, rounds(matches) / 5)
}

fn rounds(matches: &ArgMatches) -> u32 {
    matches.get_one("times").copied().unwrap_or(1)
}

/// A command of cargo for the tests.
fn tests(more: &[&str]) -> Process {
    let mut command = cargo::command(&["test", "--locked", "--quiet", "--no-fail-fast"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package])).args(more);
    command
}

fn build() -> Result<()> {
    steps::visible(&mut tests(&["--no-run"])).map(drop).context("building the tests")
}

/// Repeats the tests; at most `may_fail` rounds may have failures.
fn repeat(matches: &ArgMatches, flags: &[&str], group: Option<&QuotaGroup>, may_fail: u32) -> Result<()> {
    let (times, only) = (rounds(matches), matches.get_one::<String>("tests"));
    let (mut failed_rounds, mut failures) = (0, Vec::new());
    for round in 1..=times {
        let mut command = tests(&["--"]);
        command.args(flags).args(only);
        let command = match group {
            Some(group) => &mut group.command(&command),
            None => &mut command,
        };
        let output = command.output().context("starting the tests")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            println!("   {round}/{times}: passed");
            continue;
        }
        println!("{printed}\n{}\n   {round}/{times}: FAILED", String::from_utf8_lossy(&output.stderr));
        failed_rounds += 1;
        failures.extend(failed(&printed).iter().map(|test| format!("{test}, round {round}")));
    }
    ensure!(
        failed_rounds <= may_fail,
        "{failed_rounds} of {times} rounds failed, at most {may_fail} may:\n  {}",
        failures.join("\n  ")
    );
    Ok(())
}

/// The names of failed tests in the output of libtest: it lists them after `failures:`, indented.
fn failed(printed: &str) -> Vec<&str> {
    let listed = printed.split("\nfailures:\n").skip(1).flat_map(str::lines);
    let names = listed.filter_map(|line| line.strip_prefix("    ")).filter(|name| !name.contains(' '));
    names.collect()
}

/// Processes that only use CPU time, until this is dropped.
struct BusyLoops(Vec<Child>);

impl BusyLoops {
    fn start(count: usize) -> Result<BusyLoops> {
        let mut loops = BusyLoops(Vec::new());
        for _ in 0..count {
            let mut busy = Process::new("sh");
            busy.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            loops.0.push(die_with_parent(&mut busy).spawn().context("starting a busy loop")?);
        }
        Ok(loops)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for busy in &mut self.0 {
            // It may have been ended from outside.
            let _ = busy.kill();
            let _ = busy.wait();
        }
    }
}

/// A control group with a quota of CPU time, of the version that this machine has. Dropping it removes it.
struct QuotaGroup(PathBuf);

impl QuotaGroup {
    fn new() -> Result<QuotaGroup> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let is_unified = root.join("cgroup.controllers").exists();
        let parent = if is_unified { root } else { root.join("cpu") };
        let group = QuotaGroup(parent.join(format!("bytegauge-quota-{}", std::process::id())));
        fs::create_dir(&group.0).with_context(|| format!("making {}: run this as root", group.0.display()))?;
        let set = |name: &str, value: String| {
            let path = group.0.join(name);
            fs::write(&path, &value).with_context(|| format!("writing {value} to {}", path.display()))
        };
        if is_unified {
            set("cpu.max", format!("{QUOTA_US} {PERIOD_US}"))?;
        } else {
            set("cpu.cfs_period_us", PERIOD_US.to_string())?;
            set("cpu.cfs_quota_us", QUOTA_US.to_string())?;
        }
        Ok(group)
    }

    /// A command that runs another one in this group: a shell enters the group and becomes the program.
    fn command(&self, of: &Process) -> Process {
        let mut command = Process::new("sh");
        command.args(["-c", "echo $$ > \"$GROUP/cgroup.procs\" && exec \"$0\" \"$@\""]).env("GROUP", &self.0);
        command.arg(of.get_program()).args(of.get_args()).current_dir(cargo::root()).stdin(Stdio::null());
        command
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // A killed process leaves the group a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_names() {
        let printed =
            "running 2 tests\n\nfailures:\n\n---- c::d stdout ----\n    at x.rs\n\nfailures:\n    c::d\n\ntest result";
        assert_eq!(failed(printed), ["c::d"]);
        assert_eq!(failed("running 2 tests\n"), Vec::<&str>::new());
    }

    #[test]
    fn loops_end_with_their_owner() {
        let loops = BusyLoops::start(2).unwrap();
        let ids: Vec<u32> = loops.0.iter().map(Child::id).collect();
        let runs = |id: &u32| std::path::Path::new(&format!("/proc/{id}")).exists();
        assert!(ids.iter().all(runs));
        drop(loops);
        assert!(!ids.iter().any(runs));
    }

    #[test]
    fn a_command_runs_in_a_temporary_group() {
        let group = match QuotaGroup::new() {
            Ok(group) => group,
            Err(reason) => return eprintln!("SKIPPED: no control group can be limited here: {reason:#}"),
        };
        let mut cat = Process::new("cat");
        let output = group.command(cat.arg("/proc/self/cgroup")).output().unwrap();
        let (printed, path) = (String::from_utf8_lossy(&output.stdout).into_owned(), group.0.clone());
        assert!(printed.contains(path.file_name().unwrap().to_str().unwrap()), "{printed}");
        drop(group);
        assert!(!path.exists());
    }
}
