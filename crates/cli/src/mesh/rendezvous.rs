//! How ranks find rank 0: by `--coordinator`, or by a file in `--out` on a shared file system.
//!
//! The file names the addresses of rank 0's host and a port. A file of an earlier run leads to a port that refuses, or to
//! a process without the key, so it is read again until rank 0 answers.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::{fs, io};

use bytegauge_mesh::files::create_fresh;
use bytegauge_sys::input::RANK_ZERO_ADDRESS;
use serde::{Deserialize, Serialize};

use super::flags::MeshFlags;
use crate::exit::Failure;

/// The name of the file in `--out`.
const FILE: &str = "coordinator.json";

/// Where rank 0 may be.
#[derive(Clone, Debug)]
pub enum Rendezvous {
    /// At one of these addresses.
    At(Vec<SocketAddr>),
    /// At a name that is looked up at each attempt, since it may not exist yet.
    Named(String),
    /// At the addresses in a file.
    File(PathBuf),
}

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PublishedAddress {
    host: String,
    addresses: Vec<IpAddr>,
    port: u16,
}

impl Rendezvous {
    /// The way that the flags name.
    pub fn of(flags: &MeshFlags) -> Rendezvous {
        match &flags.coordinator {
            Some(name) => Rendezvous::Named(name.clone()),
            None => Rendezvous::File(flags.out.join(FILE)),
        }
    }

    /// The addresses to try now; none if there is nothing yet.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Rendezvous::At(addresses) => addresses.clone(),
            Rendezvous::Named(name) => name.to_socket_addrs().map(Iterator::collect).unwrap_or_default(),
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
        !matches!(self, Rendezvous::File(_))
    }

    /// The way, for errors.
    pub fn described(&self) -> String {
        match self {
            Rendezvous::At(addresses) => addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            Rendezvous::Named(name) => format!("--coordinator {name}"),
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
            let any = SocketAddr::from(([0, 0, 0, 0], 0));
            let listener =
                TcpListener::bind(any).map_err(|error| Failure::failed(format!("rank 0 cannot listen: {error}")))?;
            let port = listener.local_addr().map_err(|error| Failure::failed(error.to_string()))?.port();
            Ok((listener, Some(PublishedFile::write(&flags.out.join(FILE), host, port)?)))
        }
    }
}

/// Listens at a name: at its address if that is one of this host, else at its port of all addresses.
fn listen_at(name: &str) -> Result<TcpListener, Failure> {
    let wrong = |error: io::Error| {
        Failure::usage(format!("--coordinator {name}: {error}: give HOST:PORT of rank 0, with a free port"))
    };
    let addresses: Vec<SocketAddr> = name.to_socket_addrs().map_err(wrong)?.collect();
    let mut last = io::Error::other("the name has no address");
    for address in &addresses {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    // A name of a service, or an address behind a translation, is none of this host's.
    match addresses.first().filter(|_| last.kind() == io::ErrorKind::AddrNotAvailable) {
        Some(address) => TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], address.port()))).map_err(wrong),
        None => Err(wrong(last)),
    }
}

/// The file with the address of rank 0, removed when it is dropped.
#[derive(Debug)]
pub struct PublishedFile(PathBuf);

impl PublishedFile {
    fn write(path: &Path, host: &str, port: u16) -> Result<PublishedFile, Failure> {
        let failed = |error: io::Error| {
            Failure::failed(format!("{}: {error}: give another --out, or --coordinator HOST:PORT", path.display()))
        };
        let mut addresses: Vec<IpAddr> = if_addrs::get_if_addrs()
            .map_err(failed)?
            .into_iter()
            .map(|interface| interface.ip())
            .filter(IpAddr::is_ipv4)
            .collect();
        // Loopback leads to other processes on other hosts: it is tried last.
        addresses.sort_by_key(IpAddr::is_loopback);
        let published = PublishedAddress { host: host.to_owned(), addresses, port };
        let text = serde_json::to_vec(&published).map_err(|error| failed(error.into()))?;
        let fresh = path.with_extension("json.new");
        create_fresh(&fresh)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&fresh, path))
            .map_err(failed)?;
        Ok(PublishedFile(path.to_owned()))
    }
}

impl Drop for PublishedFile {
    fn drop(&mut self) {
        // A file that is left behind leads to a port that refuses.
        let _ = fs::remove_file(&self.0);
    }
}
