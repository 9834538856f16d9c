//! Which CPUs the ends of each flow are pinned to.
//!
//! Placement moves a result more than any buffer size, so it is fixed within a block and the roles of the
//! two CPUs are swapped between blocks by a seeded coin: other load of one CPU (interrupts, a
//! busy neighbour) averages out over blocks and cancels within them.

use std::collections::BTreeMap;

use bytegauge_model::{EndRole, Placement, RelayPlacement, Side, Spec};
use bytegauge_sys::topology::{Relation, Topology};

/// The CPUs of each end's flows, cyclically; empty leaves it to the scheduler.
///
/// One-ended sources have no placement: their one end is pinned, so that it does not move. Competing clients use
/// the CPUs of the measured ones.
pub fn cpus(factors: &Spec, topology: &Topology, swapped: bool) -> BTreeMap<EndRole, Vec<usize>> {
    let placement = factors.placement();
    let Some(relation) = relation(placement.unwrap_or(Placement::SameCpu)) else { return BTreeMap::new() };
    let mut pairs = topology.pairs(relation);
    if swapped {
        if relation == Relation::SameCpu {
            pairs.reverse();
        } else {
            for pair in &mut pairs {
                *pair = (pair.1, pair.0);
            }
        }
    }
    let own = own_cpu(&pairs, topology);
    let (here, there): (Vec<usize>, Vec<usize>) = pairs.into_iter().unzip();
    let relays = match factors.relay_placement() {
        Some(RelayPlacement::Own) => own.into_iter().collect(),
        Some(RelayPlacement::Client) => here.clone(),
        Some(RelayPlacement::Server) => there.clone(),
        Some(RelayPlacement::Unpinned) | None => Vec::new(),
    };
    let cpus = |role: &EndRole| match role.side() {
        // A program of the user's with a server.
        Side::Sink if *role == EndRole::Command => (*role, here.clone()),
        Side::Source => (*role, here.clone()),
        Side::Sink => (*role, there.clone()),
    };
    factors
        .workload()
        .row()
        .roles
        .iter()
        .map(cpus)
        .chain((!relays.is_empty()).then_some((EndRole::Relay, relays)))
        .collect()
}

/// A CPU that neither end of the first flow uses: the last one, which other programs are least likely to use.
fn own_cpu(pairs: &[(usize, usize)], topology: &Topology) -> Option<usize> {
    let (here, there) = pairs.first()?;
    topology.cpus.iter().map(|place| place.cpu).rfind(|cpu| cpu != here && cpu != there)
}

/// Why a placement of the ends leaves a relay no CPU of its own, or `None` if it does.
pub fn relay_missing(placement: Placement, topology: &Topology) -> Option<String> {
    let has_own = |relation| own_cpu(&topology.pairs(relation), topology).is_some();
    (!has_own(relation(placement)?)).then(|| {
        let same_cpu = match has_own(Relation::SameCpu) {
            true => "--relay-placement own --placement same-cpu (both ends on one CPU, the relay on another), or ",
            false => "",
        };
        format!(
            "--relay-placement own: with --placement {placement} the ends use all allowed CPUs: use {same_cpu}\
             --relay-placement client,server (where one of the ends runs)"
        )
    })
}

/// How two CPUs are related under a placement that pins.
fn relation(placement: Placement) -> Option<Relation> {
    Some(match placement {
        Placement::Unpinned => return None,
        Placement::SameCpu => Relation::SameCpu,
        Placement::SmtSibling => Relation::SmtSibling,
        Placement::CrossCore => Relation::CrossCore,
        Placement::CrossNode => Relation::CrossNode,
    })
}

/// Why a placement is unavailable on this machine, or `None` if it is available.
pub fn missing(placement: Placement, topology: &Topology) -> Option<String> {
    let relation = relation(placement)?;
    let why = match relation {
        Relation::SameCpu => "no CPU is allowed",
        Relation::SmtSibling => "no two hardware threads of one core are allowed to this process",
        Relation::CrossCore => "only one core is allowed to this process",
        Relation::CrossNode => "the allowed CPUs are on one NUMA node",
    };
    topology.pairs(relation).is_empty().then(|| format!("placement {placement}: {why}: use another --placement"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_sys::topology::CpuPlace;

    fn cores(count: usize) -> Topology {
        let place = |cpu| CpuPlace { cpu, core: cpu, node: 0, last_level_cache: None };
        Topology { cpus: (0..count).map(place).collect() }
    }

    fn two_cores() -> Topology {
        cores(2)
    }

    #[test]
    fn suggestions_for_relays_can_be_measured() {
        let missing = |placement, count| relay_missing(placement, &cores(count));
        assert_eq!((missing(Placement::CrossCore, 3), missing(Placement::SameCpu, 2)), (None, None));
        let two = missing(Placement::CrossCore, 2).expect("two ends have both CPUs");
        assert!(two.contains("use --relay-placement own --placement same-cpu (both ends"), "{two}");
        let one = missing(Placement::SameCpu, 1).expect("there is one CPU");
        assert!(
            !one.contains("use --relay-placement own") && one.contains("use --relay-placement client,server"),
            "{one}"
        );
    }

    fn check(placement: &str, swapped: bool, first: Option<(usize, usize)>) {
        let factors = Spec::from([("placement", placement.into())]);
        let found = cpus(&factors, &two_cores(), swapped);
        let first_of = |role| found.get(&role).and_then(|cpus: &Vec<usize>| cpus.first().copied());
        assert_eq!(first_of(EndRole::Source).zip(first_of(EndRole::Sink)), first, "{placement}");
    }

    #[test]
    fn pairs_by_placement() {
        check("unpinned", false, None);
        check("same-cpu", false, Some((0, 0)));
        check("same-cpu", true, Some((1, 1)));
        check("cross-core", false, Some((0, 1)));
        check("cross-core", true, Some((1, 0)));
        assert!(missing(Placement::SmtSibling, &two_cores()).is_some());
        assert_eq!(missing(Placement::CrossCore, &two_cores()), None);
    }
}
