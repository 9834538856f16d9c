//! How ranks find rank 0: by `--coordinator`, by a file in `--out` on a shared file system, or by the list of nodes of Slurm.
//!
//! The file names the addresses of rank 0's host and a port. A file of an earlier run leads to a port that refuses, or to
//! a process without the key, so it is read again until rank 0 answers.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::{fs, io};

use bytegauge_sys::input::RANK_ZERO_ADDRESS;
use bytegauge_sys::new_file;
use serde::{Deserialize, Serialize};

use super::flags::MeshFlags;
use crate::exit_code::Failure;

/// The name of the file in `--out`.
const FILE: &str = "coordinator.json";

/// Where rank 0 may be.
#[derive(Clone, Debug)]
pub enum Rendezvous {
    /// At one of these addresses.
    At(Vec<SocketAddr>),
    /// At the name that the user gave. It is looked up at each attempt, since it may not exist yet.
    Named(String),
    /// At the addresses in a file.
    File(PathBuf),
    /// At a node of the launcher and its port, unless that port was taken.
    Node(String),
}

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PublishedAddress {
    host: String,
    addresses: Vec<IpAddr>,
    port: u16,
}

impl Rendezvous {
    /// The ways that the flags and the launcher name.
    pub fn all_of(flags: &MeshFlags) -> Vec<Rendezvous> {
        let way = match &flags.coordinator {
            Some(name) => Rendezvous::Named(name.clone()),
            None => Rendezvous::File(flags.out.join(FILE)),
        };
        let node = flags.node_of_zero.as_ref().map(|(host, port)| Rendezvous::Node(format!("{host}:{port}")));
        [way].into_iter().chain(node).collect()
    }

    /// The addresses to try now; none if there is nothing yet.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Rendezvous::At(addresses) => addresses.clone(),
            Rendezvous::Named(name) | Rendezvous::Node(name) => {
                name.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
            }
            Rendezvous::File(path) => {
                // Opening a pipe would wait for a writer.
                let is_file = fs::metadata(path).is_ok_and(|of| of.is_file());
                let text = is_file.then(|| RANK_ZERO_ADDRESS.read_bytes(path).ok()).flatten();
                let published = text.and_then(|text| serde_json::from_slice::<PublishedAddress>(&text).ok());
                let all = |published: PublishedAddress| {
                    published.addresses.into_iter().map(|ip| SocketAddr::new(ip, published.port)).collect()
                };
                published.map(all).unwrap_or_default()
            }
        }
    }

    /// Whether the user gave it, so that another program there is an error.
    pub fn is_given(&self) -> bool {
        !matches!(self, Rendezvous::File(_) | Rendezvous::Node(_))
    }

    /// The way, for errors.
    pub fn described(&self) -> String {
        match self {
            Rendezvous::At(addresses) => addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            Rendezvous::Named(name) => format!("--coordinator {name}"),
            Rendezvous::Node(name) => format!("its node {name}"),
            Rendezvous::File(path) => {
                format!("{} (not on a shared file system? give --coordinator HOST:PORT)", path.display())
            }
        }
    }
}

/// Listens as rank 0, and publishes the address if the others look for a file.
///
/// # Errors
/// [`Failure`] with the next step.
pub fn listen(flags: &MeshFlags, host: &str) -> Result<(TcpListener, Option<PublishedFile>), Failure> {
    match &flags.coordinator {
        Some(name) => Ok((listen_at(name)?, None)),
        None => {
            let failed = |error: io::Error| {
                Failure::failed(format!("rank 0 cannot listen: {error}: give --coordinator HOST:PORT of this host"))
            };
            let interfaces = if_addrs::get_if_addrs().map_err(failed)?;
            let addresses = reachable(&interfaces.iter().map(if_addrs::Interface::ip).collect::<Vec<_>>());
            let first = addresses.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into());
            let any = |port| TcpListener::bind((unspecified(first), port));
            let agreed = flags.node_of_zero.as_ref().and_then(|(_, port)| any(*port).ok());
            let listener = agreed.map_or_else(|| any(0), Ok).map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            let published = PublishedAddress { host: host.to_owned(), addresses, port };
            Ok((listener, Some(PublishedFile::write(&flags.out.join(FILE), &published)?)))
        }
    }
}

