//! Calls over datagrams between two ends set up as on two hosts: only a sender with the ticket is answered.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use bytegauge_model::{Ends, Engine, FactorKey, Side};
use bytegauge_traffic::engine::missing_requirement;
use bytegauge_traffic::path::{FarPath, SHOWN, Ticket};
use bytegauge_traffic::{Address, Command, EndPool, Reply, Setup};

use crate::calls::{self, Ended, PATIENCE, listen, report, run_against, server, try_run, until};

/// Bytes of the answer to a ticket.
const ANSWER: usize = 32;

/// The server's engines that this kernel supports.
fn servers() -> impl Iterator<Item = Engine> {
    let names = ["plain", "mmsg", "uring:plain", "uring:multishot"];
    names.into_iter().map(|name| name.parse().unwrap()).filter(|engine| missing_requirement(*engine).is_none())
}

/// A short echo on four flows, with a longer time-out than any machine is busy.
fn setup(server: Engine, client: &str) -> Setup {
    let mut setup = calls::setup("udp", client.parse().unwrap());
    setup.window_ns = 100_000_000;
    let spec = &mut setup.spec;
    spec.put(FactorKey::server_engine, server);
    spec.put(FactorKey::timeout, 5_000_000_000);
    spec.put(FactorKey::read_size, 64 << 10);
    let ticket = Ticket::fresh().unwrap();
    setup.far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
    setup
}

#[test]
fn admission_of_clients_is_not_counted() {
    // As long as a ticket's answer, as a ticket, shorter and longer; and replies that are no echo.
    let sizes = [(1, 1), (ANSWER, ANSWER), (SHOWN, SHOWN), (512, 512), (512, ANSWER), (SHOWN, 1)];
    for engine in servers() {
        for (request, response) in sizes {
            let client = if request == 512 { "mmsg" } else { "plain" };
            let mut setup = setup(engine, client);
            setup.verify = true;
            setup.spec.put(FactorKey::request, request as u64);
            setup.spec.put(FactorKey::response, response as u64);
            setup.spec.put(FactorKey::depth, 4);
            // One datagram per system call is no failure here.
            setup.modes_are_shown = true;
            let ran = |ended: &Result<Ended, Reply>| ended.as_ref().is_ok_and(|ended| ended.calls().calls > 0);
            let ended = until(&setup, try_run, ran).unwrap();
            let (client, server, calls) = (ended.client(), ended.server(), ended.calls());
            let named = format!("{engine} {request} {response}: {:?}", ended.client);
            assert!(matches!((&ended.client, &ended.server), (Reply::Done(_), Reply::Done(_))), "{named}");
            assert!(calls.calls > 0, "{named}");
            // A wrong length, or another call's number, does not occur.
            let lost: u64 = calls.errors.iter().map(|error| error.count).sum();
            assert_eq!(calls.begun, calls.completed + lost + calls.unfinished, "{named}");
            let (ours, theirs) = (calls.datagrams.unwrap(), server.call.as_ref().unwrap().datagrams.unwrap());
            assert_eq!((ours.strange, calls.completed), (0, ours.received - ours.late - ours.duplicated), "{named}");
            assert!(theirs.received <= ours.sent && ours.received <= theirs.sent, "{named} {theirs:?}");
            let bytes = |requests: u64, replies: u64| requests * request as u64 + replies * response as u64;
            assert_eq!(client.total_bytes, bytes(ours.sent, ours.received), "{named}");
            assert_eq!(server.total_bytes, bytes(theirs.received, theirs.sent), "{named} {theirs:?}");
        }
    }
}

/// A socket at some port that is connected to a server.
fn caller(here: &str, at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(here).unwrap();
    socket.connect(at).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The next datagram. Ends that are threads of this process are woken by signals.
fn hears<'a>(socket: &UdpSocket, heard: &'a mut [u8]) -> &'a [u8] {
    let len = loop {
        match socket.recv(heard) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            len => break len.unwrap(),
        }
    };
    &heard[..len]
}

