//! Finds listening sockets from the kernel's tables, without connecting. A server that serves a single connection would
//! take a test connection for it.
//!
//! Sees only the network namespace of the calling process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::socket_holders;

/// `TCP_LISTEN` and `TCP_SYN_RECV` (include/net/tcp_states.h), as `/proc/net/tcp` prints them.
const TCP_LISTEN: &str = "0A";
const TCP_SYN_RECV: &str = "03";

/// The sockets of TCP over IPv4 and IPv6.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// `__SO_ACCEPTCON` (include/linux/net.h): the socket listens.
const ACCEPTS: u32 = 1 << 16;

/// Whether a socket listens at a TCP port, over IPv4 or IPv6.
#[must_use]
pub fn at_port(port: u16) -> bool {
    inode_at_port(port).is_some()
}

/// Whether a socket listens at the path of a Unix socket.
#[must_use]
pub fn at_path(path: &Path) -> bool {
    let Ok(table) = fs::read("/proc/net/unix") else { return false };
    table.split(|byte| *byte == b'\n').skip(1).any(|row| is_listening_at(row, path))
}

/// The process that listens at a TCP port, and its name, if this user may see them.
#[must_use]
pub fn owner_of_port(port: u16) -> Option<(u32, String)> {
    let socket = format!("socket:[{}]", inode_at_port(port)?);
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let holds = |file: fs::DirEntry| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == &*socket);
        if files.flatten().any(holds) {
            return Some((pid, socket_holders::name(pid)));
        }
    }
    None
}

/// The TCP ports at which the processes of a session (setsid(2)) listen, as far as this user may see their sockets.
#[must_use]
pub fn ports_of_session(leader: u32) -> BTreeSet<u16> {
    let rows = TABLES.into_iter().flat_map(|table| listeners(Path::new(table)));
    let ports: BTreeMap<String, u16> = rows.filter_map(|row| port_of(&row)).collect();
    let holders = socket_holders::of(&ports.keys().cloned().collect());
    let is_of_session = |pid: &u32| {
        let pid = libc::pid_t::try_from(*pid).unwrap_or(-1);
        // SAFETY: getsid(2) takes a number and has no effect.
        u32::try_from(unsafe { libc::getsid(pid) }) == Ok(leader)
    };
    let own = holders.iter().filter(|(_, pids)| pids.iter().any(is_of_session));
    own.filter_map(|(link, _)| ports.get(link).copied()).collect()
}

/// The socket of a row that listens, as in `/proc/PID/fd`, and its port (proc_net_tcp).
fn port_of(row: &str) -> Option<(String, u16)> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    let port = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
    (fields.get(3) == Some(&TCP_LISTEN)).then(|| Some((format!("socket:[{}]", fields.get(9)?), port)))?
}

/// The sockets that listen at a TCP address, or at its port on all addresses, as in `/proc/PID/fd`. There are several
/// if each worker of a server has its own (`SO_REUSEPORT`).
#[must_use]
pub fn sockets_at(address: SocketAddr) -> BTreeSet<String> {
    let rows = TABLES.into_iter().flat_map(|table| listeners(Path::new(table)));
    let rows = rows.filter(|row| is_bound_to(row, address.ip()));
    rows.filter_map(|row| listener_at(&row, address.port())).map(|inode| format!("socket:[{inode}]")).collect()
}

/// Whether the socket of a row accepts connections to an address: words in memory order (proc_pid_net(5)), zeros for
/// all addresses.
fn is_bound_to(row: &str, ip: IpAddr) -> bool {
    let words = |octets: &[u8]| -> String {
        let words = octets.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect()
    };
    let local = row.split_whitespace().nth(1).and_then(|local| local.rsplit_once(':'));
    let Some((bound, _)) = local else { return false };
    match ip {
        IpAddr::V4(v4) => {
            let forms = [words(&v4.octets()), words(&v4.to_ipv6_mapped().octets())];
            bound.bytes().all(|digit| digit == b'0') || forms.iter().any(|form| form == bound)
        }
        IpAddr::V6(v6) => {
            bound.len() == 32 && (bound.bytes().all(|digit| digit == b'0') || bound == words(&v6.octets()))
        }
    }
}

