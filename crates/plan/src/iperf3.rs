//! iperf3 servers as the other end of a stream: `--role` states the direction, the server gets a few settings.
//!
//! Such a server reads by default. With `--role reader` it writes. It takes the size of its writes and the offered load
//! from the control connection; nothing else of it can be set.

use bytegauge_model::option;
use bytegauge_model::{Direction, EndRole, Level, Place, ProgramRole, Spec, Transport, Workload};

use crate::PlanError;
use crate::external::refused;
use crate::spec::Part;

/// The block that iperf3 reads and writes by default over TCP (iperf3(1), -l).
const BLOCK: &str = "128K";

/// The largest block that iperf3 reads or writes over TCP (iperf3(1), -l).
const BLOCK_MAX: u64 = 1 << 20;

/// The shortest datagram of iperf3: its number and its time, bytes.
const DATAGRAM_MIN: u64 = 16;

/// Factors of a writer that an iperf3 server cannot be given.
const OF_WRITER: &[&str] = &["writer_work", "think_time", "batch"];

/// Why they are refused.
pub(crate) const OF_THE_WRITER: &str =
    "the iperf3 server writes here, and this cannot be set there: leave it out, or use --role writer";

/// Whether a part's server is an iperf3 server.
pub(crate) fn is_meant(part: &Part) -> bool {
    part.places("connect").iter().any(Place::is_iperf3)
}

/// Whether the server is iperf3's and writes, so that the end here reads.
pub(crate) fn server_writes(part: &Part) -> bool {
    (part.role() == ProgramRole::Reader || goes(part, Direction::From)) && is_meant(part)
}

/// Whether bytes go in a direction in all cells.
fn goes(part: &Part, direction: Direction) -> bool {
    part.levels.get("direction").is_some_and(|levels| *levels == [Level::Name(direction.to_string())])
}

/// Whether a factor is of the end that writes.
pub(crate) fn is_of_the_writer(name: &str) -> bool {
    let is_set_here = |sites: fn(&Spec) -> option::Sites| sites(&Spec::default()).0.contains(&EndRole::Sink);
    OF_WRITER.contains(&name) || option::of_factor(name).is_some_and(|row| !is_set_here(row.sites))
}

/// Sets the factors that follow from an iperf3 server. Without effect on other servers.
///
/// # Errors
/// If iperf3 cannot do what was asked for.
pub(crate) fn settle(part: &mut Part, workload: Workload) -> Result<(), PlanError> {
    if !is_meant(part) {
        return Ok(());
    }
    if workload != Workload::Stream {
        let needs = "bytegauge stream, since an iperf3 server answers no calls";
        return Err(PlanError::moot("connect iperf3://", needs));
    }
    if !part.places("connect").iter().all(Place::is_iperf3) {
        let needs = "a session of its own: other servers are measured in another way";
        return Err(PlanError::moot("connect iperf3://", needs));
    }
    if part.levels.get("role").is_some_and(|roles| roles.len() > 1) || part.role() == ProgramRole::Relay {
        return refused("role", "one direction a session: use --role writer or --role reader");
    }
    if part.levels.contains_key("direction") && !goes(part, Direction::From) && !goes(part, Direction::To) {
        return refused("direction", "one direction a session: use --direction to or --direction from");
    }
    let by_datagrams = part.transports(workload).iter().any(Transport::is_datagram);
    let sizes: Vec<u64> = part.levels.get("write_size").into_iter().flatten().filter_map(Level::number).collect();
    if by_datagrams && sizes.iter().any(|size| *size < DATAGRAM_MIN) {
        return refused("write_size", "a datagram of iperf3 has at least 16 bytes: use --write-size 16 or more");
    }
    settle_direction(part, by_datagrams);
    if server_writes(part) && !by_datagrams {
        if sizes.iter().any(|size| *size > BLOCK_MAX) {
            return refused("write_size", "an iperf3 server writes at most 1 MiB at once: use --write-size 1M or less");
        }
        if sizes.is_empty() {
            let block = bytegauge_model::factor::find("write_size").and_then(|factor| factor.kind.parse(BLOCK).ok());
            part.settle("write_size", block.into_iter().collect());
        }
    }
    Ok(())
}

