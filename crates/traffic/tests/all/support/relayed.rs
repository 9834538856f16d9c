//! Traffic through any relay: plain clients and servers of the standard library at both ends of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytegauge_traffic::pattern::Pattern;

use super::{PATIENCE, expect, listener, message, plain, plain_call, reset, wait_until};

/// A blocking TCP listener on loopback.
pub fn blocking_listener() -> (TcpListener, SocketAddr) {
    let (listener, address) = listener();
    listener.set_nonblocking(false).unwrap();
    (listener, address)
}

fn accepted(listener: &TcpListener) -> TcpStream {
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A server with a thread per connection, for this number of them.
pub fn server(connections: usize, serve: fn(TcpStream)) -> (SocketAddr, JoinHandle<()>) {
    let (listener, address) = blocking_listener();
    let serving = std::thread::spawn(move || {
        let serve = |_| {
            let stream = accepted(&listener);
            std::thread::spawn(move || serve(stream))
        };
        let threads: Vec<_> = (0..connections).map(serve).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    (address, serving)
}

/// Serves what it receives.
pub fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 3000];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            n => stream.write_all(&buffer[..n]).unwrap(),
        }
    }
}

/// Replies only after the end of the stream.
pub fn replies_at_the_end(mut stream: TcpStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    stream.write_all(&all).unwrap();
}

/// Clients of an [`echo`], all at once, each with calls of these lengths: the bytes that they sent and received.
pub fn calls_come_back(address: SocketAddr, clients: usize, lengths: [usize; 4]) -> usize {
    std::thread::scope(|scope| {
        for flow in 0..clients {
            scope.spawn(move || {
                let mut stream = plain(address);
                lengths.into_iter().for_each(|len| plain_call(&mut stream, flow, len));
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and then the end");
            });
        }
    });
    // Each with its length before it.
    clients * lengths.into_iter().map(|len| 4 + len).sum::<usize>()
}

/// Three clients, one after another, of [`replies_at_the_end`].
pub fn all_comes_back_at_the_end(address: SocketAddr) {
    for len in [0, 10, 2_000_000] {
        let mut stream = plain(address);
        let sent = message(len, len);
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        expect(&mut stream, &sent);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and then the end");
    }
}

/// One side of a connection, `client` or `server`, resets it: the other one gets the reset.
pub fn a_reset_comes_through(address: SocketAddr, behind: &TcpListener, breaks: &str) {
    let mut client = plain(address);
    client.write_all(b"x").unwrap();
    let mut server = accepted(behind);
    server.read_exact(&mut [0]).unwrap();
    let (gone, mut stays) = if breaks == "client" { (client, server) } else { (server, client) };
    reset(gone);
    let error = stays.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the {breaks} breaks");
}

/// Far more than the sockets of both sides and the relay hold.
pub const HELD_UP: usize = 32 << 20;

/// A client that sends [`HELD_UP`] bytes, in pieces of this size, to a server that reads only when nothing moves any more: all
/// bytes arrive. Returns how many were accepted until then.
pub fn all_comes_through_after_a_pause(address: SocketAddr, behind: &TcpListener, piece: usize) -> usize {
    // Created once: there are dozens of relays.
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut bytes = vec![0; HELD_UP];
        Pattern::new(1, 7).fill(0, &mut bytes);
        bytes
    });
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = plain(address);
            for piece in bytes.chunks(piece) {
                client.write_all(piece).unwrap();
                taken.fetch_add(piece.len(), Ordering::Relaxed);
            }
            client.shutdown(Shutdown::Write).unwrap();
            // Not closed before the server is.
            let _ = client.read(&mut [0]);
        });
        let mut server = accepted(behind);
        let mut before = usize::MAX;
        wait_until("the client is held up", || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let now = taken.load(Ordering::Relaxed);
            now > 0 && std::mem::replace(&mut before, now) == now
        });
        let mut got = Vec::new();
        server.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), HELD_UP);
        assert!(got == *bytes, "other bytes came out");
        before
    })
}
