//! Resources shared by all sections: the program, the machine's CPUs, and the size of the runs.

use std::path::PathBuf;

use anyhow::Result;
use bytegauge_sys::topology::Topology;

use super::ours::Ours;
use crate::section::today;
use xtask::product;

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct BenchEffort {
    /// Blocks of a session.
    pub blocks: u64,
    /// Length of a run, seconds.
    pub seconds: u64,
    /// One pair or few settings: only checks that it still works.
    pub quick: bool,
}

impl BenchEffort {
    /// The smoke test.
    pub const QUICK: BenchEffort = BenchEffort { blocks: 1, seconds: 1, quick: true };
}

/// The place of all comparisons.
pub struct PeerTests {
    /// The product, built for release.
    pub ours: Ours,
    /// An earlier build of the product.
    pub earlier: Option<PathBuf>,
    /// Words in the names of the engines' rows that are measured.
    pub rows: Option<String>,
    /// Rounds of such a row.
    pub rounds: u64,
    /// Length of a trial of such a row, milliseconds.
    pub window_ms: u64,
    /// The CPUs to pin to.
    pub topology: Topology,
    /// How much to run.
    pub effort: BenchEffort,
    /// Seed of the order.
    pub seed: u64,
    /// The day, UTC.
    pub date: String,
}

impl PeerTests {
    /// Takes the product, or builds it, and reads the machine.
    ///
    /// # Errors
    /// When it does not build.
    pub fn new(program: Option<PathBuf>, effort: BenchEffort, seed: u64) -> Result<PeerTests> {
        let program = program.map_or_else(product::built, Ok)?;
        Ok(PeerTests {
            ours: Ours::new(program)?,
            earlier: None,
            rows: None,
            rounds: 1,
            window_ms: 1,
            topology: Topology::read()?,
            effort,
            seed,
            date: today()?,
        })
    }

    /// The flags that repeat it.
    pub fn flags(&self) -> String {
        let BenchEffort { blocks, seconds, quick } = self.effort;
        if quick { "--quick".into() } else { format!("--blocks {blocks} --seconds {seconds} --seed {}", self.seed) }
    }
}
