//! One run of one program, as a session of `bytegauge ab` starts it: `cargo lab peers-run`.
//!
//! Both sides of a pair run this program with different arguments. It reads the output of each side, so the session gets
//! the same numbers from both: a rate and a cost.

use std::fmt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use bytegauge_stats::rng::{self, RandomStream};
use bytegauge_sys::topology::{Relation, Topology};
use clap::{Arg, ArgMatches, Command};

use super::ours::Ours;

/// Its name on the command line.
pub const NAME: &str = "peers-run";

/// Runs one side of a pair.
pub type Arm = fn(&mut RunPlace, &[&str]) -> Result<RunResult>;

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunResult {
    /// Units per second.
    pub rate: f64,
    /// Cost or time of a unit, seconds.
    pub cost_s: Option<f64>,
}

/// Where the two ends run: one CPU each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmCpus {
    /// CPU of the server.
    pub server: usize,
    /// CPU of the client.
    pub client: usize,
}

/// The resources of a run.
pub struct RunPlace {
    /// The product, with a store of its own.
    pub ours: Ours,
    /// The CPUs to pin to.
    pub topology: Topology,
    /// Deals the parts of the CPUs.
    pub random: RandomStream,
}

impl RunPlace {
    /// Two CPUs on different cores, their parts dealt by a coin.
    ///
    /// # Errors
    /// When this process may use only one.
    pub fn cpus(&mut self) -> Result<ArmCpus> {
        let pairs = self.topology.pairs(Relation::CrossCore);
        let (one, other) =
            *pairs.first().context("the two ends need a core each, and this process may use only one")?;
        let swapped = self.random.below(2) == 1;
        Ok(if swapped { ArmCpus { server: other, client: one } } else { ArmCpus { server: one, client: other } })
    }
}

impl RunResult {
    /// A rate alone.
    pub fn rate(rate: f64) -> RunResult {
        RunResult { rate, cost_s: None }
    }
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate {:.3}", self.rate)?;
        self.cost_s.map_or(Ok(()), |cost_s| write!(f, "\ncost {cost_s:.12}"))
    }
}

/// `cargo lab peers-run PROGRAM SECTION ARM WORDS…`.
pub fn command() -> Command {
    Command::new(NAME)
        .hide(true)
        .about("One run of one program of `cargo lab peers`: prints its rate and its cost")
        .arg(Arg::new("words").num_args(3..).required(true))
}

/// Runs it, among the arms of its section.
///
/// # Errors
/// The program's own error output.
pub fn run(matches: &ArgMatches, arms: fn(&str) -> &'static [(&'static str, Arm)]) -> Result<()> {
    let words: Vec<&str> = matches.get_many::<String>("words").into_iter().flatten().map(String::as_str).collect();
    let (program, section, name) = (word(&words, 0)?, word(&words, 1)?, word(&words, 2)?);
    let arm = arms(section).iter().find(|(other, _)| *other == name).context("no such program")?.1;
    let ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let random = rng::seeded(u64::from(ns), u64::from(std::process::id()));
    let mut place = RunPlace { ours: Ours::new(PathBuf::from(program))?, topology: Topology::read()?, random };
    println!("{}", arm(&mut place, &words[3..])?);
    Ok(())
}

/// One argument of an arm.
pub fn word<'a>(words: &[&'a str], at: usize) -> Result<&'a str> {
    words.get(at).copied().with_context(|| format!("argument {} is missing", at + 1))
}

/// An argument that is a number of seconds.
pub fn seconds(words: &[&str], at: usize) -> Result<u64> {
    word(words, at)?.parse().context("a number of seconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_for_a_session() {
        assert_eq!(
            RunResult { rate: 2.5e9, cost_s: Some(8.1e-7) }.to_string(),
            "rate 2500000000.000\ncost 0.000000810000"
        );
        assert_eq!(RunResult::rate(2.0).to_string(), "rate 2.000");
    }
}
