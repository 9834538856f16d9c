//! A storm of resets: hundreds of clients close at once, in any state, and all others are served.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;

use bytegauge_traffic::engine::Stop;

use crate::support::{for_all, message, plain, plain_call, reset, telling_server, wait_until};

/// Storms, one after another.
const WAVES: usize = 4;

/// Clients of each phase in a wave.
const EACH: usize = 10;

/// Bytes of a message that socket buffers hardly hold before they have grown.
const LARGE: usize = 250_000;

/// The state in which a client resets its connection.
const PHASES: [fn(SocketAddr) -> TcpStream; 5] =
    [unseen, between_calls, in_the_middle_of_a_request, in_the_middle_of_a_reply, after_half_closing];

/// Perhaps before the engine has seen it at all.
fn unseen(address: SocketAddr) -> TcpStream {
    plain(address)
}

fn between_calls(address: SocketAddr) -> TcpStream {
    let mut stream = plain(address);
    plain_call(&mut stream, 1, 100);
    stream
}

fn in_the_middle_of_a_request(address: SocketAddr) -> TcpStream {
    let mut stream = plain(address);
    stream.write_all(&message(2, 1000)[..500]).unwrap();
    stream
}

fn in_the_middle_of_a_reply(address: SocketAddr) -> TcpStream {
    let mut stream = plain(address);
    stream.write_all(&message(3, LARGE)).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    stream
}

/// The server has more to send than the buffers hold, to a client that sends no more.
fn after_half_closing(address: SocketAddr) -> TcpStream {
    let mut stream = plain(address);
    stream.write_all(&message(4, LARGE)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    stream
}

/// Clients of all phases, in turn.
fn victims(address: SocketAddr) -> Vec<TcpStream> {
    let of = |phase: fn(SocketAddr) -> TcpStream| move || (0..EACH).map(|_| phase(address)).collect::<Vec<_>>();
    let mut by_phase: Vec<Vec<TcpStream>> = std::thread::scope(|scope| {
        let threads: Vec<_> = PHASES.into_iter().map(|phase| scope.spawn(of(phase))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (0..EACH).flat_map(|_| by_phase.iter_mut().filter_map(Vec::pop).collect::<Vec<_>>()).collect()
}

#[test]
fn resets_cost_no_call_of_other_clients() {
    for_all(|engine| {
        let (server, address, broken) = telling_server(engine);
        let mut control = plain(address);
        for wave in 0..WAVES {
            let victims = victims(address);
            // While they are there, in the middle of the storm, and after it.
            plain_call(&mut control, wave, 1000);
            for (number, victim) in victims.into_iter().enumerate() {
                reset(victim);
                if number == EACH * PHASES.len() / 2 {
                    plain_call(&mut control, wave, 1000);
                }
            }
            plain_call(&mut control, wave, 100_000);
        }
        // Those that the engine had not seen may have closed without a trace.
        let seen = WAVES * EACH * (PHASES.len() - 1);
        wait_until("every reset is reported", || broken.load(Ordering::Relaxed) >= seen);
        plain_call(&mut control, 0, 10);
        drop(control);
        let outcome = server.tell();
        assert_eq!(outcome.stop, Stop::Time);
        let accepted = outcome.report.accepted as usize;
        assert!((1 + seen..=1 + WAVES * EACH * PHASES.len()).contains(&accepted), "{accepted} accepted");
        let served: u64 = outcome.group.flows().map(|flow| flow.served).sum();
        // The calls of the control and of idle clients; a large reply that fits kernel buffers counts too.
        let (least, large) = (3 * WAVES + 1 + WAVES * EACH, 2 * WAVES * EACH);
        assert!((least..=least + large).contains(&(served as usize)), "{served} served, {least} at least");
    });
}
