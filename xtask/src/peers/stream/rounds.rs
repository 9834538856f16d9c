//! Choosing sizes, and the rounds in which the chosen ones meet.

use anyhow::{Context, Result};
use bytegauge_model::Bytes;
use bytegauge_model::level::Kind;
use bytegauge_model::unit::byte_rate;
use bytegauge_stats::interval::Estimate;
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::Stream;
use bytegauge_sys::topology::Topology;

use super::Effort;
use super::setting::Setting;
use super::sizes::{OurStream, Sizes};
use crate::peers::bench::seed;
use crate::peers::compare::ratio;
use crate::peers::iperf3::{Iperf3, Job};

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// iperf3 at its best length.
    Peer,
    /// bytegauge at its best sizes.
    Best,
    /// bytegauge with iperf3's best length at both ends.
    SameSize,
}

const ARMS: [Arm; 3] = [Arm::Peer, Arm::Best, Arm::SameSize];

/// One setting: what was chosen for it, and what came of it.
pub struct Panel {
    /// The conditions.
    pub setting: Setting,
    /// iperf3's rate by length in the runs that chose it: bytes per second, median.
    pub peer_lengths: Vec<(u64, f64)>,
    /// iperf3's best length.
    pub peer_length: u64,
    /// bytegauge's best sizes.
    pub best: Sizes,
    /// Rates by round, bytes per second, in the order of [`ARMS`].
    rates: [Vec<f64>; 3],
}

impl Panel {
    /// The rates of an arm, one a round, bytes per second.
    pub fn rates(&self, arm: Arm) -> &[f64] {
        &self.rates[arm as usize]
    }

    /// An arm's sizes.
    pub fn sizes(&self, arm: Arm) -> Sizes {
        match arm {
            Arm::Best => self.best,
            Arm::Peer | Arm::SameSize => Sizes { read: self.peer_length, write: self.peer_length },
        }
    }

    /// An arm's rate over iperf3's, from the differences of logarithms within rounds, at 95 %.
    pub fn ratio(&self, arm: Arm) -> Estimate {
        ratio(self.rates(arm), self.rates(Arm::Peer))
    }

    /// The latest round in words.
    pub fn latest(&self) -> String {
        let shown = |arm: Arm| self.rates(arm).last().map(|rate| byte_rate(*rate)).unwrap_or_default();
        format!(
            "{}: iperf3 {}, bytegauge {} (best sizes), {} (iperf3's)",
            self.setting,
            shown(Arm::Peer),
            shown(Arm::Best),
            shown(Arm::SameSize)
        )
    }
}

/// The two programs, on this machine, with this much effort.
pub struct Runner<'a> {
    /// The peer.
    pub iperf3: &'a Iperf3,
    /// The product.
    pub ours: OurStream<'a>,
    /// The CPUs to pin to.
    pub topology: &'a Topology,
    /// How much to run.
    pub effort: Effort,
}

impl Runner<'_> {
    /// Looks for the best length and the best sizes in a setting.
    pub fn choose(&self, setting: Setting, random: &mut Stream) -> Result<Panel> {
        eprintln!("{setting}: looking for iperf3's best length");
        let lengths = sizes_of(self.effort.lengths)?;
        let mut rates = vec![Vec::new(); lengths.len()];
        for _ in 0..self.effort.passes {
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            random.shuffle(&mut order);
            for index in order {
                // A second without a pre-test ranks lengths well enough.
                let job = Job { seconds: 1, omit_seconds: 0, ..self.job(setting, lengths[index], random) };
                rates[index].push(self.iperf3.rate(&job)?);
            }
        }
        let peer_lengths: Vec<(u64, f64)> =
            lengths.iter().zip(&rates).filter_map(|(length, rates)| Some((*length, median(rates)?))).collect();
        let best = peer_lengths.iter().max_by(|a, b| a.1.total_cmp(&b.1)).context("no lengths to try")?;
        let peer_length = best.0;
        eprintln!("{setting}: looking for bytegauge's best sizes");
        let found = self.ours.best(setting, self.effort.lengths, self.effort.search_budget, seed(random))?;
        let best = self.better(setting, found, Sizes { read: peer_length, write: peer_length }, random)?;
        eprintln!("{setting}: iperf3 with {}, bytegauge with {best}", Bytes(peer_length));
        Ok(Panel { setting, peer_lengths, peer_length, best, rates: Default::default() })
    }

    /// The better of two pairs of sizes, by runs as long as those that are judged: short trials choose well
    /// among many sizes, but not always between the last two.
    fn better(&self, setting: Setting, one: Sizes, other: Sizes, random: &mut Stream) -> Result<Sizes> {
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for _ in 0..self.effort.passes {
            ones.push(self.ours.rate(setting, one, self.effort.seconds, seed(random))?);
            others.push(self.ours.rate(setting, other, self.effort.seconds, seed(random))?);
        }
        Ok(if median(&ones) >= median(&others) { one } else { other })
    }

    /// Runs every arm once, in random order.
    pub fn visit(&self, panel: &mut Panel, random: &mut Stream) -> Result<()> {
        let mut order = ARMS;
        random.shuffle(&mut order);
        for arm in order {
            let rate = match arm {
                Arm::Peer => self.iperf3.rate(&self.job(panel.setting, panel.peer_length, random))?,
                Arm::Best | Arm::SameSize => {
                    self.ours.rate(panel.setting, panel.sizes(arm), self.effort.seconds, seed(random))?
                }
            };
            panel.rates[arm as usize].push(rate);
        }
        Ok(())
    }

    fn job(&self, setting: Setting, length: u64, random: &mut Stream) -> Job {
        // bytegauge swaps the parts of its two CPUs by a coin as well.
        let swapped = random.below(2) == 1;
        Job {
            length,
            flows: setting.flows,
            cpus: setting.cpus(self.topology, swapped),
            seconds: self.effort.seconds,
            omit_seconds: self.effort.omit_seconds,
        }
    }
}

/// The sizes of a list or range such as `8K..1M`.
fn sizes_of(text: &str) -> Result<Vec<u64>> {
    let levels = Kind::Size { min: 1, max: 1 << 30, auto: false }.parse_list(text)?;
    Ok(levels.iter().filter_map(bytegauge_model::Level::number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(sizes_of("64K,256K").unwrap(), [65_536, 262_144]);
        assert_eq!(sizes_of("8K..1M").unwrap().len(), 8);
    }
}