fn inode_at_port(port: u16) -> Option<u64> {
    TABLES.into_iter().find_map(|table| listeners(Path::new(table)).find_map(|row| listener_at(&row, port)))
}

/// The rows of a table before all connections, which are those of listening sockets (`tcp_get_idx`,
/// net/ipv4/tcp_ipv4.c; until Linux 4.4 with pending connections). The other rows are not read: a server has tens of
/// thousands, and waiting for a listener repeats this every few milliseconds.
fn listeners(table: &Path) -> impl Iterator<Item = String> {
    let rows = File::open(table).into_iter().flat_map(|table| BufReader::new(table).lines()).map_while(Result::ok);
    rows.skip(1).take_while(|row| matches!(row.split_whitespace().nth(3), Some(TCP_LISTEN | TCP_SYN_RECV)))
}

/// The inode of a row that listens at a port (proc_net_tcp).
fn listener_at(row: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    let local = fields.get(1)?.rsplit(':').next()?;
    let is_ours = fields.get(3) == Some(&TCP_LISTEN) && u16::from_str_radix(local, 16).ok() == Some(port);
    is_ours.then(|| fields.get(9)?.parse().ok()).flatten()
}

/// `Num: RefCount Protocol Flags Type St Inode Path` (proc_net_unix(5)).
fn is_listening_at(row: &[u8], path: &Path) -> bool {
    let fields: Vec<&[u8]> = row.splitn(8, |byte| *byte == b' ').collect();
    // The inode is padded with spaces, so the path is found at the end of the row, whatever it contains.
    let named = row.strip_suffix(path.as_os_str().as_bytes()).is_some_and(|before| before.ends_with(b" "));
    let flags = fields.get(3).and_then(|flags| u32::from_str_radix(std::str::from_utf8(flags).ok()?, 16).ok());
    named && flags.is_some_and(|flags| flags & ACCEPTS != 0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::eventually::eventually;
    use crate::scratch::Scratch;

    #[test]
    fn a_listener_is_found_without_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(at_port(port));
        assert_eq!(owner_of_port(port).map(|(pid, _)| pid), Some(std::process::id()));
        // SAFETY: getsid(2) takes a number and has no effect.
        let session = unsafe { libc::getsid(0) };
        assert!(ports_of_session(u32::try_from(session).unwrap()).contains(&port));
        assert!(!ports_of_session(1).contains(&port));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "there is no connection");
        drop(listener);
        eventually("the port is free", || !at_port(port));
    }

    #[test]
    fn connections_after_listeners_are_not_read() {
        let older = TcpListener::bind("127.0.0.1:0").unwrap();
        let _connections: Vec<TcpStream> =
            (0..20).map(|_| TcpStream::connect(older.local_addr().unwrap()).unwrap()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(at_port(listener.local_addr().unwrap().port()));
        let scratch = Scratch::new();
        let table = scratch.path().join("tcp");
        let row = |state: &str| format!("0: 0100007F:1F90 00000000:0000 {state}\n");
        let rows: String = ["0A", "03", "0A", "06", "0A"].into_iter().map(row).collect();
        fs::write(&table, format!("sl local_address rem_address st\n{rows}")).unwrap();
        assert_eq!(listeners(&table).count(), 3);
    }

    #[test]
    fn sockets_are_found_by_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let at = |ip: &str| sockets_at((ip.parse::<IpAddr>().unwrap(), own.port()).into()).len();
        assert_eq!((at("127.0.0.1"), at("127.0.0.2"), at("::1")), (1, 0, 0));
        drop(listener);
        eventually("the address is free", || at("127.0.0.1") == 0);
        let row = |local: &str| format!("0: {local}:1F90 00000000:0000 0A");
        let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
        let takes = |local: &str, ip: &str| is_bound_to(&row(local), ip.parse().unwrap());
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
        assert!(!at_path(&path));
        let listener = UnixListener::bind(&path).unwrap();
        assert!(at_path(&path));
        let _connection = UnixStream::connect(&path).unwrap();
        drop(listener);
        eventually("the path is free", || !at_path(&path));
    }
}
