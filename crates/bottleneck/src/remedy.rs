//! The change that may raise a rate above each limit, in one clause.
//!
//! Only what follows from the rule of the limit: a thread that is busy needs less work or a second thread, an end that waits needs
//! what it waits for. “May help” where more than one cause is possible.

use bytegauge_model::Workload;

use super::{call, relay};

/// A second thread, or cheaper calls, of an end that sends datagrams.
const DATAGRAM_SENDER: &str =
    "more datagrams for each call (--engine mmsg or gso), larger ones, or a second sending thread may help";
/// The same of the end that receives them.
const DATAGRAM_RECEIVER: &str = "more datagrams for each call (--engine mmsg) or a second receiving thread may help";

/// The change that may help against a limit; `None` where it is not known, or where nothing can be done.
pub fn remedy(workload: Workload, datagrams: bool, name: &str) -> Option<&'static str> {
    let of_workload = match workload {
        Workload::Stream => of_stream(datagrams, name),
        Workload::Call => of_call(name),
        Workload::Ring => of_ring(name),
        Workload::Check => of_program(name),
    };
    of_workload.or_else(|| of_any(name))
}

fn of_any(name: &str) -> Option<&'static str> {
    Some(match name {
        relay::RELAY => "a relay with less CPU time for each byte (--relay splice) or more relay threads may help",
        relay::SHARED => {
            "a CPU of its own for the relay helps: --placement cross-core --relay-placement client,server compares where it runs"
        }
        relay::ALL => "more CPUs help, or ends and a relay that use less CPU time",
        "other programs" => "stop the other programs, or measure on CPUs that they leave free",
        "softirq" => "spread interrupts over more CPUs (RSS, RPS), and use more connections",
        "shared CPU" => "more CPUs help, or less CPU time for each byte or call",
        _ => return None,
    })
}

fn of_stream(datagrams: bool, name: &str) -> Option<&'static str> {
    Some(match name {
        "the harness" => "larger sizes show what the system can do",
        "offered load" => "without --rate and --think-time the maximum is measured",
        "the source itself" => "only a faster file or device helps, or fewer calls: larger reads",
        "the link" => "only a faster link helps (--link-rate sets it)",
        "sender CPU" if datagrams => DATAGRAM_SENDER,
        "receiver CPU" if datagrams => DATAGRAM_RECEIVER,
        "both CPUs" => "less CPU time for each byte at both ends, or more connections on further CPUs help",
        "sender CPU" => {
            "larger writes, another congestion control (TCP) or a second writing thread may help; larger reads hardly do"
        }
        "receiver CPU" => "larger reads, less work on the bytes or a second reading thread may help",
        "window" => "a larger SO_RCVBUF or a reader that reads sooner may help; a larger send buffer does not",
        "socket buffer" => "a larger one helps (run socket-buffers compares sizes)",
        "wake-ups" => "larger socket buffers or more connections keep both ends busy for longer at a time",
        _ => return None,
    })
}

fn of_call(name: &str) -> Option<&'static str> {
    Some(match name {
        "the harness" => "calls with more work, or larger ones, show what the server can do",
        "backlog" => "a longer backlog (listen(2), net.core.somaxconn) or faster accepts help",
        "errors" => "find out first why calls fail",
        "latency objective" => "less work for each call helps, or a longer time allowed",
        call::DELAYED_ACKS => "TCP_NODELAY (--nodelay on) helps, or a request written in one piece",
        "offered load" => "without --rate and --think-time the maximum is measured",
        "both CPUs" => "more threads at both ends, on further CPUs, or less work for each call help",
        "client CPU" => "more client threads (--client-threads) show what the server can do",
        "server CPU" => "more server threads on further CPUs, another engine or less work for each call may help",
        "wake-ups" => "more connections at once keep both ends busy",
        _ => return None,
    })
}

fn of_ring(name: &str) -> Option<&'static str> {
    Some(match name {
        "the system call" => "more operations for each io_uring_enter(2) help",
        "the loop itself" => "less work in the loop helps",
        _ => return None,
    })
}

fn of_program(name: &str) -> Option<&'static str> {
    Some(match name {
        "the program's CPU" => "a profile (perf record) shows where its time goes",
        "waits of the program" => "strace -f -T shows what it waits for; bytegauge observe its sockets",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{UNKNOWN, of, ring, stream, task};

    /// Limits for which nothing can be done, or nothing is known.
    const WITHOUT: &[&str] = &["the kernel's thread", "the kernel's work", UNKNOWN];

    #[test]
    fn every_limit_has_a_remedy() {
        let check = |workload, names: &[&'static str]| {
            for name in names.iter().filter(|name| !WITHOUT.contains(name)) {
                // The harness of a ring is a limit of the measurement alone.
                let is_known =
                    remedy(workload, false, name).is_some() || (workload, *name) == (Workload::Ring, "the harness");
                assert!(is_known, "{workload:?} {name}");
            }
        };
        check(Workload::Stream, &of(stream::RULES));
        check(Workload::Call, &of(call::RULES));
        check(Workload::Ring, &of(ring::RULES));
        check(Workload::Check, &task::NAMES);
        assert_eq!(remedy(Workload::Stream, false, UNKNOWN), None);
    }
}
