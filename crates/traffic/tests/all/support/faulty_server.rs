//! Servers of calls as external programs: they echo requests, and spoil the replies whose number, from 1, is due.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The fault of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each test binary plants some of them")]
pub enum Fault {
    /// Half of it is missing; over TCP the connection ends.
    Short,
    /// It is a byte longer.
    Long,
    /// Its first byte is wrong; over UDP its last, since the first ones are its number.
    Corrupt,
    /// It, and all later ones, is sent after this time.
    Nap(Duration),
    /// It is lost.
    Lost,
    /// It is sent twice.
    Repeated,
    /// It is sent after the first one that follows this time.
    Late(Duration),
}

/// A server over TCP of requests of `len` bytes.
pub fn over_tcp(len: usize, fault: Fault, is_due: fn(u64) -> bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicU64::new(0));
    let serve = move |connection: std::io::Result<std::net::TcpStream>| {
        let (mut stream, served) = (connection.unwrap(), Arc::clone(&served));
        stream.set_nodelay(true).unwrap();
        thread::spawn(move || {
            let mut request = vec![0; len];
            while stream.read_exact(&mut request).is_ok() {
                let fault = is_due(served.fetch_add(1, Ordering::Relaxed) + 1).then_some(fault);
                let mut reply = request.clone();
                match fault {
                    Some(Fault::Short) => reply.truncate(len / 2),
                    Some(Fault::Long) => reply.push(0xee),
                    Some(Fault::Corrupt) => reply[0] ^= 1,
                    Some(Fault::Nap(time)) => thread::sleep(time),
                    _ => {}
                }
                if stream.write_all(&reply).is_err() || fault == Some(Fault::Short) {
                    return;
                }
            }
        });
    };
    thread::spawn(move || listener.incoming().for_each(serve));
    address
}

/// A server over UDP.
#[allow(dead_code, reason = "each test binary uses some of them")]
pub fn over_udp(fault: Fault, is_due: fn(u64) -> bool) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        let mut held: Vec<(Instant, SocketAddr, Vec<u8>)> = Vec::new();
        for number in 1.. {
            // Ends that are threads of this process are woken by signals; and a client may be gone.
            let (len, peer) = loop {
                if let Ok(came) = socket.recv_from(&mut buffer) {
                    break came;
                }
            };
            let mut reply = buffer[..len].to_vec();
            let (due, kept) = std::mem::take(&mut held).into_iter().partition(|(until, ..)| *until <= Instant::now());
            held = kept;
            let due: Vec<(Instant, SocketAddr, Vec<u8>)> = due;
            let mut times = 1;
            match Some(fault).filter(|_| is_due(number)) {
                Some(Fault::Short) => reply.truncate(len / 2),
                Some(Fault::Long) => reply.push(0xee),
                Some(Fault::Corrupt) => reply[len - 1] ^= 1,
                Some(Fault::Nap(time)) => thread::sleep(time),
                Some(Fault::Lost) => times = 0,
                Some(Fault::Repeated) => times = 2,
                Some(Fault::Late(by)) => {
                    held.push((Instant::now() + by, peer, reply.clone()));
                    times = 0;
                }
                None => {}
            }
            for (to, bytes) in (0..times).map(|_| (peer, &reply)).chain(due.iter().map(|(_, to, bytes)| (*to, bytes))) {
                let _ = socket.send_to(bytes, to);
            }
        }
    });
    address
}
