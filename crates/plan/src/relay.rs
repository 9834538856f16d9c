//! The requirements of a relay: factors that have no effect without one, a CPU to run on, and the path without a relay for
//! comparison.

use bytegauge_model::{
    CellKind, Level, Placement, ProgramRole, RelayMethod, RelayPlacement, RunningRelay, Spec, Transport, Workload,
};

use crate::missing_features::Catalog;
use crate::spec::Part;
use crate::{PlanError, external};

/// The kind of a combination in its part: with relays, the path without one shows their limit.
pub(crate) fn kind(part: &Part, combination: &Spec) -> CellKind {
    let named = part.levels.get("relay").map_or(0, Vec::len);
    if named > 1 && combination.relay_or_direct() == Some(RelayMethod::Direct) {
        CellKind::Ceiling
    } else {
        CellKind::Candidate
    }
}

/// The feature that this machine lacks for the relay of a cell.
pub(crate) fn missing(levels: &Spec, catalog: &Catalog) -> Option<String> {
    let relay = levels.relay()?;
    let name = &relay.to_string();
    if levels.relay_or_direct() == Some(RelayMethod::Direct) {
        return None;
    }
    // The agent of another host reports features that it lacks.
    let lacked = match levels.relay_host() {
        // An agent runs no command of a caller.
        Some(_) => levels.relay_or_direct().is_none().then(|| {
            format!(
                "--relay {name}: agents run no programs: leave out --relay-host, or start it there and measure with --connect"
            )
        }),
        None => catalog.lacks("relay", name),
    };
    if lacked.is_some() {
        return lacked;
    }
    if levels.transport().is_some_and(Transport::keeps_bounds) {
        return Some(format!("--relay {name} passes on streams, not packets: use --transport unix or tcp"));
    }
    if let Some(relay) = relay.running() {
        let transport = relay.transport();
        if levels.transport() != Some(&transport) {
            return Some(format!("--relay {relay} needs --transport {transport}"));
        }
        let stays = "runs already and is not pinned: use --relay-placement unpinned (and taskset -p)";
        let is_placed = levels.relay_placement() != Some(RelayPlacement::Unpinned);
        return is_placed.then(|| format!("--relay {relay} {stays}"));
    }
    if let Some(program) = relay.program()
        && !matches!(levels.transport(), Some(Transport::Tcp | Transport::Tcp6))
    {
        return Some(format!("--relay {} is a program and needs TCP: use --transport tcp", program.name));
    }
    if let Some(method) = levels.relay_or_direct().filter(|method| method.needs_tcp())
        && !matches!(levels.transport(), Some(Transport::Tcp | Transport::Tcp6))
    {
        return Some(format!("--relay {method} needs TCP: use --transport tcp, or another --relay"));
    }
    let place: RelayPlacement = levels.relay_placement()?;
    let ends: Placement = levels.placement()?;
    match (place, ends) {
        (RelayPlacement::Unpinned, _) => None,
        (_, Placement::Unpinned) => Some(format!(
            "--relay-placement {place} is relative to the CPUs of the ends, which are unpinned: use --relay-placement \
             unpinned, or another --placement"
        )),
        (RelayPlacement::Own, ends) => catalog.lacks("relay CPU", ends),
        (RelayPlacement::Client | RelayPlacement::Server, _) => None,
    }
}

/// A program that is a relay needs a connection between two ends.
pub(crate) fn refuse_without_one(workload: Workload, part: &Part) -> Result<(), PlanError> {
    let moot = |needs: &str| Err(PlanError::moot("role relay", needs));
    if part.role() != ProgramRole::Relay {
        return Ok(());
    }
    if part.transports(workload).iter().any(|transport| !transport.is_tcp() && *transport != Transport::Unix) {
        return moot("connections: use --transport unix, tcp, tcp6 or mptcp");
    }
    match part.levels.get("relay") {
        Some(levels) if levels.iter().all(|level| level.name() == Some("direct")) => {
            moot("a --relay other than direct")
        }
        _ => Ok(()),
    }
}