#[test]
fn server_answers_only_admitted_senders() {
    for engine in servers() {
        let setup = setup(engine, "plain");
        let ticket = setup.far.unwrap().ticket;
        let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
        let Ok(Address::Ip(at)) = listen(&mut pool, &setup) else { panic!("{engine}") };
        let (request, wrong) = (vec![7; 512], Ticket::fresh().unwrap());
        let long = [&ticket.shown_by(0)[..], &[0]].concat();
        let strange: Vec<UdpSocket> =
            [&[][..], &request, &[0; SHOWN], &wrong.shown_by(0), &long, &ticket.shown_by(0)[..SHOWN - 1]]
                .into_iter()
                .chain([&ticket.shown_by(4)[..], &ticket.shown_by(usize::MAX)])
                .map(|message| (caller("127.0.0.1:0", at), message))
                // An overheard ticket from another address, or a forged one.
                .chain((0..4).map(|_| (caller("127.0.0.2:0", at), &request[..])))
                .map(|(socket, message)| {
                    socket.send(message).unwrap();
                    socket
                })
                .collect();
        for (flow, forger) in strange[strange.len() - 4..].iter().enumerate() {
            forger.send(&ticket.shown_by(flow)).unwrap();
            forger.send(&request).unwrap();
        }
        let admitted = caller("127.0.0.1:0", at);
        let mut heard = vec![0; 2000];
        for _ in 0..3 {
            admitted.send(&ticket.shown_by(3)).unwrap();
            assert_eq!(hears(&admitted, &mut heard), &ticket.shown_by(3)[..ANSWER]);
        }
        // A second sender with the number of an admitted flow is refused, and so are its requests.
        let late = caller("127.0.0.1:0", at);
        late.send(&ticket.shown_by(3)).unwrap();
        late.send(&request).unwrap();
        // A server handles datagrams in order, except a ring, which has several receives at once.
        for turn in 0..200 {
            let request: Vec<u8> = (0..512).map(|at| (at + turn) as u8).collect();
            admitted.send(&request).unwrap();
            assert_eq!(hears(&admitted, &mut heard), request, "{engine}");
        }
        for unadmitted in strange.iter().chain([&late]) {
            unadmitted.set_nonblocking(true).unwrap();
            assert_eq!(unadmitted.recv(&mut heard).unwrap_err().kind(), ErrorKind::WouldBlock, "{engine}");
        }
        server(&mut pool).send(Command::Stop).unwrap();
        let ended = server(&mut pool).reply(PATIENCE).unwrap();
        let counted = report(&ended).call.as_ref().unwrap().datagrams.unwrap();
        assert_eq!((counted.received, counted.sent), (200, 200), "{engine}");
    }
}

#[test]
fn unadmitted_client_sends_only_its_ticket() {
    let check = |answer: &'static [u8]| {
        let door = UdpSocket::bind("127.0.0.1:0").unwrap();
        door.set_read_timeout(Some(PATIENCE)).unwrap();
        let (setup, at) = (setup(Engine::Plain, "plain"), door.local_addr().unwrap());
        let ticket = setup.far.unwrap().ticket;
        let other = std::thread::spawn(move || {
            let (mut received, mut count) = ([0; 2000], 0);
            loop {
                let (len, source) = match door.recv_from(&mut received) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    heard => heard.unwrap(),
                };
                if len == 0 {
                    return count;
                }
                count += 1;
                assert!((0..4).any(|flow| received[..len] == ticket.shown_by(flow)), "{:?}", &received[..len]);
                door.send_to(answer, source).unwrap();
            }
        });
        let Err(Reply::Failed(reason, _)) = run_against(&setup, Address::Ip(at)) else { panic!("it was not let in") };
        assert!(reason.contains("admission by the server on the other host"), "{reason}");
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[], at).unwrap();
        assert!(other.join().unwrap() > 4, "each of its flows knocks more than once");
    };
    std::thread::scope(|scope| {
        for answer in [&[1][..], &[], &[7; ANSWER], &[7; SHOWN]] {
            scope.spawn(move || check(answer));
        }
    });
}
