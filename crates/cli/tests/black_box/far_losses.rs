//! An agent that is lost in the middle of a session, again and again or without a word: the session ends. After a connection that is
//! cut, the block is repeated.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::bench::Bench;
use crate::far::{LONG, STREAM, agent, check_cells, restartable, stopped, trials_in, under_way, until_no_end};
use crate::raw::Raw;

/// Passes bytes between callers and an agent, and ends every connection once its caller has sent
/// `after` bytes. Returns its address.
fn ending(agent: &str, after: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, agent) = (listener.local_addr().unwrap(), agent.to_owned());
    std::thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let Ok(callee) = TcpStream::connect(&agent) else { return };
            std::thread::spawn(move || pass(&caller, &callee, Some((after, false))));
        }
    });
    here.to_string()
}

/// An agent that is lost after every other trial, and is back at once.
#[test]
fn host_lost_again_and_again_ends_the_session() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let place = ending(&place, 8 << 10);
    let words = LONG.replace("--read-size 64K", "--read-size 4K,16K,64K,256K");
    let ran = bench.run(&format!("{words} {place}")).exits(6).complains(&[&place, "was lost", "times", "--resume"]);
    let lines = ran.json_lines();
    let raw = Raw::of(&bench, lines[0]["session"].as_i64().unwrap());
    let reported = trials_in(&ran.stdout);
    assert!(raw.trials.len() < reported, "trials of given-up blocks were removed: {} of {reported}", raw.trials.len());
    stopped(agent);
}

/// No connection shows that an agent is stopped: its end would be waited for as long as an end may be late.
#[test]
fn stopped_agent_is_noticed_early() {
    let bench = Bench::new();
    let (agent, place) = restartable(&bench);
    let words = LONG.replace("--json-stream", "--json-stream --grace 60m --host-wait 200ms");
    let session = under_way(&bench, &words, &place);
    agent.signal("STOP");
    session.wait().exits(6).complains(&[&place, "did not come back within 200 ms"]);
    agent.signal("CONT");
    stopped(agent);
}

/// A connection to cut when either side ends it.
const AT_ITS_END: usize = usize::MAX;

/// Passes bytes between callers and an agent; cuts the first connections, so that both sides see a reset, after a number of bytes:
/// in a word of the caller or in the next one of the agent, in turn. Returns its address and the number of cut
/// connections.
fn cutting(agent: &str, after: &'static [usize]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, agent) = (listener.local_addr().unwrap(), agent.to_owned());
    let cuts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cuts);
    std::thread::spawn(move || {
        for (number, caller) in listener.incoming().map_while(Result::ok).enumerate() {
            let Ok(callee) = TcpStream::connect(&agent) else { return };
            let counted = Arc::clone(&counted);
            let cut = after.get(number).map(|after| (*after, number % 2 == 1));
            std::thread::spawn(move || {
                if pass(&caller, &callee, cut).is_some() {
                    // Closed so that the other side sees a reset (socket(7)).
                    for stream in [&caller, &callee] {
                        socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
                    }
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    (here.to_string(), cuts)
}

/// `Some` if the connection is to be cut; the last bytes are lost then.
fn pass(caller: &TcpStream, callee: &TcpStream, cut: Option<(usize, bool)>) -> Option<()> {
    let (mut bytes, mut message, mut ended) = ([0; 4096], 0, [false; 2]);
    for stream in [caller, callee] {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    // One direction may end before the other: closing both would answer late bytes with a reset.
    while ended != [true; 2] {
        for (direction, (mut from, mut to)) in [(caller, callee), (callee, caller)].into_iter().enumerate() {
            if ended[direction] {
                continue;
            }
            match from.read(&mut bytes) {
                Ok(0) if cut.is_some_and(|(after, _)| after == AT_ITS_END) => return Some(()),
                Ok(0) => {
                    ended[direction] = true;
                    to.shutdown(Shutdown::Write).ok()?;
                }
                Ok(n) => {
                    let of_agent = std::ptr::eq(from, callee);
                    message += if of_agent { 0 } else { n };
                    if cut.is_some_and(|(after, in_answer)| message >= after && in_answer == of_agent) {
                        return Some(());
                    }
                    to.write_all(&bytes[..n]).ok()?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
    None
}

#[test]
fn block_of_a_cut_control_connection_is_repeated() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for flags in ["--direction to", "--direction from --flows 3"] {
        let (through, cuts) = cutting(&place, &[600, 3000]);
        let ran = bench.run(&format!("{STREAM} --host {through} --key-file key {flags}")).exits(0);
        check_cells(&ran, &through, ["source", "sink"], &bench);
        let raw = Raw::of(&bench, ran.json()["session"].as_i64().unwrap());
        assert_eq!(raw.troubles(), Vec::<String>::new());
        raw.check_sound();
        assert!(cuts.load(Ordering::SeqCst) >= 1, "{cuts:?}");
    }
    until_no_end(&bench);
    stopped(agent);
}

#[test]
fn client_lost_during_a_cut_frees_the_agent() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let (through, cuts) = cutting(&place, &[AT_ITS_END, AT_ITS_END]);
    for host in [&through, &place] {
        let ran = bench.run(&format!("{STREAM} --host {host} --key-file key")).exits(0);
        check_cells(&ran, host, ["source", "sink"], &bench);
    }
    assert!(cuts.load(Ordering::SeqCst) >= 1, "{cuts:?}");
    until_no_end(&bench);
    stopped(agent);
}
