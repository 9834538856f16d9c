//! The change that may raise a rate above each limit, in one clause.
//!
//! Only what follows from the rule of the limit: a thread that is busy needs less work or a second thread, an end that waits needs
//! what it waits for. “May help” where more than one cause is possible. Names nothing that the option has already, and no second
//! thread where no CPU is left for it.

use bytegauge_model::Workload;

use super::path;

/// The facts about a limited option that decide what may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedOption<'a> {
    /// Its workload.
    pub workload: Workload,
    /// It moves datagrams.
    pub datagrams: bool,
    /// Its engine moves several of them with a call.
    pub batches: bool,
    /// Its connections use TCP.
    pub tcp: bool,
    /// The machine may have a CPU that its threads and its relay leave free.
    pub spare_cpu: bool,
    /// The factors whose levels were compared: the best level is known then.
    pub varied: &'a [String],
}

impl LimitedOption<'_> {
    fn compares(&self, factor: &str) -> bool {
        self.varied.iter().any(|varied| varied == factor)
    }

    fn compares_engines(&self) -> bool {
        self.varied.iter().any(|varied| varied.ends_with("engine"))
    }
}

/// The change that may help against a limit; `None` where it is not known, or where nothing can be done.
pub fn remedy(of: &LimitedOption, name: &str) -> Option<String> {
    let reads = (!of.compares("read_size"), "larger reads");
    let writes = (!of.compares("write_size"), "larger writes");
    let known = match name {
        // Operations of a ring have neither.
        "the harness" if of.workload == Workload::Ring => return None,
        "the harness" => "more work for each call, or larger sizes, show what the system can do",
        "offered load" => "without --rate and --think-time the maximum is measured",
        path::RELAY => {
            let threads = of.spare_cpu && !of.compares("relay_threads");
            let less = (true, "a relay that uses less CPU time");
            return may_help(&[less, (threads, "more relay threads (--relay-threads)")]);
        }
        path::RELAY_SHARED if of.spare_cpu => "a CPU of its own for the relay helps (--relay-placement own)",
        path::RELAY_SHARED | path::ALL => "more CPUs help, or ends and a relay that use less CPU time",
        "too few CPUs" => "more CPUs help, or fewer connections or threads",
        "other programs" => "stop the other programs, or measure on CPUs that they leave free",
        "softirq" => "spread interrupts over more CPUs (RSS, RPS), and use more connections",
        "shared CPU" => "more CPUs help, or less CPU time for each byte or call",
        "both CPUs" => {
            let less = (true, "less CPU time for each byte or call at both ends");
            return may_help(&[less, (of.spare_cpu, "more connections or threads on further CPUs")]);
        }
        "the source itself" => return may_help(&[(true, "a faster file or device"), reads]),
        "the link" => "only a faster link helps (--link-rate sets it)",
        // A second thread, or cheaper calls, of an end of datagrams.
        "sender CPU" if of.datagrams => {
            let batch = (!of.compares_engines() && !of.batches, "more datagrams for each call (--engine mmsg or gso)");
            let larger = (!of.compares("write_size"), "larger datagrams");
            return may_help(&[batch, larger, (of.spare_cpu, "a second sending thread")]);
        }
        "receiver CPU" if of.datagrams => {
            let batch = (!of.compares_engines() && !of.batches, "more datagrams for each call (--engine mmsg)");
            return may_help(&[batch, (of.spare_cpu, "a second receiving thread")]);
        }
        "sender CPU" => {
            let congestion = (of.tcp && !of.compares("congestion"), "another congestion control");
            return may_help(&[writes, congestion, (of.spare_cpu, "a second writing thread")]);
        }
        "receiver CPU" => {
            let less = (true, "less work on the bytes");
            return may_help(&[reads, less, (of.spare_cpu, "a second reading thread")]);
        }
        "window" if of.compares("rcvbuf") => return None,
        "socket buffer" if ["sndbuf", "rcvbuf"].into_iter().any(|name| of.compares(name)) => return None,
        "window" => "a larger SO_RCVBUF or a reader that reads sooner may help; a larger send buffer does not",
        "socket buffer" => "a larger one helps (run socket-buffers compares sizes)",
        "wake-ups" if of.workload == Workload::Call => "more connections at once keep both ends busy",
        "wake-ups" => "larger socket buffers or more connections keep both ends busy for longer at a time",
        "backlog" => "a longer backlog (listen(2), net.core.somaxconn) or faster accepts help",
        "errors" => "find out first why calls fail",
        "latency objective" => "less work for each call helps, or a longer time allowed",
        path::DELAYED_ACKS => "TCP_NODELAY (--nodelay on) helps, or messages written in one piece",
        "client CPU" if !of.spare_cpu => "a client on another host (--host) shows what the server can do",
        "client CPU" => "more client threads (--client-threads) show what the server can do",
        "server CPU" => {
            let threads = of.spare_cpu && !of.compares("server_threads");
            return may_help(&[
                (!of.compares_engines(), "another engine"),
                (true, "less work for each call"),
                (threads, "more server threads on further CPUs (--server-threads)"),
            ]);
        }
        "the system call" => "more operations for each io_uring_enter(2) help",
        "the loop itself" => "less work in the loop helps",
        "the program's CPU" => "a profile (perf record) shows where its time goes",
        "waits of the program" => "a trace (strace -f -T) shows its waits, and the command observe its sockets",
        _ => return None,
    };
    Some(known.to_owned())
}

