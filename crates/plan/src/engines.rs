//! Matches engines with transports: bytes and datagrams have different engines. An engine that fits none of the
//! plan's transports is refused. One that fits some of them is left out of the others, with a note.
//!
//! Also what engines of datagrams cannot measure, and the requirements of a ring.

use bytegauge_model::factor::{FACTORS, Factor};
use bytegauge_model::name_tables::{Batches, ENGINES};
use bytegauge_model::{Engine, Implementation, LINK_MTU, Level, Mode, Spec, Transport, UserData, Workload};

use crate::PlanError;
use crate::missing_features::Catalog;
use crate::plan::Plan;
use crate::spec::{Part, PlanSpec};

/// An engine that was named and suits none of the transports, or a transport that none of them suits, is an error.
pub(crate) fn refuse_what_suits_nothing(spec: &PlanSpec) -> Result<(), PlanError> {
    for part in &spec.parts {
        let transports = part.transports(spec.workload);
        for (factor, levels) in named(part) {
            let unused =
                levels.iter().find(|level| !transports.iter().any(|transport| suits(factor, level, transport)));
            if let (Some(level), Some(transport)) = (unused, transports.first()) {
                return refused(factor, level, transport);
            }
            let bare = transports.iter().find(|transport| !levels.iter().any(|level| suits(factor, level, transport)));
            if let (Some(transport), Some(level)) = (bare, levels.first()) {
                return refused(factor, level, transport);
            }
        }
    }
    Ok(())
}

/// Notes where named engines are left out.
pub(crate) fn note_left_out(plan: &mut Plan, spec: &PlanSpec) {
    for part in &spec.parts {
        for transport in part.transports(spec.workload) {
            for (factor, levels) in named(part) {
                for level in levels.iter().filter(|level| !suits(factor, level, &transport)) {
                    plan.note(format!("engine {level} does not carry {transport}: left out there"));
                }
            }
        }
    }
}

/// The factors that name an engine, and the levels that a part names of each.
fn named(part: &Part) -> impl Iterator<Item = (&'static Factor, &Vec<Level>)> {
    let naming = FACTORS.iter().filter(|factor| factor.engine_of.is_some());
    naming.filter_map(|factor| Some((factor, part.levels.get(factor.name)?)))
}

/// Whether a level means something over a transport: an engine may not suit it.
pub(crate) fn suits(factor: &Factor, level: &Level, transport: &Transport) -> bool {
    let engine = level.parsed::<Engine>().zip(factor.engine_of);
    engine.is_none_or(|(engine, end)| engine.carries(end, transport))
}

fn refused(factor: &Factor, level: &Level, transport: &Transport) -> Result<(), PlanError> {
    let carries = |engine: Engine| factor.engine_of.is_some_and(|end| engine.carries(end, transport));
    let others = ENGINES.iter().filter(|row| row.value != Engine::Null && carries(row.value));
    let (flag, fitting) = (factor.flag(), others.map(|row| row.name).collect::<Vec<_>>().join(", "));
    PlanError::usage(format!("--{flag}: {level} does not carry {transport}: use one of {fitting}"))
}

// Datagrams that cannot be measured: sizes over a protocol's limit, sends that the kernel would not segment, batches that
// are never filled.

/// Most datagrams that one send is segmented into on every kernel that supports it (`UDP_MAX_SEGMENTS`, include/linux/udp.h).
const SEGMENTS_MAX: u64 = 64;

