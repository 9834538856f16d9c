//! An emulated link: refuses factors that do not work over it, and sets those that follow from it.

use bytegauge_model::unit::about_bytes;
use bytegauge_model::{Cell, EmulatedLink, Factor, FactorKey, Level, ProgramTask, Transport, Workload};

use crate::spec::{Part, PlanSpec};
use crate::{PlanError, far};

/// Whether any part of a spec asks for a link.
pub fn is_wanted(spec: &PlanSpec) -> bool {
    spec.parts.iter().any(|part| named_by(part).is_some())
}

/// The flag by which a part requests a link: one property of it is enough.
fn named_by(part: &Part) -> Option<String> {
    let of_link = FactorKey::link_rate.row().only_with;
    of_link.iter().map(|key| key.row()).find(|factor| part.levels.contains_key(factor.name)).map(Factor::flag)
}

/// Sets in a part what follows from a link.
///
/// # Errors
/// If a factor does not work over a link, or a program has no server that it could reach over one.
pub(crate) fn settle(part: &mut Part, workload: Workload, task: Option<&ProgramTask>) -> Result<(), PlanError> {
    let Some(with) = named_by(part) else { return Ok(()) };
    if let Some(task) = task {
        joins_programs(part, task, &with)?;
    }
    let refused = |name: &str, why| far::refused(name, &with, why);
    for (name, why) in [
        ("host", "a path to another host has its own delay and loss: leave one of them out"),
        ("relay_host", "a path to another host has its own delay and loss: leave one of them out"),
        ("connect", "an external server is not at the far side of the link: leave one of them out"),
        ("relay", "a link joins the two ends without a relay between: leave one of them out"),
    ] {
        if part.levels.contains_key(name) {
            return refused(name, why);
        }
    }
    // The two ends of a datagram stream exchange one greeting, which a link may lose.
    let carried = match workload {
        Workload::Call => &[Transport::Tcp, Transport::Mptcp, Transport::Udp][..],
        _ => &[Transport::Tcp, Transport::Mptcp],
    };
    let is_carried = |level: &Level| carried.iter().any(|of| *level == Level::Name(of.to_string()));
    match part.levels.get("transport").map(Vec::as_slice) {
        None if task.is_some() => {}
        None => part.settle("transport", vec![Level::Name(Transport::Tcp.to_string())]),
        Some(named) if named.iter().all(is_carried) => {}
        Some(_) => {
            return refused(
                "transport",
                "an emulated link carries streams over tcp and mptcp, and calls over udp as well",
            );
        }
    }
    let why = "the emulator needs a CPU as well, and two hosts have none in common: use unpinned";
    far::settle_unpinned(part, &with, why)
}

/// Refuses a link that would not join a program to its server.
fn joins_programs(part: &Part, task: &ProgramTask, with: &str) -> Result<(), PlanError> {
    if task.server.is_none() {
        return PlanError::usage(format!(
            "--{with} needs a server at the far side of the link: add --start and --ready"
        ));
    }
    if !task.names_server() {
        return PlanError::usage(format!(
            "over --{with} the server has another address than 127.0.0.1: write {{server}} in its place in the command, and let the server listen at all addresses or at {{server}}"
        ));
    }
    let several = |key: &&FactorKey| part.levels.get(key.row().name).is_some_and(|levels| levels.len() > 1);
    match FactorKey::link_rate.row().only_with.iter().find(several) {
        Some(key) => {
            PlanError::usage(format!("--{}: programs are joined by one link: give one value", key.row().flag()))
        }
        None => Ok(()),
    }
}