/// `A, B or C may help`, of those that apply.
fn may_help(parts: &[(bool, &str)]) -> Option<String> {
    let known: Vec<&str> = parts.iter().filter(|(applies, _)| *applies).map(|(_, part)| *part).collect();
    let (last, others) = known.split_last()?;
    Some(match others {
        [] => format!("{last} may help"),
        others => format!("{} or {last} may help", others.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNKNOWN;

    /// Limits for which nothing can be done, or nothing is known.
    const WITHOUT: &[&str] = &["the kernel's thread", "the kernel's work", UNKNOWN];

    const PLAIN: LimitedOption<'_> = LimitedOption {
        workload: Workload::Stream,
        datagrams: false,
        batches: false,
        tcp: true,
        spare_cpu: true,
        varied: &[],
    };

    #[test]
    fn every_limit_has_a_remedy() {
        for name in crate::names().filter(|name| !WITHOUT.contains(name)) {
            assert!(remedy(&PLAIN, name).is_some(), "{name}");
        }
        assert_eq!(remedy(&PLAIN, UNKNOWN), None);
    }

    #[test]
    fn nothing_is_advised_that_is_not_there() {
        let text = |of: LimitedOption, name| remedy(&of, name).unwrap_or_default();
        let full = LimitedOption { spare_cpu: false, ..PLAIN };
        let call = LimitedOption { workload: Workload::Call, ..full };
        for (of, name) in [(full, "sender CPU"), (full, "both CPUs"), (call, "server CPU"), (call, path::RELAY)] {
            let spare = LimitedOption { spare_cpu: true, ..of };
            assert!(text(spare, name).contains("thread") || text(spare, name).contains("further CPUs"), "{name}");
            assert!(!text(of, name).contains("thread") && !text(of, name).contains("further CPUs"), "{name}");
        }
        assert!(text(PLAIN, path::RELAY_SHARED).contains("--relay-placement"));
        assert!(!text(full, path::RELAY_SHARED).contains("--relay-placement"));
        let varied = ["read_size", "write_size", "congestion", "rcvbuf", "server_engine"].map(str::to_owned);
        let compared = LimitedOption { varied: &varied, ..full };
        assert_eq!(text(compared, "receiver CPU"), "less work on the bytes may help");
        for limit in ["sender CPU", "window", "socket buffer"] {
            assert_eq!(remedy(&compared, limit), None, "{limit}");
        }
        let datagrams = LimitedOption { datagrams: true, ..PLAIN };
        assert!(text(datagrams, "sender CPU").contains("mmsg"));
        assert!(!text(LimitedOption { batches: true, ..datagrams }, "sender CPU").contains("mmsg"));
        let engines = LimitedOption { varied: &varied, ..call };
        assert_eq!(text(engines, "server CPU"), "less work for each call may help");
    }
}
