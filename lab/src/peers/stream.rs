//! bytegauge's TCP stream against iperf3's, both ends of either on the same CPUs, by the same sizes.

use anyhow::{Context, Result};
use bytegauge_model::unit::counted;
use bytegauge_model::{Bytes, Placement};
use bytegauge_sys::topology::{Relation, Topology};

use super::CONGESTION;
use super::arm::{RunPlace, RunResult, seconds, word};
use super::bench::PeerTests;
use super::iperf3::{self, Iperf3};
use super::pairs::{Aim, Measure, Player, Rival, Rivalry, Rivals};

pub const COMPARISON: Rivalry = Rivalry {
    heading: "TCP over loopback, compared with iperf3",
    measures: &[Measure::rate("GiB/s", |rate| format!("{:.2}", rate / f64::from(1 << 30)))],
    pairs,
    arms: &[("iperf3", theirs), ("ours", ours)],
    method: "- Both send over 127.0.0.1 with the congestion control cubic, without zero-copy, and discard the data. A rate is \
             what the receiver counted.\n\
             - `cross-core` and `same-cpu` pin both programs to the same CPUs; a coin deals the parts of the two CPUs in every \
             run. iperf3 before 3.16 serves all flows with one thread an end, bytegauge has two threads a flow.\n",
};

const AIM: Aim = Aim { text: "bytegauge moves at least 0.97 of iperf3's rate", at_least: 0.97 };

/// Placement, flows, and bytes of a read and of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    placement: Placement,
    flows: u64,
    length: u64,
}

/// The first is the smoke's. Several flows are compared unpinned only: iperf3 before 3.16 serves all of them with one thread an
/// end, which a pin would keep on one CPU while bytegauge's threads use several. 128 KiB is iperf3's own choice, and 1 MiB
/// the most that it takes.
const SETTINGS: &[Setting] = &[
    Setting { placement: Placement::Unpinned, flows: 1, length: 128 << 10 },
    Setting { placement: Placement::Unpinned, flows: 1, length: 1 << 20 },
    Setting { placement: Placement::Unpinned, flows: 4, length: 1 << 20 },
    Setting { placement: Placement::CrossCore, flows: 1, length: 1 << 20 },
    Setting { placement: Placement::SameCpu, flows: 1, length: 1 << 20 },
];

impl Setting {
    /// Whether the process may use such CPUs.
    fn is_possible(&self, topology: &Topology) -> bool {
        relation(self.placement).is_none_or(|relation| !topology.pairs(relation).is_empty())
    }

    /// The CPUs of the sending and the receiving end, chosen as bytegauge chooses them; none if unpinned.
    /// `swapped` gives each the other's part.
    fn cpus(&self, topology: &Topology, swapped: bool) -> Option<(usize, usize)> {
        let pairs = topology.pairs(relation(self.placement)?);
        let (first, last) = (*pairs.first()?, *pairs.last()?);
        match (self.placement, swapped) {
            (_, false) => Some(first),
            (Placement::SameCpu, true) => Some(last),
            (_, true) => Some((first.1, first.0)),
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {}", self.placement, counted(self.flows as usize, "flow"), Bytes(self.length))
    }
}

fn relation(placement: Placement) -> Option<Relation> {
    match placement {
        Placement::Unpinned => None,
        Placement::SameCpu => Some(Relation::SameCpu),
        Placement::SmtSibling => Some(Relation::SmtSibling),
        Placement::CrossCore => Some(Relation::CrossCore),
        Placement::CrossNode => Some(Relation::CrossNode),
    }
}

fn pairs(bench: &PeerTests) -> Result<Rivals> {
    let version = iperf3::version()?;
    let mut found = Rivals::default();
    for (at, setting) in SETTINGS.iter().take(if bench.effort.quick { 1 } else { SETTINGS.len() }).enumerate() {
        if !setting.is_possible(&bench.topology) {
            found.left_out.push(format!("{setting}: this process may not use such CPUs"));
            continue;
        }
        let words = [at.to_string(), bench.effort.seconds.to_string()];
        found.pairs.push(Rival {
            what: setting.to_string(),
            theirs: Player::new(&version, "iperf3", &words),
            ours: Player::new("bytegauge", "ours", &words),
            aims: &[Some(AIM)],
        });
    }
    Ok(found)
}

fn setting(words: &[&str]) -> Result<Setting> {
    let at: usize = word(words, 0)?.parse().context("the number of a setting")?;
    SETTINGS.get(at).copied().context("no such setting")
}

fn theirs(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let setting = setting(words)?;
    let swapped = place.random.below(2) == 1;
    let iperf3 = Iperf3 { congestion: CONGESTION.into() };
    let job = iperf3::Job {
        length: setting.length,
        flows: setting.flows,
        cpus: setting.cpus(&place.topology, swapped),
        seconds: seconds(words, 1)?,
        omit_seconds: 1,
    };
    Ok(RunResult::rate(iperf3.rate(&job)?))
}

fn ours(place: &mut RunPlace, words: &[&str]) -> Result<RunResult> {
    let setting = setting(words)?;
    let (placement, flows, size) =
        (setting.placement.to_string(), setting.flows.to_string(), setting.length.to_string());
    let seconds = format!("{}s", seconds(words, 1)?);
    let mut args = vec!["stream", "--transport", "tcp", "--profile", "drain", "--congestion", CONGESTION];
    args.extend(["--read-size", &size, "--write-size", &size, "--placement", &placement, "--flows", &flows]);
    args.extend(["--trial-time", &seconds, "--blocks", "1"]);
    Ok(RunResult::rate(place.ours.session(&args, None)?.rate()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_sys::topology::CpuPlace;

    fn topology(cpus: usize) -> Topology {
        let place = |cpu| CpuPlace { cpu, package: 0, core: cpu, node: 0, last_level_cache: None };
        Topology { cpus: (0..cpus).map(place).collect() }
    }

    fn check(placement: Placement, swapped: bool, expected: Option<(usize, usize)>) {
        let setting = Setting { placement, flows: 1, length: 1 };
        assert_eq!(setting.cpus(&topology(2), swapped), expected, "{setting}");
    }

    #[test]
    fn cpus_by_placement() {
        check(Placement::Unpinned, true, None);
        check(Placement::CrossCore, false, Some((0, 1)));
        check(Placement::CrossCore, true, Some((1, 0)));
        check(Placement::SameCpu, false, Some((0, 0)));
        check(Placement::SameCpu, true, Some((1, 1)));
    }

    #[test]
    fn one_cpu_has_no_other_core() {
        let impossible: Vec<String> =
            SETTINGS.iter().filter(|setting| !setting.is_possible(&topology(1))).map(Setting::to_string).collect();
        assert_eq!(impossible, ["cross-core, 1 flow, 1 MiB"]);
    }
}
