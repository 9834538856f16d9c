//! Differences between the machine of a stored session and the machine now, with the reason why each matters.
//!
//! Compares recorded facts. A fact that is unknown on one side is no difference. Another machine is no change of this one:
//! then nothing is reported.

use bytegauge_model::SessionRecord;
use bytegauge_sys::kernel::version;
use serde_json::Value;

/// A fact that results depend on.
struct Fact {
    /// Its place among the facts of a machine.
    pointer: &'static str,
    /// Its name.
    name: &'static str,
    /// The transports whose results depend on it; empty: all.
    transports: &'static [&'static str],
}

const TCP: &[&str] = &["tcp", "tcp6", "mptcp"];
const IP: &[&str] = &["tcp", "tcp6", "mptcp", "udp", "udp6"];

/// In the place of a transport: paths to another host, which use a network card.
pub const OTHER_HOST: &str = "another host";
const HOSTS: &[&str] = &[OTHER_HOST];

const fn of_all(pointer: &'static str, name: &'static str) -> Fact {
    Fact { pointer, name, transports: &[] }
}

/// The facts, the kernel first: its known changes are listed with it.
const FACTS: &[Fact] = &[
    of_all(KERNEL, "kernel"),
    of_all("/cpu/mitigations", "mitigations of CPU faults"),
    of_all("/transparent_huge_pages", "transparent huge pages"),
    Fact { pointer: "/network/congestion_control", name: "net.ipv4.tcp_congestion_control", transports: TCP },
    Fact { pointer: "/network/congestion_module", name: "module of the congestion control", transports: TCP },
    Fact { pointer: "/network/tcp_rmem_bytes", name: "net.ipv4.tcp_rmem", transports: TCP },
    Fact { pointer: "/network/tcp_wmem_bytes", name: "net.ipv4.tcp_wmem", transports: TCP },
    Fact { pointer: "/network/tcp_ecn", name: "net.ipv4.tcp_ecn", transports: TCP },
    Fact { pointer: "/network/rmem_max_bytes", name: "net.core.rmem_max", transports: IP },
    Fact { pointer: "/network/wmem_max_bytes", name: "net.core.wmem_max", transports: IP },
    Fact { pointer: "/network/rmem_default_bytes", name: "net.core.rmem_default", transports: &[] },
    Fact { pointer: "/network/card/driver", name: "driver of the network card", transports: HOSTS },
    Fact { pointer: "/network/card/offloads", name: "offloads of the network card", transports: HOSTS },
    Fact { pointer: "/network/default_qdisc", name: "net.core.default_qdisc", transports: IP },
];

const KERNEL: &str = "/kernel_release";

/// Facts that stay the same as long as the machine is the same one.
const IDENTITY: &[&str] = &["/cpu/model", "/product_name"];

/// A change of the kernel that moves results.
struct KernelChange {
    /// The first version with it.
    since: (u32, u32),
    what: &'static str,
    source: &'static str,
    transports: &'static [&'static str],
}

/// Known changes, the latest first.
const KERNEL_CHANGES: &[KernelChange] = &[
    KernelChange {
        since: (6, 16),
        what: "TCP's tuning of receive buffers was reworked",
        source: "commits d59fc95be9d0 and neighbours, \"tcp: remove zero TCP TS samples for autotuning\"",
        transports: TCP,
    },
    KernelChange {
        since: (6, 15),
        what: "connect(2) finds a free port without a lock, which speeds up a connection per call",
        source: "series \"tcp: scale connect() under pressure\"",
        transports: TCP,
    },
    KernelChange {
        since: (6, 15),
        what: "MPTCP receives with fewer locks",
        source: "series \"mptcp: rx path refactor\"",
        transports: &["mptcp"],
    },
    KernelChange {
        since: (6, 14),
        what: "a read wakes the writer of a pipe only if it made room",
        source: "commit aaec5a95d596, \"pipe_read: don't wake up the writer if the pipe is still full\"",
        transports: &["pipe"],
    },
    KernelChange {
        since: (6, 10),
        what: "io_uring joins the notifications of zero-copy sends, which speeds up small ones",
        source: "io_uring_prep_send_zc(3); series \"implement io_uring notification (ubuf_info) stacking\"",
        transports: IP,
    },
    KernelChange {
        since: (6, 6),
        what: "TCP derives its window from the memory that data really takes",
        source: "commit dfa2f0483360, \"tcp: get rid of sysctl_tcp_adv_win_scale\"",
        transports: TCP,
    },
    KernelChange {
        since: (6, 6),
        what: "the scheduler is EEVDF, which wakes threads in another order",
        source: "Documentation/scheduler/sched-eevdf.rst",
        transports: &[],
    },
    KernelChange {
        since: (6, 5),
        what: "splice(2) and sendfile(2) hand pages to sockets by another path",
        source: "series \"splice, net: Use sendmsg(MSG_SPLICE_PAGES) rather than ->sendpage()\"",
        transports: &["tcp", "tcp6", "mptcp", "unix"],
    },
];

