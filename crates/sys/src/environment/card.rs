//! Driver and offloads of the network card that carries the default route (ethtool(8), linux/ethtool.h).
//!
//! Never records its name or its addresses.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use serde::{Deserialize, Serialize};

use crate::interface;
use crate::syscall_result;

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
    let mut request = interface::named(name).ok()?;
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // SAFETY: the request has a name that ends with a NUL, and a pointer to the structure of its command, which the kernel reads
    // and writes: 196 bytes for `ETHTOOL_GDRVINFO`, 8 for the others. Both callers have as many.
    syscall_result::of(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })
        .ok()
        .map(drop)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(ask(interface::LOOPBACK, &mut value), Some(()));
        assert_eq!(ask("no-such-device", &mut value), None);
    }
}
