//! Steps one after another, each with its time and its CPU time, until one fails.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use bytegauge_sys::cpu_time;

/// How a step ended, if it did not fail.
pub enum StepDone {
    /// All is well.
    Passed,
    /// It could not be tried, and why.
    Skipped(String),
    /// All parts that could be tried passed; the reasons of the others.
    Partly(Vec<String>),
}

/// One step.
pub struct Step<'a> {
    /// Its name.
    pub name: &'a str,
    /// The command that repeats this step alone.
    pub repeat: String,
    /// Its work. Output appears as it is printed.
    pub work: Box<dyn FnOnce() -> Result<StepDone> + 'a>,
}

/// Time that a step took.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    /// CPU time of this process and of all children that have ended. Other processes do not count.
    cpu: Duration,
}

impl Took {
    fn show(self) -> String {
        format!("{}, {:.0} CPU s", shown(self.wall), self.cpu.as_secs_f64())
    }
}

/// How long something took, for people: `12.3 s`, `4 min 5 s`.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let seconds = seconds.round() as u64;
    format!("{} min {} s", seconds / 60, seconds % 60)
}

/// A moment from which time and CPU time count.
struct Began {
    at: Instant,
    cpu_ns: u64,
}

impl Began {
    fn now() -> Began {
        Began { at: Instant::now(), cpu_ns: cpu_ns() }
    }

    fn took(&self) -> Took {
        Took { wall: self.at.elapsed(), cpu: Duration::from_nanos(cpu_ns().saturating_sub(self.cpu_ns)) }
    }
}

fn cpu_ns() -> u64 {
    cpu_time::process_usage().total_ns + cpu_time::ended_children_ns()
}

/// Runs the steps in order and prints a summary line.
///
/// # Errors
/// With the first step that fails, and the command that repeats it.
pub fn run(steps: Vec<Step<'_>>) -> Result<()> {
    let (began, total) = (Began::now(), steps.len());
    let mut times = Vec::new();
    let (mut skipped, mut parts) = (Vec::new(), 0);
    for (index, step) in steps.into_iter().enumerate() {
        println!("── {}/{total} {}: {}", index + 1, step.name, step.repeat);
        let step_began = Began::now();
        let done = (step.work)();
        let took = step_began.took();
        match done {
            Ok(StepDone::Passed) => println!("   passed in {}", took.show()),
            Ok(StepDone::Skipped(reason)) => {
                println!("   skipped: {reason}");
                skipped.push(format!("{} ({reason})", step.name));
            }
            Ok(StepDone::Partly(reasons)) => {
                println!("   passed in {}, except {} skipped:", took.show(), reasons.len());
                for reason in &reasons {
                    println!("      {reason}");
                }
                parts += reasons.len();
            }
            Err(error) => {
                println!("   FAILED after {}", took.show());
                bail!("{} failed: {error:#}\nrepeat this step with: {}", step.name, step.repeat);
            }
        }
        times.push((step.name, took));
    }
    println!("{}", summary(&times, &skipped, parts, began.took()));
    Ok(())
}

/// Runs a command with its output visible.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn visible(command: &mut Command) -> Result<StepDone> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{status}");
    Ok(StepDone::Passed)
}

fn summary(times: &[(&str, Took)], skipped: &[String], parts: usize, total: Took) -> String {
    let mut slow: Vec<_> = times.iter().filter(|(_, took)| took.wall.as_secs() >= 1).collect();
    slow.sort_by_key(|(_, took)| std::cmp::Reverse(took.wall));
    let slow: Vec<String> = slow.iter().map(|(name, took)| format!("{name} {}", took.show())).collect();
    let passed = times.len() - skipped.len();
    let mut text = format!("{passed} steps passed in {}", total.show());
    if !slow.is_empty() {
        text.push_str(&format!(" ({})", slow.join("; ")));
    }
    if !skipped.is_empty() {
        text.push_str(&format!("; skipped {}: {}", skipped.len(), skipped.join("; ")));
    }
    if parts > 0 {
        text.push_str(&format!("; {parts} tests skipped themselves, named above"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, done: Result<StepDone>) -> Step<'_> {
        Step { name, repeat: format!("cargo {name}"), work: Box::new(move || done) }
    }

    #[test]
    fn durations() {
        for (millis, expected) in [(40, "0.0 s"), (12_340, "12.3 s"), (59_990, "1 min 0 s"), (245_000, "4 min 5 s")] {
            assert_eq!(shown(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_failure_names_the_command_that_repeats_it() {
        let after = Step { name: "after", repeat: String::new(), work: Box::new(|| panic!("must not run")) };
        let steps = vec![step("fmt", Ok(StepDone::Passed)), step("clippy", Err(anyhow::anyhow!("exit code 1"))), after];
        let error = run(steps).unwrap_err().to_string();
        assert_eq!(error, "clippy failed: exit code 1\nrepeat this step with: cargo clippy");
    }

    #[test]
    fn skips_are_in_the_summary() {
        let took = |millis: u64| Took { wall: Duration::from_millis(millis), cpu: Duration::from_millis(2 * millis) };
        let times = [("fmt", took(5)), ("peers", took(2000))];
        let text = summary(&times, &["peers (no iperf3)".into()], 0, took(62_000));
        let expected = "1 steps passed in 1 min 2 s, 124 CPU s (peers 2.0 s, 4 CPU s); skipped 1: peers (no iperf3)";
        assert_eq!(text, expected);
        let text = summary(&times[..1], &[], 3, took(62_000));
        assert_eq!(text, "1 steps passed in 1 min 2 s, 124 CPU s; 3 tests skipped themselves, named above");
    }

    #[test]
    fn the_cpu_time_of_children_counts() {
        let began = Began::now();
        visible(Command::new("sh").args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"])).unwrap();
        let took = began.took();
        assert!(took.cpu > Duration::from_millis(1), "{}", took.show());
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(visible(&mut Command::new("false")).is_err());
        assert!(visible(&mut Command::new("true")).is_ok());
    }
}
