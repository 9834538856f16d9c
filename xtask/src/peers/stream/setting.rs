//! The conditions under which the two programs meet.

use std::fmt;
use std::fs;

use anyhow::{Context, Result};
use bytegauge_model::Placement;
use bytegauge_sys::topology::{Relation, Topology};

/// Placement and flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where the two ends run.
    pub placement: Placement,
    /// Parallel flows.
    pub flows: u64,
}

/// All settings; the first is the smoke's. Several flows are compared unpinned only: iperf3 before 3.16 serves
/// all of them with one thread an end, which a pin would keep on one CPU while bytegauge's threads use several.
pub const SETTINGS: &[Setting] = &[
    Setting { placement: Placement::Unpinned, flows: 1 },
    Setting { placement: Placement::Unpinned, flows: 4 },
    Setting { placement: Placement::CrossCore, flows: 1 },
    Setting { placement: Placement::SameCpu, flows: 1 },
];

impl Setting {
    /// Whether the process may use such CPUs.
    pub fn is_possible(&self, topology: &Topology) -> bool {
        relation(self.placement).is_none_or(|relation| !topology.pairs(relation).is_empty())
    }

    /// The CPUs of the sending and the receiving end, chosen as bytegauge chooses them; none if unpinned.
    /// `swapped` gives each the other's part.
    pub fn cpus(&self, topology: &Topology, swapped: bool) -> Option<(usize, usize)> {
        let pairs = topology.pairs(relation(self.placement)?);
        let (first, last) = (*pairs.first()?, *pairs.last()?);
        match (self.placement, swapped) {
            (_, false) => Some(first),
            (Placement::SameCpu, true) => Some(last),
            (_, true) => Some((first.1, first.0)),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.flows == 1 { "" } else { "s" };
        write!(f, "{}, {} flow{plural}", self.placement, self.flows)
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

/// The machine's TCP congestion control, which both programs are then told to use.
///
/// # Errors
/// When the kernel does not say (tcp(7)).
pub fn congestion_control() -> Result<String> {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
    Ok(text.trim().to_owned())
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
        let setting = Setting { placement, flows: 1 };
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
        let possible: Vec<String> =
            SETTINGS.iter().filter(|setting| setting.is_possible(&topology(1))).map(Setting::to_string).collect();
        assert_eq!(possible, ["unpinned, 1 flow", "unpinned, 4 flows", "same-cpu, 1 flow"]);
    }
}
