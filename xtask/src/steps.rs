//! Steps one after another, each with its time, until one fails.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

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
pub fn run(steps: Vec<Step<'_>>) -> Result<()> {
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
    use super::*;

    fn step(name: &str, done: Result<Vec<String>>) -> Step<'_> {
        Step { name, repeat: format!("cargo {name}"), work: Box::new(move || done) }
    }

    #[test]
    fn a_failure_names_the_command_that_repeats_it() {
        let after = Step { name: "after", repeat: String::new(), work: Box::new(|| panic!("must not run")) };
        let steps = vec![step("fmt", Ok(Vec::new())), step("clippy", Err(anyhow::anyhow!("exit code 1"))), after];
        let error = run(steps).unwrap_err().to_string();
        assert_eq!(error, "clippy failed: exit code 1\nrepeat this step with: cargo clippy");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(visible(&mut Command::new("false")).is_err());
        assert!(visible(&mut Command::new("true")).is_ok());
    }
}