/// Why a cell's datagrams cannot be sent, with the next step.
pub(crate) fn unsendable(levels: &Spec, transport: &Transport, catalog: &Catalog) -> Option<String> {
    let most = transport.datagram_max()?;
    let over = sizes(levels).find(|(_, size)| *size > most);
    if let Some((flag, size)) = over {
        return Some(format!(
            "a datagram of {size} B is over the limit of {transport}, {most} B: use a smaller --{flag}"
        ));
    }
    let size = levels.write_size()?;
    let engine = levels.engine().filter(|engine| engine.can().batches == Batches::Cuts)?;
    // Two headers a datagram, of IP and of UDP; the interface's MTU counts the IP packet.
    let headers = if *transport == Transport::Udp { 28 } else { 48 };
    if let Some((whose, mtu)) = mtu(levels, catalog).filter(|(_, mtu)| size + headers > *mtu) {
        return Some(format!(
            "engine {engine} cannot cut datagrams of {size} B: with {headers} B of headers they are over the {whose}'s MTU \
             of {mtu} B (UDP_SEGMENT): use a smaller --write-size, or --engine mmsg"
        ));
    }
    let batch = levels.batch()?;
    if batch > SEGMENTS_MAX {
        return Some(format!(
            "engine {engine} cuts one send into at most {SEGMENTS_MAX} datagrams, not {batch}: use a smaller --batch, or auto"
        ));
    }
    (batch * size > most).then(|| {
        format!(
            "engine {engine} sends at most {most} B at once, not {batch} datagrams of {size} B: use a smaller --batch, or auto"
        )
    })
}

/// Why no system call of an end of calls can ever move more than one datagram, although its engine supports many: no two
/// are ready at once. Such a cell would measure `plain` under another name.
pub(crate) fn unbatchable(levels: &Spec) -> Option<String> {
    let batching = |engine: Option<Engine>| engine.filter(|engine| engine.can().batches == Batches::Calls);
    if levels.workload() != Workload::Call || levels.batch() == Some(1) {
        return None;
    }
    let depth = levels.depth().unwrap_or(0).max(1);
    let requests = (levels.flows().unwrap_or(0).max(1) + levels.competing_flows().unwrap_or(0)) * depth;
    if let Some(engine) = batching(levels.server_engine()).filter(|_| requests == 1) {
        return Some(format!(
            "engine {engine} of the server cannot batch, since one flow keeps one call outstanding: use more \
             --flows, a larger --depth, or --server-engine plain"
        ));
    }
    // A client's system call is one flow's.
    let engine = batching(levels.client_engine()).filter(|_| depth == 1)?;
    Some(format!(
        "engine {engine} of the client cannot batch, since a flow keeps one call outstanding: use a larger \
         --depth, or --client-engine plain"
    ))
}

/// The sizes of a cell's datagrams, and the flags that set them.
fn sizes(levels: &Spec) -> impl Iterator<Item = (&'static str, u64)> {
    let flags = [("write_size", "write-size"), ("request", "request"), ("response", "response")];
    flags.into_iter().filter_map(|(name, flag)| Some((flag, levels.get(name).number()?)))
}

/// The MTU of the path, and its owner: an emulated link, or this host's loopback unless they go to another host.
fn mtu(levels: &Spec, catalog: &Catalog) -> Option<(&'static str, u64)> {
    match levels.emulated_link() {
        Some(_) => Some(("link", LINK_MTU)),
        None => Some(("loopback", catalog.loopback_mtu.filter(|_| levels.far().is_none())?)),
    }
}

/// A note on a cell's datagrams that can be sent, if any.
pub(crate) fn note(levels: &Spec, transport: &Transport, catalog: &Catalog) -> Option<String> {
    let headers = if *transport == Transport::Udp { 28 } else { 48 };
    let size = sizes(levels).map(|(_, size)| size).max().filter(|_| transport.is_udp())?;
    let (whose, mtu) = mtu(levels, catalog).filter(|(_, mtu)| size + headers > *mtu)?;
    Some(format!("datagrams of {size} B are over the {whose}'s MTU of {mtu} B: IP cuts each into fragments"))
}

// The requirements of a ring: batches that fit it, no factors of bytes, and artefacts that are shown but never
// compared.

/// Whether a batch does not fit the ring that a combination makes.
pub(crate) fn is_too_large(combination: &Spec) -> bool {
    combination.submit_batch().zip(combination.entries()).is_some_and(|(batch, entries)| batch > entries)
}

