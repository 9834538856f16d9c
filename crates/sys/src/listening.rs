//! Finds listening sockets from the kernel's tables, without connecting. A server that serves a single connection would
//! take a test connection for it.
//!
//! Sees only one network namespace: that of the given tables, or of the calling process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::network::NetworkTables;
use crate::process_tree::{self, Stat, numbers};

/// `TCP_LISTEN` and `TCP_SYN_RECV` (include/net/tcp_states.h), as `/proc/net/tcp` prints them.
const TCP_LISTEN: &str = "0A";
const TCP_SYN_RECV: &str = "03";

/// The sockets of TCP over IPv4 and IPv6.
const TABLES: [&str; 2] = ["tcp", "tcp6"];

/// `__SO_ACCEPTCON` (include/linux/net.h): the socket listens.
const ACCEPTS: u32 = 1 << 16;

/// Whether a socket listens at a TCP port, over IPv4 or IPv6.
pub fn at_port(tables: NetworkTables, port: u16) -> bool {
    listeners(tables).any(|row| row.local.port() == port)
}

/// Whether a socket listens at the path of a Unix socket.
pub fn at_path(tables: NetworkTables, path: &Path) -> bool {
    let Ok(table) = fs::read(tables.path("unix")) else { return false };
    table.split(|byte| *byte == b'\n').skip(1).any(|row| is_listening_at(row, path))
}

/// The process that listens at a TCP port, and its name, if this user may see them.
pub fn owner_of_port(tables: NetworkTables, port: u16) -> Option<(u32, String)> {
    let at_port = listeners(tables).filter(|row| row.local.port() == port);
    let pid = *of(&at_port.map(|row| row.link).collect()).values().flatten().next()?;
    Some((pid, process_tree::name(pid).unwrap_or_default()))
}

/// The TCP ports at which the processes of a session (setsid(2)) listen, as far as this user may see their sockets.
pub fn ports_of_session(tables: NetworkTables, leader: u32) -> BTreeSet<u16> {
    let ports: BTreeMap<String, u16> = listeners(tables).map(|row| (row.link, row.local.port())).collect();
    let holders = of(&ports.keys().cloned().collect());
    let is_of_session = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.session == leader);
    let own = holders.iter().filter(|(_, pids)| pids.iter().any(is_of_session));
    own.filter_map(|(link, _)| ports.get(link).copied()).collect()
}

/// The sockets that listen at a TCP address, or at its port on all addresses, as in `/proc/PID/fd`. There are several
/// if each worker of a server has its own (`SO_REUSEPORT`).
pub fn sockets_at(address: SocketAddr) -> BTreeSet<String> {
    listeners(NetworkTables::own()).filter(|row| accepts(row.local, address)).map(|row| row.link).collect()
}

/// Whether a socket that is bound to an address accepts connections to another one.
fn accepts(bound: SocketAddr, to: SocketAddr) -> bool {
    let (ip, to_ip) = (bound.ip(), to.ip().to_canonical());
    let is_at = ip == to_ip || ip.is_unspecified() && (to_ip.is_ipv4() || ip.is_ipv6());
    is_at && bound.port() == to.port()
}

/// A socket in `/proc/net/tcp` (proc_net_tcp).
struct TcpRow {
    local: SocketAddr,
    peer: SocketAddr,
    state: String,
    /// The socket as in `/proc/PID/fd`.
    link: String,
}

impl TcpRow {
    fn parse(row: &str) -> Option<TcpRow> {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let [_, local, peer, state, _, _, _, _, _, inode, ..] = fields[..] else { return None };
        let (local, peer) = (address(local)?, address(peer)?);
        Some(TcpRow { local, peer, state: state.into(), link: format!("socket:[{inode}]") })
    }
}

