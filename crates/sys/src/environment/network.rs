//! Settings of the network stack that bound buffers and choose algorithms.
//!
//! Sources: socket(7), tcp(7) and Documentation/networking/ip-sysctl.rst of the kernel. They
//! belong to the network namespace of this process.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use serde::{Deserialize, Serialize};

use super::RootFolder;
use crate::{errno, network};

/// Facts about the network stack. `None` where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSettings {
    /// `net.core.rmem_default`: receive buffer of sockets that are not TCP, bytes.
    pub rmem_default_bytes: Option<u64>,
    /// `net.core.rmem_max`: where the kernel clamps `SO_RCVBUF`, bytes before doubling.
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.wmem_max`: where the kernel clamps `SO_SNDBUF`, bytes before doubling.
    pub wmem_max_bytes: Option<u64>,
    /// `net.ipv4.tcp_rmem`: least, first and largest tuned receive buffer, bytes.
    pub tcp_rmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`: least, first and largest tuned send buffer, bytes.
    pub tcp_wmem_bytes: Option<[u64; 3]>,
    /// `net.ipv4.tcp_congestion_control`: the default for new sockets.
    pub congestion_control: Option<String>,
    /// Version of the module of that congestion control, or the checksum of its source; absent where it is built in.
    pub congestion_module: Option<String>,
    /// `net.ipv4.tcp_ecn`: whether TCP asks for ECN (1), accepts it (2), or neither (0).
    pub tcp_ecn: Option<u32>,
    /// `net.core.default_qdisc`. Loopback has none.
    pub default_qdisc: Option<String>,
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
            wmem_max_bytes: core("wmem_max"),
            tcp_rmem_bytes: tcp("tcp_rmem"),
            tcp_wmem_bytes: tcp("tcp_wmem"),
            congestion_control,
            default_qdisc: root.line("proc/sys/net/core/default_qdisc"),
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

// Driver and offloads of the network card that carries the default route (ethtool(8), linux/ethtool.h).
//
// Never records its name or its addresses.

/// Facts about the card. `None` where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCard {
    /// The driver, its version and the version of the card's firmware, as far as the driver reports them.
    pub driver: Option<String>,
    /// The offloads that are on, as `ethtool -k` abbreviates them.
    pub offloads: Option<Vec<String>>,
}

/// `ETHTOOL_GDRVINFO`, and the length of `struct ethtool_drvinfo`: a command, five names and 32 bytes of numbers.
const DRIVER: u32 = 3;
const DRIVER_LEN: usize = 196;
/// The places of driver, version and firmware version, each of 32 bytes.
const NAMES: [usize; 3] = [4, 36, 68];

/// Commands that read one offload, with the bit of the value, and their abbreviations.
const OFFLOADS: &[(&str, u32, u32)] = &[
    ("rx-checksum", 0x14, 1),
    ("tx-checksum", 0x16, 1),
    ("sg", 0x18, 1),
    ("tso", 0x1e, 1),
    ("gso", 0x23, 1),
    ("gro", 0x2b, 1),
    // `ETHTOOL_GFLAGS`, `ETH_FLAG_LRO`.
    ("lro", 0x25, 1 << 15),
];

impl NetworkCard {
    /// The card of the default route of IPv4 in the network namespace of this process, if there is one.
    pub(super) fn read() -> Option<NetworkCard> {
        let routes = std::fs::read_to_string("/proc/thread-self/net/route").ok()?;
        let name = default_route(&routes)?;
        let mut driver = [0; DRIVER_LEN];
        driver[..4].copy_from_slice(&DRIVER.to_ne_bytes());
        let driver = ask(name, &mut driver).map(|()| described(&driver));
        let offload = |(abbreviation, command, bit): &(&str, u32, u32)| {
            let mut value = [command.to_ne_bytes(), [0; 4]].concat();
            ask(name, &mut value)?;
            let found = u32::from_ne_bytes(value[4..].try_into().ok()?);
            Some((found & bit != 0).then(|| (*abbreviation).to_owned()))
        };
        let offloads: Option<Vec<_>> = OFFLOADS.iter().map(offload).collect();
        Some(NetworkCard { driver, offloads: offloads.map(|all| all.into_iter().flatten().collect()) })
    }
}

/// The interface of the route to 0.0.0.0/0: the first column where destination and mask are zero (proc_net(5)).
fn default_route(routes: &str) -> Option<&str> {
    routes.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        (columns.get(1) == Some(&"00000000") && columns.get(7) == Some(&"00000000")).then(|| columns[0])
    })
}

/// The names in `struct ethtool_drvinfo` that are known.
fn described(driver: &[u8; DRIVER_LEN]) -> String {
    let text = |at: &usize| {
        let name = driver[*at..at + 32].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).trim().to_owned()
    };
    let known = NAMES.iter().map(text).filter(|name| !name.is_empty() && name != "N/A");
    known.collect::<Vec<_>>().join(" ")
}

/// ioctl(2) with `SIOCETHTOOL`: the kernel answers in place, no more than the command's own structure.
fn ask(name: &str, value: &mut [u8]) -> Option<()> {
    let mut request = network::named(name).ok()?;
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // SAFETY: the request has a name that ends with a NUL, and a pointer to the structure of its command, which the kernel reads
    // and writes: 196 bytes for `ETHTOOL_GDRVINFO`, 8 for the others. Both callers have as many.
    errno::of(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) }).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn files_become_facts() {
        let scratch = Scratch::new();
        scratch
            .file("proc/sys/net/core/rmem_max", "4194304\n")
            .file("proc/sys/net/core/default_qdisc", "pfifo_fast\n")
            .file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n")
            .file("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n")
            .file("proc/sys/net/ipv4/tcp_ecn", "2\n")
            .file("sys/module/tcp_bbr/srcversion", "0123ABCD\n");
        let expected = NetworkSettings {
            rmem_max_bytes: Some(4 << 20),
            default_qdisc: Some("pfifo_fast".to_owned()),
            tcp_rmem_bytes: Some([4096, 131_072, 33_554_432]),
            congestion_control: Some("bbr".to_owned()),
            congestion_module: Some("0123ABCD".to_owned()),
            tcp_ecn: Some(2),
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

#[cfg(test)]
mod card_tests {
    use super::*;

    #[test]
    fn the_default_route_names_the_card() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                      eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\
                      eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n";
        assert_eq!(default_route(routes), Some("eth0"));
        assert_eq!(default_route("Iface\tDestination\n"), None);
        assert_eq!(default_route(""), None);
    }

    #[test]
    fn names_of_a_driver_are_joined() {
        let mut driver = [0; DRIVER_LEN];
        driver[NAMES[0]..][..10].copy_from_slice(b"virtio_net");
        driver[NAMES[1]..][..5].copy_from_slice(b"1.0.0");
        driver[NAMES[2]..][..3].copy_from_slice(b"N/A");
        assert_eq!(described(&driver), "virtio_net 1.0.0");
    }

    #[test]
    fn loopback_has_offloads_and_unknown_names_none() {
        let mut value = [0x1e, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(ask(network::LOOPBACK, &mut value), Some(()));
        assert_eq!(ask("no-such-device", &mut value), None);
    }
}
