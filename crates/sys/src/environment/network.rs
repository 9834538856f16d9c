//! Settings of the network stack that bound buffers and choose algorithms.
//!
//! Sources: socket(7), tcp(7) and Documentation/networking/ip-sysctl.rst of the kernel. They
//! belong to the network namespace of this process.

use serde::{Deserialize, Serialize};

use super::card::NetworkCard;
use super::root::RootFolder;

/// Facts about the network stack. `None` where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSettings {
    /// `net.core.rmem_default`: receive buffer of sockets that are not TCP, bytes.
    pub rmem_default_bytes: Option<u64>,
    /// `net.core.rmem_max`: where the kernel clamps `SO_RCVBUF`, bytes before doubling.
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.wmem_default`: send buffer of sockets that are not TCP, bytes.
    pub wmem_default_bytes: Option<u64>,
    /// `net.core.wmem_max`: where the kernel clamps `SO_SNDBUF`, bytes before doubling.
    pub wmem_max_bytes: Option<u64>,
    /// `net.ipv4.tcp_rmem`: least, first and largest tuned receive buffer, bytes.
    pub tcp_rmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`: least, first and largest tuned send buffer, bytes.
    pub tcp_wmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_mem`: the thresholds of TCP's total memory, pages.
    pub tcp_mem_pages: Option<[u64; 3]>,
    /// `net.ipv4.tcp_congestion_control`: the default for new sockets.
    pub congestion_control: Option<String>,
    /// Version of the module of that congestion control, or the checksum of its source; absent where it is built in.
    pub congestion_module: Option<String>,
    /// `net.ipv4.tcp_ecn`: whether TCP asks for ECN (1), accepts it (2), or neither (0).
    pub tcp_ecn: Option<u32>,
    /// `net.core.default_qdisc`. Loopback has none.
    pub default_qdisc: Option<String>,
    /// Largest packet on loopback, bytes.
    pub loopback_mtu_bytes: Option<u32>,
    /// The card of the default route.
    pub card: Option<NetworkCard>,
}

impl NetworkSettings {
    pub(super) fn read(root: &RootFolder<'_>) -> Self {
        let core = |name: &str| root.number(&format!("proc/sys/net/core/{name}"));
        let tcp = |name: &str| {
            let line = root.line(&format!("proc/sys/net/ipv4/{name}"))?;
            three(&line)
        };
        let congestion_control = root.line("proc/sys/net/ipv4/tcp_congestion_control");
        Self {
            congestion_module: congestion_control.as_deref().and_then(|name| module_version(root, name)),
            tcp_ecn: root.number("proc/sys/net/ipv4/tcp_ecn"),
            rmem_default_bytes: core("rmem_default"),
            rmem_max_bytes: core("rmem_max"),
            wmem_default_bytes: core("wmem_default"),
            wmem_max_bytes: core("wmem_max"),
            tcp_rmem_bytes: tcp("tcp_rmem"),
            tcp_wmem_bytes: tcp("tcp_wmem"),
            tcp_mem_pages: tcp("tcp_mem"),
            congestion_control,
            default_qdisc: root.line("proc/sys/net/core/default_qdisc"),
            loopback_mtu_bytes: root.number("sys/class/net/lo/mtu"),
            card: None,
        }
    }
}

/// A module has a version if its author gave one, and a checksum if the kernel was built so (sysfs-module).
fn module_version(root: &RootFolder<'_>, congestion: &str) -> Option<String> {
    ["version", "srcversion"].iter().find_map(|file| root.line(&format!("sys/module/tcp_{congestion}/{file}")))
}

fn three(line: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = line.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn files_become_facts() {
        let scratch = Scratch::new();
        scratch
            .file("proc/sys/net/core/rmem_max", "4194304\n")
            .file("proc/sys/net/core/default_qdisc", "pfifo_fast\n")
            .file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n")
            .file("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n")
            .file("proc/sys/net/ipv4/tcp_ecn", "2\n")
            .file("sys/module/tcp_bbr/srcversion", "0123ABCD\n")
            .file("sys/class/net/lo/mtu", "65536\n");
        let expected = NetworkSettings {
            rmem_max_bytes: Some(4 << 20),
            default_qdisc: Some("pfifo_fast".to_owned()),
            tcp_rmem_bytes: Some([4096, 131_072, 33_554_432]),
            congestion_control: Some("bbr".to_owned()),
            congestion_module: Some("0123ABCD".to_owned()),
            tcp_ecn: Some(2),
            loopback_mtu_bytes: Some(65_536),
            ..NetworkSettings::default()
        };
        assert_eq!(NetworkSettings::read(&RootFolder::new(scratch.path())), expected);
    }

    #[test]
    fn three_means_three() {
        assert_eq!(three("1 2"), None);
        assert_eq!(three("1 2 3 4"), None);
        assert_eq!(three("1 2 x"), None);
    }
}