/// A role states the direction of a stream, a direction that of datagrams: either may be given for both.
fn settle_direction(part: &mut Part, by_datagrams: bool) {
    let reads = server_writes(part);
    let given = ["role", "direction"].map(|name| part.levels.contains_key(name));
    if !given.contains(&true) {
        return;
    }
    let role = if by_datagrams { None } else { part.levels.remove("role") };
    part.levels.remove("role");
    part.levels.remove("direction");
    match (reads, by_datagrams) {
        (true, true) => part.settle("direction", vec![Level::Name(Direction::From.to_string())]),
        (true, false) => part.settle("role", vec![Level::Name(ProgramRole::Reader.to_string())]),
        (false, _) => part.levels.extend(role.map(|levels| ("role", levels))),
    }
}

/// Describes the server.
pub(crate) fn note(place: &Place) -> String {
    let at = if let Place::Iperf3(at) = place { at } else { place };
    format!(
        "the other end is the iperf3 server at {at}: its settings and its CPU time are its own. Each trial is one test of \
         iperf3 and stores the results that the server reports; the rate is measured here"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::plan_of_flags as plan;

    const AT: (&str, &str) = ("connect", "iperf3://127.0.0.1");

    #[test]
    fn writer_compares_its_own_settings() {
        let plan = plan(Workload::Stream, &[AT, ("write_size", "64K,256K"), ("sndbuf", "1M")]).unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len()), (1, 2));
        let cell = &plan.cells[0].factors;
        assert!(!cell.iperf3_writes() && cell.is_with_iperf3());
        assert_eq!(cell.get("transport").name(), Some("tcp"));
        assert!(plan.notes.iter().any(|note| note.contains("the iperf3 server at 127.0.0.1:5201")), "{:?}", plan.notes);
    }

    #[test]
    fn reader_compares_its_own_settings() {
        for reads in [("role", "reader"), ("direction", "from")] {
            let flags = [AT, reads, ("profile", "drain"), ("read_size", "64K,256K"), ("rcvbuf", "1M")];
            let plan = plan(Workload::Stream, &flags).unwrap();
            assert_eq!((plan.groups.len(), plan.cells.len()), (1, 2));
            let cell = &plan.cells[0].factors;
            assert!(cell.iperf3_writes());
            assert_eq!((cell.write_size(), cell.get("sndbuf")), (Some(128 << 10), Level::Absent));
            assert_eq!(cell.direction(), None);
            let (setters, _) = (option::of_factor("rcvbuf").unwrap().sites)(cell);
            assert!(setters.contains(&EndRole::Sink) && cell.get("rcvbuf") == Level::Number(1 << 20));
        }
    }

    #[test]
    fn datagrams_go_in_both_directions() {
        for (flags, reads) in [
            (&[("role", "reader")][..], true),
            (&[("direction", "from")], true),
            (&[("role", "writer")], false),
            (&[("direction", "to")], false),
            (&[], false),
        ] {
            let common = [AT, ("transport", "udp"), ("write_size", "1000")];
            let flags: Vec<_> = common.iter().chain(flags).copied().collect();
            let plan = plan(Workload::Stream, &flags).unwrap();
            assert!(plan.cells.iter().all(|cell| cell.factors.iperf3_writes() == reads), "{flags:?}");
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        let check = |flags: &[(&str, &str)], part: &str| {
            let flags: Vec<_> = std::iter::once(&AT).chain(flags).copied().collect();
            let error = plan(Workload::Stream, &flags).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(
            &[("role", "reader"), ("sndbuf", "1M")],
            "--sndbuf does not work with --connect: the iperf3 server writes",
        );
        check(&[("role", "reader"), ("write_size", "2M")], "at most 1 MiB at once");
        check(&[("role", "reader,writer")], "one direction a session");
        check(&[("rcvbuf", "1M")], "--rcvbuf does not work");
        check(&[("transport", "udp"), ("write_size", "8")], "at least 16 bytes");
        let error = plan(Workload::Call, &[AT]).unwrap_err();
        assert!(error.contains("answers no calls"), "{error}");
        let error = plan(Workload::Stream, &[("connect", "iperf3://127.0.0.1,127.0.0.1:7")]).unwrap_err();
        assert!(error.contains("a session of its own"), "{error}");
    }
}
