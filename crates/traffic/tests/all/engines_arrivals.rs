//! Arrivals of many connections at once: each flow gets the bytes of its own connection, all of them, in their order.
//!
//! Clients write parts of messages in any order of the connections, read replies late or never, and reset connections in the
//! middle. Engines that receive into buffers which connections share then complete receives out of order, of parts, and with
//! errors, and use the buffers of a dead connection for another one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::support::mirror::Mirror;
use crate::support::running::Running;
use crate::support::{Group, PATIENCE, for_all, listener, message, plain, reset, small_parts};

/// Connections of a case.
const CONNECTIONS: usize = 6;

/// Cases for each engine and size of its receives.
const CASES: u32 = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes at most this number of bytes.
    Write(usize),
    /// Reads at most this number of bytes.
    Read(usize),
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        8 => (1usize..9000).prop_map(Step::Write),
        4 => (1usize..9000).prop_map(Step::Read),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec((0..CONNECTIONS, step), 1..60)
}

/// A client, its messages, and how far they have been written and have come back.
struct Client {
    stream: TcpStream,
    messages: Vec<u8>,
    written: usize,
    read: usize,
}

impl Client {
    /// The bytes of each client differ from those of the others at every place.
    fn new(number: usize, lengths: &[usize], address: SocketAddr) -> Client {
        let stream = plain(address);
        stream.set_nonblocking(true).unwrap();
        let messages = lengths.iter().flat_map(|len| message(number, *len)).collect();
        Client { stream, messages, written: 0, read: 0 }
    }

    /// Whether it moved any byte.
    fn writes(&mut self, most: usize) -> bool {
        let end = self.messages.len().min(self.written + most);
        let wrote = now(self.stream.write(&self.messages[self.written..end]));
        self.written += wrote;
        wrote > 0
    }

    fn reads(&mut self, most: usize) -> bool {
        if self.read == self.messages.len() {
            return false;
        }
        let mut bytes = vec![0; most];
        let read = now(self.stream.read(&mut bytes));
        let expected = self.messages.get(self.read..self.read + read);
        assert!(expected == Some(&bytes[..read]), "other bytes after {} of {}", self.read, self.messages.len());
        self.read += read;
        read > 0
    }

    fn is_done(&self) -> bool {
        self.read == self.messages.len()
    }
}

/// The bytes moved by a call that does not block.
fn now(moved: std::io::Result<usize>) -> usize {
    match moved {
        Ok(moved) => moved,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
        Err(error) => panic!("{error}"),
    }
}

fn check(address: SocketAddr, lengths: &[Vec<usize>], steps: &[(usize, Step)]) {
    let client = |(number, lengths): (usize, &Vec<usize>)| Some(Client::new(number, lengths, address));
    let mut clients: Vec<Option<Client>> = lengths.iter().enumerate().map(client).collect();
    for (number, step) in steps {
        let place = &mut clients[*number];
        let Some(client) = place else { continue };
        match step {
            Step::Write(most) => {
                client.writes(*most);
            }
            Step::Read(most) => {
                client.reads(*most);
            }
            Step::Reset => place.take().into_iter().for_each(|client| reset(client.stream)),
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let mut left: Vec<Client> = clients.into_iter().flatten().collect();
    while left.iter().any(|client| !client.is_done()) {
        let moved =
            left.iter_mut().map(|client| client.writes(usize::MAX / 2) | client.reads(5000)).fold(false, |a, b| a | b);
        assert!(Instant::now() < deadline, "bytes are missing");
        if !moved {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    for mut client in left {
        client.stream.set_nonblocking(false).unwrap();
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "and then the end");
    }
}

#[test]
fn every_flow_gets_the_bytes_of_its_connection() {
    for_all(|engine| {
        for buffer_size in [7, 512, 65_536] {
            let (listener, address) = listener();
            let group = Group::server(Mirror::default).with(&small_parts());
            let server = Running::start(engine, group, Some(listener.into()), buffer_size);
            let lengths = prop::collection::vec(prop::collection::vec(0usize..12_000, 1..5), CONNECTIONS);
            let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::with_cases(CASES));
            runner
                .run(&(lengths, steps()), |(lengths, steps)| {
                    check(address, &lengths, &steps);
                    Ok(())
                })
                .unwrap();
            server.tell();
        }
    });
}