/// The addresses of this host at which others may reach it: IPv4, or IPv6 if it has no other than loopback of IPv4.
fn reachable(all: &[IpAddr]) -> Vec<IpAddr> {
    // An address of the link alone is incomplete without the name of an interface.
    let is_far = |ip: &&IpAddr| match ip {
        IpAddr::V4(_) => !ip.is_loopback(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let is_ipv4 = all.iter().filter(is_far).any(IpAddr::is_ipv4) || !all.iter().any(|ip| is_far(&ip));
    let mut own: Vec<IpAddr> = all.iter().copied().filter(|ip| ip.is_ipv4() == is_ipv4).collect();
    own.retain(|ip| is_far(&ip) || ip.is_loopback());
    // Loopback leads to other processes on other hosts: it is tried last.
    own.sort_by_key(IpAddr::is_loopback);
    own
}

/// All addresses of the same version of IP.
pub fn unspecified(ip: IpAddr) -> IpAddr {
    if ip.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Listens at a name: at its address if that is one of this host, else at its port of all addresses.
fn listen_at(name: &str) -> Result<TcpListener, Failure> {
    let wrong = |error: io::Error| {
        Failure::usage(format!("--coordinator {name}: {error}: give HOST:PORT of rank 0, with a free port"))
    };
    let addresses: Vec<SocketAddr> = name.to_socket_addrs().map_err(wrong)?.collect();
    let mut last = io::Error::other("the name has no address");
    // The name of a host often leads to loopback on that host alone (127.0.1.1 in /etc/hosts), where no other one could connect.
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    let is_of_host = host != "localhost" && host.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
    let own = |address: &SocketAddr| match is_of_host && address.ip().is_loopback() {
        true => SocketAddr::new(unspecified(address.ip()), address.port()),
        false => *address,
    };
    for address in addresses.iter().map(own) {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    // A name of a service, or an address behind a translation, is none of this host's.
    match addresses.first().filter(|_| last.kind() == io::ErrorKind::AddrNotAvailable) {
        Some(address) => TcpListener::bind((unspecified(address.ip()), address.port())).map_err(wrong),
        None => Err(wrong(last)),
    }
}

/// The file with the address of rank 0, removed when it is dropped.
#[derive(Debug)]
pub struct PublishedFile(PathBuf);

impl PublishedFile {
    fn write(path: &Path, published: &PublishedAddress) -> Result<PublishedFile, Failure> {
        let failed = |error: io::Error| {
            Failure::failed(format!("{}: {error}: give another --out, or --coordinator HOST:PORT", path.display()))
        };
        let text = serde_json::to_vec(published).map_err(|error| failed(error.into()))?;
        new_file::replace(path, |file| file.write_all(&text)).map_err(failed)?;
        Ok(PublishedFile(path.to_owned()))
    }
}

impl Drop for PublishedFile {
    fn drop(&mut self) {
        // A file that is left behind leads to a port that refuses.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_one_version_of_ip() {
        let check = |all: &[&str], expected: &[&str]| {
            let ips = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
            assert_eq!(reachable(&ips(all)), ips(expected), "{all:?}");
        };
        check(&["127.0.0.1", "10.0.0.1", "::1", "fe80::1", "2001:db8::1"], &["10.0.0.1", "127.0.0.1"]);
        check(&["127.0.0.1", "::1", "fe80::1", "2001:db8::1"], &["2001:db8::1", "::1"]);
        check(&["127.0.0.1", "::1", "fe80::1"], &["127.0.0.1"]);
    }
}
