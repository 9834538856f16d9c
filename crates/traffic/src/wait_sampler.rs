//! Samples the TCP connections of running programs: what they wait for ([`SocketWaits`]).
//!
//! Duplicates a descriptor for one look and closes it at once: a socket that is held does not end. Never changes one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use bytegauge_model::SocketWaits;
use bytegauge_sys::listening;
use bytegauge_sys::option::{self, Value};
use bytegauge_sys::process_descriptor::{self, addresses, has_fixed_receive_buffer};
use bytegauge_sys::tcp_info::{TcpInfo, tcp_info};

/// The most descriptors of a process that are searched for connections.
const DESCRIPTORS: usize = 1024;

/// A message that waits longer than this is held, ms: two ticks of the slowest usual kernel clock (HZ=250) and no more than
/// the least delay of an acknowledgement, 40 ms (include/net/tcp.h, `TCP_DELACK_MIN`).
const HELD_MS: u32 = 5;

/// The TCP connections of a process at one moment: each by its name in `/proc/PID/fd`.
pub fn each_connection(pid: u32, most: usize, look: &mut dyn FnMut(&str, BorrowedFd<'_>, &TcpInfo)) {
    let mut seen = 0;
    for (link, fd) in socket_links(pid, DESCRIPTORS) {
        if seen >= most {
            return;
        }
        let Ok(socket) = process_descriptor::descriptor(pid, fd) else { continue };
        if let Ok(info) = tcp_info(socket.as_fd()) {
            seen += 1;
            look(&link, socket.as_fd(), &info);
        }
    }
}

/// The sockets among the first descriptors of a process: their names in `/proc/PID/fd`, and their numbers.
pub(crate) fn socket_links(pid: u32, descriptors: usize) -> impl Iterator<Item = (String, i32)> {
    listening::links_of(pid).take(descriptors).filter(|(link, _)| link.starts_with("socket:"))
}

/// Whether a connection between these addresses crosses no network.
pub fn is_within_machine(local: SocketAddr, peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback() || peer.ip() == local.ip()
}

/// Sums up samples.
#[derive(Clone, Debug, Default)]
pub struct WaitSampler {
    /// The sums.
    pub waits: SocketWaits,
    /// By connection: its times at the last sample, microseconds.
    last: BTreeMap<String, [u64; 3]>,
}

impl WaitSampler {
    /// Adds a sample of a connection.
    pub fn add(&mut self, link: &str, socket: BorrowedFd<'_>, info: &TcpInfo) {
        let times = [info.busy_time_us, info.rwnd_limited_us, info.sndbuf_limited_us].map(|us| us.unwrap_or(0));
        // A connection that is new has its whole life in its times.
        let before = self.last.insert(link.to_owned(), times).unwrap_or_default();
        let [busy, window, buffer] = [0, 1, 2].map(|at| times[at].saturating_sub(before[at]));
        self.waits.busy_us += busy;
        self.waits.window_us += window;
        self.waits.buffer_us += buffer;
        if info.unacked.is_some_and(|segments| segments > 0) {
            self.waits.samples += 1;
            self.waits.held += u64::from(is_held(socket, info));
        }
        if let Ok(Value::Text(name)) = option::read(socket, option::CONGESTION) {
            self.waits.congestion.insert(name);
        }
        if let (Some(local), Some(peer)) = addresses(socket) {
            let is_local = is_within_machine(local, peer);
            self.waits.over_loopback |= is_local;
            self.waits.over_network |= !is_local;
        }
        if let (true, Ok(Value::Number(bytes))) =
            (has_fixed_receive_buffer(socket), option::read(socket, option::RECEIVE_BUFFER))
        {
            let known = self.waits.fixed_receive.get_or_insert(bytes);
            *known = bytes.min(*known);
        }
    }
}

/// Whether less than a segment waits while earlier data is unacknowledged.
fn is_held(socket: BorrowedFd<'_>, info: &TcpInfo) -> bool {
    let is_part = info.notsent_bytes.zip(info.snd_mss).is_some_and(|(waits, segment)| waits > 0 && waits < segment);
    is_part
        && info.last_data_sent_ms.is_some_and(|ms| ms >= HELD_MS)
        && matches!(option::read(socket, option::NO_DELAY), Ok(Value::Switch(false)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Two small writes without a reply: the second waits for the delayed acknowledgement of the first. The first segments of a
    /// connection are acknowledged at once, so it is tried until one is held.
    #[test]
    fn a_held_message_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        let mut sampler = WaitSampler::default();
        while sampler.waits.held == 0 {
            client.write_all(b"head").unwrap();
            client.write_all(b"body").unwrap();
            for _ in 0..20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                each_connection(std::process::id(), 1024, &mut |link, socket, info| sampler.add(link, socket, info));
            }
        }
        assert!(sampler.waits.samples >= sampler.waits.held);
        assert!(sampler.waits.over_loopback && !sampler.waits.over_network);
    }
}
