//! What all sections share: the program, the machine's CPUs, how much to run, and the order of the runs.

use anyhow::{Context, Result};
use bytegauge_stats::rng::Stream;
use bytegauge_sys::topology::{Relation, Topology};

use super::ours::Ours;
use super::today;
use crate::product;

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds that are judged.
    pub rounds: usize,
    /// Length of a run, seconds.
    pub seconds: u64,
    /// Few settings and no choosing: does it still work?
    pub quick: bool,
}

impl Effort {
    /// A smoke.
    pub const QUICK: Effort = Effort { rounds: 1, seconds: 1, quick: true };

    /// Rounds in which an arm is chosen that later ones judge: as many, since the arms lie closer together than two
    /// runs of one.
    pub fn choosing_rounds(self) -> usize {
        if self.quick { 0 } else { self.rounds }
    }

    /// The flags that repeat it.
    pub fn flags(self) -> String {
        if self.quick { "--quick".into() } else { format!("--rounds {} --seconds {}", self.rounds, self.seconds) }
    }
}

/// Where the two ends of a comparison run: one CPU each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Of the server.
    pub server: usize,
    /// Of the client.
    pub client: usize,
}

/// The place of all comparisons.
pub struct Bench {
    /// The product, built for release.
    pub ours: Ours,
    /// The CPUs to pin to.
    pub topology: Topology,
    /// How much to run.
    pub effort: Effort,
    /// Seed of the order.
    pub seed: u64,
    /// The day, UTC.
    pub date: String,
}

impl Bench {
    /// Builds the product and reads the machine.
    ///
    /// # Errors
    /// When something does not build.
    pub fn new(effort: Effort, seed: u64) -> Result<Bench> {
        Ok(Bench { ours: Ours::new(product::built()?)?, topology: Topology::read()?, effort, seed, date: today()? })
    }

    /// Two CPUs on different cores, their parts dealt by a coin.
    ///
    /// # Errors
    /// When this process may use only one.
    pub fn cpus(&self, random: &mut Stream) -> Result<Cpus> {
        let pairs = self.topology.pairs(Relation::CrossCore);
        let (one, other) =
            *pairs.first().context("the two ends need a core each, and this process may use only one")?;
        let swapped = random.below(2) == 1;
        Ok(if swapped { Cpus { server: other, client: one } } else { Cpus { server: one, client: other } })
    }

    /// Visits all arms round by round, in random order within each, on CPUs that are dealt anew every round. What
    /// was measured, by arm and round.
    ///
    /// # Errors
    /// With the arm that failed.
    pub fn rounds<A: std::fmt::Display, T>(
        &self,
        rounds: usize,
        arms: &[A],
        random: &mut Stream,
        mut measure: impl FnMut(&A, Cpus, u64) -> Result<T>,
    ) -> Result<Vec<Vec<T>>> {
        let mut measured: Vec<Vec<T>> = arms.iter().map(|_| Vec::with_capacity(rounds)).collect();
        for round in 1..=rounds {
            let cpus = self.cpus(random)?;
            let mut order: Vec<usize> = (0..arms.len()).collect();
            random.shuffle(&mut order);
            for index in order {
                let arm = &arms[index];
                let named = || format!("{arm}, round {round}");
                let found = measure(arm, cpus, seed(random)).or_else(|error| {
                    // One run in hundreds may be starved; twice in a row is a fault.
                    eprintln!("{}: {error:#}: once more", named());
                    measure(arm, cpus, seed(random))
                });
                let found = found.with_context(named)?;
                measured[index].push(found);
            }
            eprintln!("round {round} of {rounds}");
        }
        Ok(measured)
    }
}

/// A seed that survives as a JSON number.
pub fn seed(random: &mut Stream) -> u64 {
    random.bits() >> 11
}