/// Notes on the links of these cells.
pub(crate) fn notes(cells: &[&Cell]) -> Vec<String> {
    let note = |link: EmulatedLink| {
        format!(
            "a process on this machine emulates a link ({link}), so CPU times mean little: {} are under way at once (delay × rate), and its queue holds {}",
            about_bytes(link.product_bytes()),
            about_bytes(link.queue_bytes())
        )
    };
    cells.iter().filter_map(|cell| cell.factors.emulated_link()).map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Plan, resolve};
    use bytegauge_model::{LinkRate, LossShare, Placement, factor};

    fn plan(workload: Workload, flags: &[(&str, &str)]) -> Result<Plan, String> {
        let mut spec = PlanSpec::named("a test", workload);
        let sizes = [("read_size", "64K"), ("write_size", "64K"), ("profile", "drain")];
        let sizes = sizes.iter().filter(|_| workload == Workload::Stream);
        let flags = flags.iter().chain(sizes).map(|(name, text)| (factor::find(name).unwrap(), (*text).to_owned()));
        spec.set_all(&flags.collect::<Vec<_>>()).unwrap();
        spec.budget_ns = Some(600_000_000_000);
        resolve(&spec, &Catalog::default(), 1).map_err(|error| error.to_string())
    }

    #[test]
    fn one_property_of_a_link_makes_a_link() {
        let of = |flags: &[(&str, &str)]| {
            let plan = plan(Workload::Stream, flags).unwrap();
            let links: Vec<_> = plan.groups.iter().map(|group| group.factors.emulated_link()).collect();
            (plan, links)
        };
        let link = |delay_ms: u64, loss, megabits: u64| {
            let (loss, rate) = (LossShare(loss), LinkRate(megabits * 1_000_000));
            Some(EmulatedLink { delay_ns: delay_ms * 1_000_000, loss, rate })
        };
        let (plan, links) = of(&[("link_loss", "0,1%")]);
        assert_eq!(links, [link(10, 0, 1000), link(10, 10_000, 1000)]);
        for cell in &plan.cells {
            assert_eq!(cell.factors.transport(), Some(&Transport::Tcp));
            assert_eq!(cell.factors.placement(), Some(Placement::Unpinned));
        }
        let has_note = |text: &str| plan.notes.iter().any(|note| note.contains(text));
        assert!(has_note("(10 ms, 1 Gbit/s, 1 % lost)") && has_note("1.19 MiB are under way"), "{:?}", plan.notes);
        assert_eq!(of(&[("link_rate", "100mbit"), ("link_delay", "1ms,20ms")]).1, [link(1, 0, 100), link(20, 0, 100)]);
        assert_eq!(of(&[("transport", "tcp")]).1, [None]);
    }

    #[test]
    fn trials_last_enough_round_trips() {
        let lengths = |delay: &str| {
            let plan = plan(Workload::Stream, &[("link_delay", delay)]).unwrap();
            let conditions = &plan.groups[0].factors;
            let warmup_ns = plan.design.confirm_warmup_ns(conditions, Some(1));
            let audited = plan.design.audits(conditions, 0);
            (warmup_ns / 1_000_000, plan.families[0].trial_ns / 1_000_000, audited)
        };
        // For a short one the queue takes longer.
        assert_eq!(lengths("0.1ms"), (150, 100, true));
        assert_eq!(lengths("10ms"), (300, 200, true));
        // As long as an audit's.
        assert_eq!(lengths("100ms"), (3000, 2000, false));
    }

    #[test]
    fn a_missing_link_gives_its_reason() {
        let reason = "an emulated link needs a user namespace";
        let mut catalog = Catalog::default();
        catalog.note_missing("link", "emulated", Some(reason.to_owned()));
        let plan = |link: &str| {
            let text =
                format!("profile = \"drain\"\nread-size = \"64K\"\nwrite-size = \"64K\"\ntransport = \"tcp\"\n{link}");
            resolve(&crate::file::parse("t", &text).unwrap(), &catalog, 1)
        };
        assert!(plan("link-delay = \"1ms\"").unwrap_err().to_string().contains(reason));
        assert_eq!(plan("").unwrap().skipped.len(), 0);
        let part = "[[part]]\n[[part]]\nlink-delay = \"1ms\"";
        let some = plan(part).unwrap();
        assert!(!some.skipped.is_empty() && some.skipped.len() < some.cells.len());
        assert!(some.notes.iter().any(|note| note.contains(reason)), "{:?}", some.notes);
    }

    #[test]
    fn factors_that_exclude_a_link_are_refused() {
        let check = |flags: &[(&str, &str)], part: &str| {
            let flags: Vec<_> = [("link_delay", "1ms")].iter().chain(flags).copied().collect();
            let error = plan(Workload::Call, &flags).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(&[("host", "192.0.2.7:1")], "--host does not work with --link-delay: a path to another host");
        check(&[("connect", "127.0.0.1:1")], "--connect does not work with --link-delay");
        check(&[("relay", "splice")], "--relay does not work with --link-delay");
        check(&[("transport", "unix")], "an emulated link carries streams over tcp");
        check(&[("placement", "cross-core")], "use unpinned");
        let over_udp = [("link_delay", "1ms"), ("transport", "udp")];
        assert!(plan(Workload::Call, &over_udp).is_ok() && plan(Workload::Stream, &over_udp).is_err());
    }
}
