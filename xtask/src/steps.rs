//! Steps one after another, each with its time, until one fails.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::duration;

/// How a step ended, if it did not fail.
pub enum Done {
    /// All is well.
    Passed,
    /// It could not be tried, and why.
    Skipped(String),
    /// All is well but for parts that could not be tried, and why.
    Partly(Vec<String>),
}

/// One step.
pub struct Step<'a> {
    /// Its name.
    pub name: &'a str,
    /// The command that repeats this step alone.
    pub repeat: String,
    /// What it does; its output is seen as it comes.
    pub work: Box<dyn FnOnce() -> Result<Done> + 'a>,
}

/// Runs the steps in order and prints a summary line.
///
/// # Errors
/// With the first step that fails, and the command that repeats it.
pub fn run(steps: Vec<Step<'_>>) -> Result<()> {
    let (began, total) = (Instant::now(), steps.len());
    let mut times = Vec::new();
    let (mut skipped, mut parts) = (Vec::new(), 0);
    for (index, step) in steps.into_iter().enumerate() {
        println!("── {}/{total} {}: {}", index + 1, step.name, step.repeat);
        let step_began = Instant::now();
        let done = (step.work)();
        let took = step_began.elapsed();
        match done {
            Ok(Done::Passed) => println!("   passed in {}", duration::show(took)),
            Ok(Done::Skipped(reason)) => {
                println!("   skipped: {reason}");
                skipped.push(format!("{} ({reason})", step.name));
            }
            Ok(Done::Partly(reasons)) => {
                println!("   passed in {}, but for {} skipped:", duration::show(took), reasons.len());
                for reason in &reasons {
                    println!("      {reason}");
                }
                parts += reasons.len();
            }
            Err(error) => {
                println!("   FAILED after {}", duration::show(took));
                bail!("{} failed: {error:#}\nrepeat this step with: {}", step.name, step.repeat);
            }
        }
        times.push((step.name, took));
    }
    println!("{}", summary(&times, &skipped, parts, began.elapsed()));
    Ok(())
}

/// Runs a command with its output visible.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn visible(command: &mut Command) -> Result<Done> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{status}");
    Ok(Done::Passed)
}

fn summary(times: &[(&str, Duration)], skipped: &[String], parts: usize, total: Duration) -> String {
    let mut slow: Vec<_> = times.iter().filter(|(_, took)| took.as_secs() >= 1).collect();
    slow.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    let slow: Vec<String> = slow.iter().map(|(name, took)| format!("{name} {}", duration::show(*took))).collect();
    let passed = times.len() - skipped.len();
    let mut text = format!("{passed} steps passed in {}", duration::show(total));
    if !slow.is_empty() {
        text.push_str(&format!(" ({})", slow.join(", ")));
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

    fn step(name: &str, done: Result<Done>) -> Step<'_> {
        Step { name, repeat: format!("cargo {name}"), work: Box::new(move || done) }
    }

    #[test]
    fn a_failure_ends_the_run_and_names_the_command() {
        let after = Step { name: "after", repeat: String::new(), work: Box::new(|| panic!("must not run")) };
        let steps = vec![step("fmt", Ok(Done::Passed)), step("clippy", Err(anyhow::anyhow!("exit code 1"))), after];
        let error = run(steps).unwrap_err().to_string();
        assert_eq!(error, "clippy failed: exit code 1\nrepeat this step with: cargo clippy");
    }

    #[test]
    fn skips_are_said_in_the_summary() {
        let times = [("fmt", Duration::from_millis(5)), ("peers", Duration::from_secs(2))];
        let text = summary(&times, &["peers (no iperf3)".into()], 0, Duration::from_secs(62));
        assert_eq!(text, "1 steps passed in 1 min 2 s (peers 2.0 s); skipped 1: peers (no iperf3)");
        let text = summary(&times[..1], &[], 3, Duration::from_secs(62));
        assert_eq!(text, "1 steps passed in 1 min 2 s; 3 tests skipped themselves, named above");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(visible(&mut Command::new("false")).is_err());
        assert!(visible(&mut Command::new("true")).is_ok());
    }
}
