//! Finds the processes that hold a socket or a pipe, from their descriptors in `/proc`, and the socket at the other end
//! of a local connection.
//!
//! Sees only the network namespace of the calling process, and processes whose descriptors it may read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// The holders of each link, as in `/proc/PID/fd` (`pipe:[7]`, `socket:[7]`), by process number.
#[must_use]
pub fn of(links: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<u32>> {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(link) = fs::read_link(file.path()) else { continue };
            let Some(link) = link.to_str().filter(|link| links.contains(*link)) else { continue };
            found.entry(link.to_owned()).or_default().insert(pid);
        }
    }
    found
}

/// The name of a process; empty if it does not exist.
#[must_use]
pub fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The socket at the other end of a TCP connection over IPv4, as in `/proc/PID/fd`, if that end is on this machine.
#[must_use]
pub fn other_end(own: SocketAddr, peer: SocketAddr) -> Option<String> {
    let (own, peer) = (v4(own)?, v4(peer)?);
    // Connections of an IPv6 listener are in the second table, even for IPv4 peers.
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().skip(1).find_map(|row| {
            let fields: Vec<&str> = row.split_whitespace().collect();
            let is_it = address(fields.get(1)?) == Some(peer) && address(fields.get(2)?) == Some(own);
            is_it.then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"?")))
        })
    })
}

/// An IPv4 address, possibly written as an IPv4-mapped IPv6 address.
fn v4(address: SocketAddr) -> Option<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(address) => Some(SocketAddrV4::new(address.ip().to_ipv4_mapped()?, address.port())),
    }
}

/// An address of `/proc/net/tcp`: words in memory order, and the port (proc_pid_net(5)); for IPv6 only mapped IPv4
/// addresses.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (words, port) = text.split_once(':')?;
    let last = u32::from_str_radix(words.get(words.len().checked_sub(8)?..)?, 16).ok()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(last.to_ne_bytes()), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_peer_socket_is_found_with_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let link = other_end(client.local_addr().unwrap(), client.peer_addr().unwrap()).unwrap();
        let expected = fs::read_link(format!("/proc/self/fd/{}", server.as_raw_fd())).unwrap();
        assert_eq!(link, expected.to_str().unwrap());
        let holders = of(&BTreeSet::from([link.clone()]));
        assert!(holders[&link].contains(&std::process::id()));
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let expected = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080);
        let word = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(address(&format!("{word}:1F90")), Some(expected));
        assert_eq!(address(&format!("0000000000000000FFFF0000{word}:1F90")), Some(expected));
        assert_eq!(address("7F"), None);
    }
}