/// An address of `/proc/net/tcp`: words in memory order, and the port (proc_pid_net(5)). Connections of an IPv6 listener with IPv4
/// peers have mapped addresses.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let words = words.as_bytes().chunks(8).map(|word| u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok());
    let bytes = words.map(|word| word.map(u32::to_ne_bytes)).collect::<Option<Vec<_>>>()?.concat();
    let v4 = <[u8; 4]>::try_from(&bytes[..]).map(IpAddr::from);
    let ip = v4.or_else(|_| <[u8; 16]>::try_from(&bytes[..]).map(IpAddr::from)).ok()?;
    Some(SocketAddr::new(ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

/// The listening sockets of both tables.
fn listeners(tables: NetworkTables) -> impl Iterator<Item = TcpRow> {
    let rows = TABLES.into_iter().flat_map(move |table| rows_of_listeners(&tables.path(table)));
    rows.filter_map(|row| TcpRow::parse(&row)).filter(|row| row.state == TCP_LISTEN)
}

/// The rows of a table before all connections, which are those of listening sockets (`tcp_get_idx`,
/// net/ipv4/tcp_ipv4.c; until Linux 4.4 with pending connections). The other rows are not read: a server has tens of
/// thousands, and waiting for a listener repeats this every few milliseconds.
fn rows_of_listeners(table: &Path) -> impl Iterator<Item = String> + use<> {
    let rows = File::open(table).into_iter().flat_map(|table| BufReader::new(table).lines()).map_while(Result::ok);
    rows.skip(1).take_while(|row| matches!(row.split_whitespace().nth(3), Some(TCP_LISTEN | TCP_SYN_RECV)))
}

/// `Num: RefCount Protocol Flags Type St Inode Path` (proc_net_unix(5)).
fn is_listening_at(row: &[u8], path: &Path) -> bool {
    let fields: Vec<&[u8]> = row.splitn(8, |byte| *byte == b' ').collect();
    // The inode is padded with spaces, so the path is found at the end of the row, whatever it contains.
    let named = row.strip_suffix(path.as_os_str().as_bytes()).is_some_and(|before| before.ends_with(b" "));
    let flags = fields.get(3).and_then(|flags| u32::from_str_radix(std::str::from_utf8(flags).ok()?, 16).ok());
    named && flags.is_some_and(|flags| flags & ACCEPTS != 0)
}

// Finds the processes that hold a socket or a pipe, from their descriptors in `/proc`, and the socket at the other end
// of a local connection.
//
// Sees only the network namespace of the calling process, and processes whose descriptors it may read.

/// The holders of each link, as in `/proc/PID/fd` (`pipe:[7]`, `socket:[7]`), by process number.
pub fn of(links: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<u32>> {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for pid in numbers("/proc").into_iter().flatten() {
        for (link, _) in links_of(pid).filter(|(link, _)| links.contains(link)) {
            found.entry(link).or_default().insert(pid);
        }
    }
    found
}

/// What the descriptors of a process refer to, as in `/proc/PID/fd`, and their numbers; nothing if this user may not see them.
pub fn links_of(pid: u32) -> impl Iterator<Item = (String, i32)> {
    let folder = format!("/proc/{pid}/fd");
    numbers(&folder).into_iter().flatten().filter_map(move |fd| {
        let link = fs::read_link(format!("{folder}/{fd}")).ok()?.into_os_string().into_string().ok()?;
        Some((link, fd as i32))
    })
}

/// The socket at the other end of a TCP connection, as in `/proc/PID/fd`, if that end is on this machine.
pub fn other_end(own: SocketAddr, peer: SocketAddr) -> Option<String> {
    let [own, peer] = [own, peer].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
    TABLES.into_iter().find_map(|table| {
        let table = fs::read_to_string(NetworkTables::own().path(table)).ok()?;
        let mut rows = table.lines().skip(1).filter_map(TcpRow::parse);
        rows.find(|row| row.local == peer && row.peer == own).map(|row| row.link)
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::tests::Scratch;
    use crate::tests::eventually;

    #[test]
    fn a_listener_is_found_without_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(at_port(NetworkTables::own(), port));
        assert_eq!(owner_of_port(NetworkTables::own(), port).map(|(pid, _)| pid), Some(std::process::id()));
        let session = Stat::of(std::process::id()).unwrap().session;
        assert!(ports_of_session(NetworkTables::own(), session).contains(&port));
        assert!(!ports_of_session(NetworkTables::own(), u32::MAX).contains(&port));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "there is no connection");
        drop(listener);
        eventually("the port is free", || !at_port(NetworkTables::own(), port));
    }

    #[test]
    fn connections_after_listeners_are_not_read() {
        let older = TcpListener::bind("127.0.0.1:0").unwrap();
        let _connections: Vec<TcpStream> =
            (0..20).map(|_| TcpStream::connect(older.local_addr().unwrap()).unwrap()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(at_port(NetworkTables::own(), listener.local_addr().unwrap().port()));
        let scratch = Scratch::new();
        let table = scratch.path().join("tcp");
        let row = |state: &str| format!("0: 0100007F:1F90 00000000:0000 {state}\n");
        let rows: String = ["0A", "03", "0A", "06", "0A"].into_iter().map(row).collect();
        fs::write(&table, format!("sl local_address rem_address st\n{rows}")).unwrap();
        assert_eq!(rows_of_listeners(&table).count(), 3);
    }

    #[test]
    fn sockets_are_found_by_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let at = |ip: &str| sockets_at((ip.parse::<IpAddr>().unwrap(), own.port()).into()).len();
        assert_eq!((at("127.0.0.1"), at("127.0.0.2"), at("::1")), (1, 0, 0));
        drop(listener);
        eventually("the address is free", || at("127.0.0.1") == 0);
        let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
        let takes = |local: &str, ip: &str| {
            let bound = address(&format!("{local}:1F90")).unwrap();
            accepts(bound, (ip.parse::<IpAddr>().unwrap(), 0x1f90).into())
        };
        let zeros = "0".repeat(32);
        assert!(takes(&format!("{loopback:08X}"), "127.0.0.1") && !takes(&format!("{loopback:08X}"), "127.0.0.2"));
        assert!(takes("00000000", "127.0.0.1") && !takes("00000000", "::1"));
        assert!(takes(&zeros, "::1") && takes(&zeros, "127.0.0.1"));
        assert!(takes(&format!("0000000000000000{:08X}{loopback:08X}", 0xffff_u32.to_be()), "127.0.0.1"));
    }

    #[test]
    fn a_path_listens_while_its_socket_does() {
        let scratch = Scratch::new();
        let path = scratch.path().join("with space.sock");
        assert!(!at_path(NetworkTables::own(), &path));
        let listener = UnixListener::bind(&path).unwrap();
        assert!(at_path(NetworkTables::own(), &path));
        let _connection = UnixStream::connect(&path).unwrap();
        drop(listener);
        eventually("the path is free", || !at_path(NetworkTables::own(), &path));
    }
}

#[cfg(test)]
mod socket_holders_tests {
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
        let expected = SocketAddr::from(([127, 0, 0, 1], 8080));
        let word = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(address(&format!("{word}:1F90")), Some(expected));
        assert_eq!(address(&format!("0000000000000000FFFF0000{word}:1F90")), Some(expected));
        assert_eq!(address("7F"), None);
    }
}