/// Refuses relays with external servers. For all that is measurable, a stream to such a server ends at the relay; and the
/// configuration of a relay that runs already names its server.
pub(crate) fn refuse_external(workload: Workload, part: &Part) -> Result<(), PlanError> {
    let named = part.levels.get("relay").into_iter().flatten().filter_map(Level::name);
    if !RunningRelay::among(named).is_empty() {
        let why = "the configuration of a running relay names its server: use --connect with the relay's own \
                   address";
        return external::refused("relay", why);
    }
    if workload == Workload::Stream && part.levels.contains_key("relay") {
        let why = "only the relay can see how much of a stream an external server received: use the workload call";
        return external::refused("relay", why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;
    use bytegauge_model::factor;

    use super::*;
    use crate::file::parse;
    use crate::{built_in, resolve};

    fn plan_with(text: &str, catalog: &Catalog) -> Result<Plan, PlanError> {
        let text = format!("transport = \"tcp\"\nprofile = \"drain\"\nread-size = \"4K\"\nwrite-size = \"4K\"\n{text}");
        resolve(&parse("t", &text).unwrap(), catalog, 1)
    }

    fn plan_with_peers(text: &str) -> Result<Plan, PlanError> {
        let text = format!("transport = \"tcp\"\nprofile = \"drain\"\n{text}");
        resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1)
    }

    fn plan(text: &str) -> Plan {
        plan_with(text, &Catalog::default()).unwrap()
    }

    #[test]
    fn plans_without_a_relay_have_no_such_level() {
        let plan = plan("");
        assert!(plan.cells.iter().all(|cell| {
            ["relay", "relay_buffer", "relay_placement"].iter().all(|name| cell.factors.get(name) == Level::Absent)
        }));
    }

    #[test]
    fn a_relay_program_is_tested_for_its_buffer() {
        let asked = plan_with_peers("role = \"relay\"").unwrap();
        let buffers: Vec<_> = asked.cells.iter().filter_map(|cell| cell.factors.relay_buffer()).collect();
        assert_eq!((asked.groups.len(), buffers), (1, vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]));
        assert!(asked.cells.iter().all(|cell| cell.factors.relay_or_direct() == Some(RelayMethod::ReadWrite)));
        assert_eq!(asked.groups[0].factors.read_size(), Some(64 << 10), "its peers' sizes are conditions");
        let named = plan_with_peers("role = \"relay\"\nrelay = \"splice,hybrid\"").unwrap();
        assert_eq!(named.cells.len(), 2);
        let refused = |text: &str| plan_with_peers(text).unwrap_err().to_string();
        let alone = refused("role = \"relay\"\nrelay = \"direct\"");
        assert_eq!(alone, "--role relay has no effect without a --relay other than direct");
        let pipe = "transport = \"pipe\"\nprofile = \"drain\"\nrole = \"relay\"";
        let pipe = resolve(&parse("t", pipe).unwrap(), &Catalog::default(), 1).unwrap_err().to_string();
        assert!(pipe.contains("use --transport unix, tcp, tcp6 or mptcp"), "{pipe}");
    }

    #[test]
    fn the_direct_path_is_a_reference() {
        let found = plan("relay = \"direct,splice,read-write\"");
        assert_eq!((found.cells.len(), found.artefacts.len()), (2, 1));
        assert_eq!(found.artefacts[0].kind, CellKind::Ceiling);
        // Alone it is a path like any other.
        let alone = plan("relay = \"direct\"");
        assert_eq!((alone.cells.len(), alone.artefacts.len()), (1, 0));
    }

    #[test]
    fn settings_without_effect_are_not_varied() {
        let cells = |text: &str| plan(text).cells.len();
        assert_eq!(cells("relay = \"splice,read-write,std-copy\"\nrelay-buffer = \"4K,64K\""), 4);
        assert_eq!(cells("relay = \"splice,read-write\"\nrelay-pipe = \"64K,1M\""), 3);
        assert_eq!(cells("relay = \"splice,tokio\"\nrelay-threads = \"direction,one\""), 3);
    }

    #[test]
    fn a_program_has_no_buffers_or_unix_sockets() {
        let text = "transport = \"tcp,unix\"\nrelay = \"haproxy,read-write,cmd:x {listen} {upstream}\"\n\
                    relay-buffer = \"4K,64K\"";
        let text = format!("profile = \"drain\"\nread-size = \"4K\"\nwrite-size = \"4K\"\n{text}");
        let found = resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1).unwrap();
        let reasons: Vec<_> = found.skipped.iter().filter_map(|(_, outcome)| outcome.reason()).collect();
        assert_eq!((found.cells.len(), reasons.len()), (8, 2), "{reasons:?}");
        assert!(reasons.iter().all(|reason| reason.contains("use --transport tcp")), "{reasons:?}");
    }

    #[test]
    fn a_running_relay_has_its_transport_and_place() {
        let reasons = |text: &str| {
            let plan = plan_with(text, &Catalog::default()).unwrap();
            let reasons: Vec<String> =
                plan.skipped.iter().filter_map(|(_, outcome)| outcome.reason().map(str::to_owned)).collect();
            (plan.cells.len(), reasons.join("; "))
        };
        assert_eq!(reasons("relay = \"direct,read-write,addr::9000=:9001\""), (2, String::new()));
        let (_, wrong_family) = reasons("relay = \"splice,addr:[::1]:9000=[::1]:9001\"");
        assert!(wrong_family.contains("needs --transport tcp6"), "{wrong_family}");
        let (_, pinned) =
            reasons("relay = \"splice,addr::9000=:9001\"\nplacement = \"cross-core\"\nrelay-placement = \"client\"");
        assert!(pinned.contains("is not pinned"), "{pinned}");
        let behind = "workload = \"call\"\nconnect = \"127.0.0.1:7000\"\nrelay = \"addr::9000=:9001\"";
        let refused = resolve(&parse("t", behind).unwrap(), &Catalog::default(), 1).unwrap_err().to_string();
        assert!(refused.contains("use --connect with the relay's own address"), "{refused}");
    }

    #[test]
    fn a_missing_relay_is_skipped_with_its_reason() {
        let mut catalog = Catalog::default();
        catalog.note_missing("relay", "uring", Some("no io_uring".into()));
        catalog.note_missing("relay CPU", "cross-core", Some("no third CPU".into()));
        let text = "relay = \"uring,splice\"\nplacement = \"cross-core\"\nrelay-placement = \"own,client\"";
        let found = plan_with(text, &catalog).unwrap();
        let reasons: Vec<_> = found.skipped.iter().filter_map(|(_, outcome)| outcome.reason()).collect();
        assert_eq!((found.cells.len(), reasons.len()), (4, 3));
        let count = |reason: &str| reasons.iter().filter(|found| **found == reason).count();
        assert_eq!((count("no io_uring"), count("no third CPU")), (2, 1));
    }

    #[test]
    fn files_of_a_relay_count_by_its_method() {
        let catalog = Catalog { open_files_max: Some(20_000), ..Catalog::default() };
        let text = "workload = \"call\"\ntransport = \"tcp\"\nprofile = \"echo\"\nflows = 5000\nserver-engine = \"epoll\"\n\
                    client-engine = \"epoll\"\nrelay = \"epoll,splice\"";
        let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
        assert_eq!((plan.skipped.len(), plan.notes.len()), (1, 1), "{:?}", plan.notes);
        assert!(plan.notes[0].contains("--relay splice: 5000 connections of 6 descriptors each need 30064 open files"));
    }

    #[test]
    fn a_plan_of_several_programs_serves_one() {
        let asked = |who: &str| {
            let mut spec = built_in::find("buffer-size").unwrap();
            spec.set_all(&[(factor::find("role").unwrap(), who.to_owned())]).unwrap();
            resolve(&spec, &Catalog::default(), 1).unwrap()
        };
        let relays = asked("relay");
        assert!(!relays.groups.is_empty());
        for levels in relays.groups.iter().map(|group| &group.factors) {
            // Levels in which all parts of the plan agree hold, and the peers' sizes are conditions.
            assert_eq!((levels.role(), levels.profile()), (Some(ProgramRole::Relay), Some("program")));
            assert_eq!(levels.placement(), Some(Placement::CrossCore));
            assert_eq!(levels.read_size(), Some(64 << 10));
        }
        let whole = resolve(&built_in::find("buffer-size").unwrap(), &Catalog::default(), 1).unwrap();
        let of =
            |plan: &Plan, who: &str| plan.groups.iter().filter(|group| group.factors.get("role") == who.into()).count();
        for who in ["reader", "writer"] {
            let alone = asked(who);
            assert_eq!((of(&alone, who), of(&alone, who)), (of(&whole, who), alone.groups.len()), "{who}");
        }
        let both = asked("both");
        assert_eq!((of(&whole, "both"), of(&both, "both")), (0, both.groups.len()));
    }

    #[test]
    fn more_relays_take_more_time() {
        let budget_ns = |relays: &str| {
            let mut spec = built_in::find("relay-copy").unwrap();
            spec.set_all(&[(factor::find("relay").unwrap(), relays.to_owned())]).unwrap();
            spec.budget_ns.unwrap()
        };
        let planned = built_in::find("relay-copy").unwrap().budget_ns.unwrap();
        assert_eq!(budget_ns("direct,splice"), planned);
        assert!(budget_ns("all") > planned * 3 / 2);
    }
}
