//! bytegauge's TCP stream against iperf3's.
//!
//! Sizes are chosen in runs of their own and judged in later ones. Every round visits every setting, and within a
//! setting its arms stand side by side in random order.

mod document;
mod rounds;
mod setting;
mod sizes;

use anyhow::{Result, ensure};
use bytegauge_stats::rng::Stream;

use super::bench::Bench;
use super::iperf3::{self, Iperf3};
use rounds::Panel;
use setting::{SETTINGS, Setting};
use sizes::OurStream;

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds that are judged.
    rounds: usize,
    /// Length of a run, seconds; iperf3 takes whole ones.
    seconds: u64,
    /// Seconds that iperf3 runs before it counts.
    omit_seconds: u64,
    /// Runs of every length when iperf3's best is looked for.
    passes: usize,
    /// The lengths tried, as a list or range of sizes, for both programs.
    lengths: &'static str,
    /// Budget of bytegauge's own search for its best sizes.
    search_budget: &'static str,
    /// How many of the settings.
    settings: usize,
}

/// What goes with 8 rounds of 1 second.
const FULL: Effort = Effort {
    rounds: 8,
    seconds: 1,
    omit_seconds: 1,
    passes: 3,
    // iperf3 refuses more than 1 MiB.
    lengths: "8K..1M",
    search_budget: "20s",
    settings: SETTINGS.len(),
};

const QUICK: Effort =
    Effort { rounds: 2, seconds: 1, omit_seconds: 0, passes: 1, lengths: "64K,256K", search_budget: "4s", settings: 1 };

/// Compares, and makes the document's part.
///
/// # Errors
/// When a program is missing or a run fails.
pub fn compared(bench: &Bench, random: &mut Stream) -> Result<String> {
    let effort = match bench.effort.quick {
        true => QUICK,
        false => Effort { rounds: bench.effort.rounds, seconds: bench.effort.seconds, ..FULL },
    };
    let version = iperf3::version()?;
    let congestion = setting::congestion_control()?;
    let iperf3 = Iperf3 { congestion: congestion.clone() };
    let ours = OurStream { ours: &bench.ours, congestion: &congestion };
    let topology = &bench.topology;

    let (possible, missing): (Vec<Setting>, Vec<Setting>) =
        SETTINGS[..effort.settings].iter().partition(|setting| setting.is_possible(topology));
    for setting in &missing {
        println!("left out: {setting}: this process may not use such CPUs");
    }
    ensure!(!possible.is_empty(), "no setting is possible here");
    let runner = rounds::Runner { iperf3: &iperf3, ours, topology, effort };
    let mut panels =
        possible.into_iter().map(|setting| runner.choose(setting, random)).collect::<Result<Vec<Panel>>>()?;
    judge(&runner, &mut panels, random)?;
    for panel in &panels {
        println!("{}", document::line(panel));
    }
    let environment = bench.ours.environment()?;
    let facts =
        document::Facts { peer: &version, date: &bench.date, seed: bench.seed, effort, environment: &environment };
    Ok(document::text(&facts, &panels))
}

fn judge(runner: &rounds::Runner<'_>, panels: &mut [Panel], random: &mut Stream) -> Result<()> {
    for round in 1..=runner.effort.rounds {
        let mut order: Vec<usize> = (0..panels.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            runner.visit(&mut panels[index], random)?;
            eprintln!("round {round}/{}: {}", runner.effort.rounds, panels[index].latest());
        }
    }
    Ok(())
}