/// Whether processor and kernel are the same, so that the rates are about the same system.
pub fn is_same_system(one: &SessionRecord, other: &SessionRecord) -> bool {
    ["/cpu/model", "/kernel_release"].iter().all(|fact| {
        let known = one.machine.pointer(fact);
        known.is_some() && known == other.machine.pointer(fact)
    })
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineChange {
    /// The fact.
    pub name: &'static str,
    /// Its value in the session.
    pub then: String,
    /// Its value now.
    pub now: String,
    /// A known effect, with its source; several for a kernel.
    pub known: Vec<String>,
}

impl MachineChange {
    /// The difference as one sentence.
    pub fn sentence(&self) -> String {
        let MachineChange { name, then, now, known } = self;
        let difference = format!("{name}: {then} then, {now} now");
        std::iter::once(difference).chain(known.iter().cloned()).collect::<Vec<_>>().join("; ")
    }
}

/// The facts that have changed on the machine of a session between `then` and `now`, of those that its transports depend on.
/// `None`: it is another machine, or an unknown one.
pub fn changes(then: &Value, now: &Value, transports: &[String]) -> Option<Vec<MachineChange>> {
    let same = |pointer: &&str| known(then, pointer).zip(known(now, pointer)).is_none_or(|(then, now)| then == now);
    if known(then, KERNEL).is_none() || !IDENTITY.iter().all(same) {
        return None;
    }
    let matters = |of: &[&str]| of.is_empty() || transports.iter().any(|transport| of.contains(&transport.as_str()));
    let facts = FACTS.iter().filter(|fact| matters(fact.transports));
    let changed = facts.filter_map(|fact| {
        let (then, now) = known(then, fact.pointer).zip(known(now, fact.pointer)).filter(|(then, now)| then != now)?;
        let known = if fact.pointer == KERNEL { kernel_changes(&then, &now, matters) } else { Vec::new() };
        Some(MachineChange { name: fact.name, then, now, known })
    });
    Some(changed.collect())
}

fn kernel_changes(then: &str, now: &str, matters: impl Fn(&[&str]) -> bool) -> Vec<String> {
    let Some((then, now)) = version(then).zip(version(now)) else { return Vec::new() };
    let between = |since: (u32, u32)| then.min(now) < since && since <= then.max(now);
    let changes = KERNEL_CHANGES.iter().filter(|change| between(change.since) && matters(change.transports));
    changes
        .map(|KernelChange { since: (major, minor), what, source, .. }| {
            format!("since Linux {major}.{minor} {what} ({source})")
        })
        .collect()
}

/// A fact as text. `None`: it is unknown.
fn known(facts: &Value, pointer: &str) -> Option<String> {
    match facts.pointer(pointer)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some(values.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(kernel: &str, congestion: &str) -> Value {
        json!({
            "kernel_release": kernel, "cpu": {"model": "Example CPU"},
            "network": {"congestion_control": congestion, "tcp_rmem_bytes": [4096, 131_072, 6_291_456]},
        })
    }

    fn sentences(then: &Value, now: &Value, transport: &str) -> Option<Vec<String>> {
        let changes = changes(then, now, &[transport.to_owned()])?;
        Some(changes.iter().map(MachineChange::sentence).collect())
    }

    #[test]
    fn same_machine_has_no_changes() {
        let now = machine("6.12.3", "bbr");
        assert_eq!(sentences(&now, &now, "tcp"), Some(Vec::new()));
    }
    #[test]
    fn a_card_matters_to_paths_to_other_hosts() {
        let with = |driver: &str, offloads: &[&str]| {
            let mut machine = machine("6.18.1", "bbr");
            machine["network"]["card"] = json!({"driver": driver, "offloads": offloads});
            machine
        };
        let (then, now) = (with("mlx5_core 5.8", &["tso", "gro"]), with("mlx5_core 6.1", &["tso"]));
        let expected = [
            "driver of the network card: mlx5_core 5.8 then, mlx5_core 6.1 now",
            "offloads of the network card: tso gro then, tso now",
        ];
        assert_eq!(sentences(&then, &now, OTHER_HOST).unwrap(), expected);
        assert_eq!(sentences(&then, &now, "tcp"), Some(Vec::new()));
    }

    #[test]
    fn known_changes_are_in_order_and_have_sources() {
        assert!(KERNEL_CHANGES.is_sorted_by(|one, next| one.since >= next.since));
        assert!(KERNEL_CHANGES.iter().all(|change| !change.what.is_empty() && !change.source.is_empty()));
        let of =
            |transport| sentences(&machine("6.12.1", "bbr"), &machine("6.18.1", "bbr"), transport).unwrap().concat();
        assert!(of("pipe").contains("aaec5a95d596") && !of("pipe").contains("connect(2)"));
        assert!(of("mptcp").contains("fewer locks") && !of("tcp").contains("fewer locks"));
    }

    #[test]
    fn newer_kernel_has_its_known_changes() {
        let found = sentences(&machine("6.1.0-18-amd64", "bbr"), &machine("6.18.1", "bbr"), "tcp").unwrap();
        let [kernel] = found.as_slice() else { panic!("{found:?}") };
        for part in ["6.1.0-18-amd64 then, 6.18.1 now", "since Linux 6.16 TCP", "EEVDF", "commit dfa2f0483360"] {
            assert!(kernel.contains(part), "no `{part}` in {kernel}");
        }
        // An older kernel lacks the same changes.
        assert_eq!(sentences(&machine("6.18.1", "bbr"), &machine("6.1.0", "bbr"), "tcp").unwrap().len(), 1);
        let minor = sentences(&machine("6.18.1", "bbr"), &machine("6.18.2", "bbr"), "tcp").unwrap();
        assert_eq!(minor, ["kernel: 6.18.1 then, 6.18.2 now"]);
    }

    #[test]
    fn only_facts_of_the_transport_count() {
        let found = sentences(&machine("6.18.1", "bbr"), &machine("6.18.1", "cubic"), "tcp").unwrap();
        assert_eq!(found, ["net.ipv4.tcp_congestion_control: bbr then, cubic now"]);
        assert_eq!(sentences(&machine("6.18.1", "bbr"), &machine("6.18.1", "cubic"), "unix"), Some(Vec::new()));
        let kernel = sentences(&machine("6.1.1", "bbr"), &machine("6.18.1", "bbr"), "unix").unwrap();
        assert!(kernel[0].contains("EEVDF") && !kernel[0].contains("TCP"), "{kernel:?}");
    }

    #[test]
    fn other_machine_is_no_change() {
        let mut other = machine("6.18.1", "bbr");
        other["cpu"]["model"] = json!("Other CPU");
        assert_eq!(sentences(&machine("6.12.1", "bbr"), &other, "tcp"), None);
        assert_eq!(sentences(&json!(null), &machine("6.18.1", "bbr"), "tcp"), None);
    }

    #[test]
    fn unknown_fact_is_no_change() {
        let mut then = machine("6.18.1", "bbr");
        then["network"]["congestion_control"] = json!(null);
        assert_eq!(sentences(&then, &machine("6.18.1", "bbr"), "tcp"), Some(Vec::new()));
    }
}