/// Whether a combination is an artefact, which is only shown.
pub(crate) fn is_artefact(combination: &Spec) -> bool {
    let implementation = combination.implementation();
    implementation.is_some_and(Implementation::is_artefact)
}

/// Whether a part names an artefact.
pub(crate) fn names_artefact(part: &Part) -> bool {
    let named = part.levels.get("implementation").into_iter().flatten();
    named.filter_map(Level::parsed::<Implementation>).any(Implementation::is_artefact)
}

/// Whether an artefact has anything to show under these conditions: a loop that takes no completion checks none, and
/// sets no user data that it would never see again.
pub(crate) fn shows_artefacts(conditions: &Spec) -> bool {
    conditions.mode() == Some(Mode::Ceiling) && conditions.user_data() == Some(UserData::None)
}

/// Comparison of bytes where none move.
pub(crate) const NO_BYTES: &str =
    "--verify checks bytes, and nothing here moves bytes: leave it out (for a ring, use --mode checked)";

/// Refuses a batch that fits no ring of its part, and a comparison of bytes where none move.
pub(crate) fn refuse_what_no_ring_can(spec: &PlanSpec) -> Result<(), PlanError> {
    if spec.workload != Workload::Ring {
        return Ok(());
    }
    if spec.verify {
        return PlanError::usage(NO_BYTES);
    }
    for part in &spec.parts {
        let most = |name: &str| part.levels_of(spec.workload, name).iter().filter_map(Level::number).max();
        if let (Some(batch), Some(entries)) = (most("submit_batch"), most("entries"))
            && batch > entries
        {
            return PlanError::usage(format!(
                "--submit-batch: {batch} operations do not fit a ring of {entries} --entries: use {entries} or fewer, or auto"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::file::parse;
    use crate::missing_features::Catalog;
    use crate::{Plan, PlanError, resolve};

    fn plan_of(text: &str) -> Result<Plan, PlanError> {
        resolve(&parse("t", text).unwrap(), &Catalog::default(), 1)
    }

    fn engines(text: &str) -> Vec<String> {
        let plan = plan_of(text).unwrap();
        let mut engines: Vec<String> = Vec::new();
        for cell in &plan.cells {
            let shown = format!("{} {}", cell.factors.get("transport"), cell.factors.get("engine"));
            if !engines.contains(&shown) {
                engines.push(shown);
            }
        }
        engines
    }

    #[test]
    fn each_transport_has_a_default_that_suits_it() {
        assert_eq!(
            engines("transport = \"tcp,udp,unix-dgram\""),
            ["tcp blocking", "udp plain", "udp mmsg", "udp gso", "unix-dgram plain", "unix-dgram mmsg"]
        );
    }

    #[test]
    fn named_engines_are_used_where_they_fit() {
        let text = "transport = \"tcp,udp\"\nengine = \"blocking,mmsg\"";
        assert_eq!(engines(text), ["tcp blocking", "udp mmsg"]);
        let mut notes = plan_of(text).unwrap().notes;
        notes.retain(|note| note.contains("left out"));
        assert_eq!(
            notes[..2],
            ["engine mmsg does not carry tcp: left out there", "engine blocking does not carry udp: left out there"]
        );
    }

    #[test]
    fn an_unfit_engine_is_refused_with_fitting_ones() {
        let check = |text: &str, expected: &str| {
            assert_eq!(plan_of(text).expect_err(text).to_string(), expected, "{text}");
        };
        check(
            "transport = \"udp\"\nengine = \"tokio\"",
            "--engine: tokio does not carry udp: use one of uring:plain, uring:multishot, plain, mmsg, gso",
        );
        check(
            "transport = \"unix-dgram\"\nengine = \"plain,gso\"",
            "--engine: gso does not carry unix-dgram: use one of uring:plain, uring:multishot, plain, mmsg",
        );
        let error = plan_of("transport = \"tcp\"\nengine = \"gso\"").unwrap_err().to_string();
        assert!(error.starts_with("--engine: gso does not carry tcp: use one of blocking, epoll"), "{error}");
        let error = plan_of("transport = \"tcp,udp\"\nengine = \"mmsg\"").unwrap_err().to_string();
        assert!(error.starts_with("--engine: mmsg does not carry tcp: use one of"), "{error}");
    }

    #[test]
    fn a_missing_engine_is_skipped_with_its_reason() {
        let lacks = |engine: &str, reason: &str| (("engine", engine.to_owned()), reason.to_owned());
        let disabled = "engine uring:plain: io_uring is disabled (kernel.io_uring_disabled)";
        let catalog = Catalog {
            missing: [lacks("uring:plain", disabled), lacks("gso", "engine gso: no UDP_SEGMENT")].into(),
            ..Catalog::default()
        };
        let text = "transport = \"udp\"\nprofile = \"drain\"\nwrite-size = 1000\nengine = \"plain,gso,uring:plain\"";
        let plan = resolve(&parse("t", text).unwrap(), &catalog, 1).unwrap();
        assert_eq!(plan.notes, ["skipped: engine gso: no UDP_SEGMENT".to_owned(), format!("skipped: {disabled}")]);
        assert_eq!((plan.cells.len(), plan.skipped.len()), (3, 2));
    }
}

#[cfg(test)]
mod datagram_tests {
    use crate::file::parse;
    use crate::missing_features::Catalog;
    use crate::resolve::resolve;

    fn check(text: &str, mtu: u64, expected: &str) {
        let text = format!("transport = \"udp\"\nprofile = \"drain\"\n{text}");
        let catalog = Catalog { loopback_mtu: Some(mtu), ..Catalog::default() };
        let answer = match resolve(&parse("t", &text).unwrap(), &catalog, 1) {
            Ok(plan) => plan.notes.join("; "),
            Err(error) => error.to_string(),
        };
        assert!(answer.contains(expected), "{text}: {answer}");
        assert!(!expected.is_empty() || answer.is_empty(), "{text}: {answer}");
    }

    #[test]
    fn sizes_over_the_limit_are_refused() {
        check("write-size = 65507", 65_536, "");
        check("write-size = 65508", 65_536, "a datagram of 65508 B is over the limit of udp, 65507 B: use a smaller");
        check("write-size = \"1000,1M\"\nengine = \"plain\"", 65_536, "skipped: a datagram of 1048576 B is over");
    }

    #[test]
    fn sends_that_cannot_be_segmented_are_refused() {
        check("write-size = 1000\nengine = \"gso\"\nbatch = 64", 65_536, "");
        check("write-size = 64\nengine = \"gso\"\nbatch = 65", 65_536, "into at most 64 datagrams, not 65");
        check("write-size = 1472\nengine = \"gso\"\nbatch = 45", 65_536, "at most 65507 B at once, not 45 datagrams");
        check("write-size = 1473\nengine = \"gso\"", 1500, "over the loopback's MTU of 1500 B (UDP_SEGMENT)");
    }

    #[test]
    fn calls_have_the_same_limits() {
        let check = |text: &str, expected: &str| {
            let text = format!("workload = \"call\"\ntransport = \"udp\"\n{text}");
            let plan =
                resolve(&parse("t", &text).unwrap(), &Catalog { loopback_mtu: Some(1500), ..Catalog::default() }, 1);
            let answer = plan.map_or_else(|error| error.to_string(), |plan| plan.notes.join("; "));
            assert!(answer.contains(expected), "{text}: {answer}");
        };
        check("request = 65508", "a datagram of 65508 B is over the limit of udp, 65507 B: use a smaller --request");
        check("request = 1\nresponse = 65508", "use a smaller --response");
        check("request = 4096", "datagrams of 4096 B are over the loopback's MTU");
        check("request = 4096\nlink-delay = \"1ms\"", "datagrams of 4096 B are over the link's MTU of 1500 B");
        check(
            "client-engine = \"uring\"",
            "--client-engine: uring:multishot does not carry udp: use one of plain, mmsg",
        );
        check("server-engine = \"epoll\"", "use one of uring:plain, uring:multishot, plain, mmsg");
        check("server-engine = \"plain\"\nbatch = 8", "--batch has no effect without");
        check("request-chunk = 8", "--request-chunk fits none of the chosen transports (udp)");
        check("connect-per-call = true", "--connect-per-call fits none of the chosen transports (udp)");
    }

    #[test]
    fn calls_over_datagrams_have_own_engines_and_batches() {
        let error =
            parse("t", "workload = \"call\"\ntransport = \"udp\"\nserver-engine = \"gso\"").unwrap_err().to_string();
        assert!(error.contains("engine `gso` does not carry the workload call"), "{error}");
        let text = "workload = \"call\"\ntransport = \"udp\"\nprofile = \"echo\"\nrequest = 100\nflows = 1\n\
                    batch = \"8,16\"\noutstanding = \"1,64\"\nserver-engine = \"plain,mmsg,uring:plain,uring:multishot\"";
        let plan = resolve(&parse("t", text).unwrap(), &Catalog::default(), 1).unwrap();
        let engines: Vec<_> =
            plan.cells.iter().filter_map(|cell| Some(cell.factors.server_engine()?.to_string())).collect();
        assert_eq!(engines.len(), 1 + 2 + 2 + 2, "{engines:?}");
        assert!(plan.cells.iter().all(|cell| cell.factors.client_engine() == Some(bytegauge_model::Engine::Plain)));
    }

    #[test]
    fn a_batch_that_is_never_filled_is_skipped() {
        let check = |text: &str, expected: &str| {
            let text = format!("workload = \"call\"\ntransport = \"udp\"\nprofile = \"echo\"\nrequest = 100\n{text}");
            let answer = match resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1) {
                Ok(plan) => {
                    format!("{} of {} skipped; {}", plan.skipped.len(), plan.cells.len(), plan.notes.join("; "))
                }
                Err(error) => error.to_string(),
            };
            assert!(answer.contains(expected), "{text}: {answer}");
        };
        let servers = "server-engine = \"plain,mmsg\"";
        check(
            &format!("{servers}\nflows = \"1,50\""),
            "1 of 4 skipped; skipped: engine mmsg of the server cannot batch",
        );
        check(&format!("{servers}\nflows = 1\ndepth = 2"), "0 of 2 skipped");
        check(&format!("{servers}\nflows = 1\ncompeting-flows = 1"), "0 of 2 skipped");
        check("server-engine = \"mmsg\"\nflows = 1\nbatch = 1", "0 of 1 skipped");
        let client = "server-engine = \"plain\"\nclient-engine = \"mmsg\"";
        check(&format!("{client}\nflows = 50\ndepth = \"1,2\""), "1 of 2 skipped; skipped: engine mmsg of the client");
    }

    #[test]
    fn sizes_over_the_mtu_are_noted() {
        check("write-size = 1472\nengine = \"plain\"", 1500, "");
        check("write-size = 1473\nengine = \"plain\"", 1500, "over the loopback's MTU of 1500 B: IP cuts each into");
    }

    #[test]
    fn batch_and_outstanding_belong_to_their_engines() {
        check("engine = \"plain\"\nbatch = 8", 65_536, "--batch has no effect without --engine mmsg or gso");
        check("outstanding = 8", 65_536, "--outstanding has no effect without --engine uring:plain or uring:multishot");
        let text = "transport = \"udp\"\nprofile = \"drain\"\nwrite-size = 1000\nengine = \"plain,mmsg,gso,uring\"\n\
                    batch = \"8,16\"\noutstanding = \"1,64\"";
        let plan = resolve(&parse("t", text).unwrap(), &Catalog::default(), 1).unwrap();
        assert_eq!(plan.cells.len(), 1 + 2 + 2 + 2);
    }
}

#[cfg(test)]
mod ring_tests {
    use bytegauge_model::factor;

    use super::*;
    use crate::file::parse;
    use crate::{Catalog, resolve};

    fn plan_with(text: &str, catalog: &Catalog) -> Result<Plan, PlanError> {
        resolve(&parse("t", &format!("workload = \"ring\"\n{text}")).unwrap(), catalog, 1)
    }

    fn plan(text: &str) -> Result<Plan, PlanError> {
        plan_with(text, &Catalog::default())
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(plan(text).expect_err(text).to_string(), expected, "{text}");
    }

    #[test]
    fn a_ring_has_no_path_but_own_factors() {
        let plan = plan("").unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len()), (2, 2 * 8 * 3 * 2));
        for cell in &plan.cells {
            assert_eq!((cell.factors.workload(), cell.factors.transport()), (Workload::Ring, None));
            assert!(
                factor::of(Workload::Ring).all(|factor| cell.factors.get(factor.name) != Level::Absent),
                "{cell:?}"
            );
        }
        assert_eq!(plan.families.len(), 2);
    }

    #[test]
    fn what_no_ring_can_do_is_refused() {
        check_error(
            "entries = 64\nsubmit-batch = 128",
            "--submit-batch: 128 operations do not fit a ring of 64 --entries: use 64 or fewer, or auto",
        );
        check_error(
            "verify = true",
            "--verify checks bytes, and nothing here moves bytes: leave it out (for a ring, use --mode checked)",
        );
        check_error(
            "implementation = \"liburing-undrained\"",
            "--implementation liburing-undrained is an artefact, only shown with others, in mode ceiling without user \
             data, and never measured alone: add liburing to --implementation",
        );
        let error = parse("t", "workload = \"ring\"\ntransport = \"tcp\"").unwrap_err().to_string();
        assert!(error.starts_with("--transport has no meaning in the workload ring"), "{error}");
    }

    #[test]
    fn too_large_batches_are_left_out() {
        let plan =
            plan("entries = [1, 64]\nsubmit-batch = [1, 64]\nimplementation = \"raw\"\nsetup = \"coop\"").unwrap();
        let each: Vec<_> = plan
            .cells
            .iter()
            .map(|c| ["entries", "submit_batch"].map(|name| c.factors.get(name).to_string()))
            .collect();
        assert_eq!(each[..3], [["1", "1"], ["64", "1"], ["64", "64"]].map(|pair| pair.map(str::to_owned)));
        assert!(plan.notes.iter().any(|note| note.contains("left out")), "{:?}", plan.notes);
    }

    #[test]
    fn artefacts_are_shown_where_they_apply() {
        let text = "entries = 64\nimplementation = \"raw,liburing-undrained\"\nsetup = \"default\"\nuser-data = \"none,unique\"\nmode = \"ceiling,checked\"";
        let plan = plan(text).unwrap();
        assert_eq!(plan.cells.len(), 4);
        let [artefact] = &plan.artefacts[..] else { panic!("{:?}", plan.artefacts) };
        assert_eq!(artefact.kind, bytegauge_model::CellKind::Artefact);
        assert!(shows_artefacts(&artefact.factors));
        assert_eq!(plan.measurable(&artefact.group).count(), 1);
        assert_eq!(plan.artefacts_of(&artefact.group).count(), 1);
    }

    #[test]
    fn a_missing_ring_is_skipped_with_its_reason() {
        let lack = |setup: &str| (("ring", format!("raw {setup}")), format!("no {setup} here"));
        let text = "entries = 64\nmode = \"ceiling\"\nimplementation = \"raw\"\nsetup = \"default,coop\"";
        let some = Catalog { missing: [lack("coop")].into(), ..Catalog::default() };
        let plan = plan_with(text, &some).unwrap();
        assert_eq!(plan.skipped.len(), 1);
        assert_eq!(plan.notes, ["skipped: no coop here"]);
        let all = Catalog { missing: [lack("coop"), lack("default")].into(), ..Catalog::default() };
        let error = plan_with(text, &all).unwrap_err().to_string();
        assert_eq!(error, "nothing of this plan can be measured here: no default here");
    }
}
