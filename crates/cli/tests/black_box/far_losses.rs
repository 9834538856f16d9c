//! An agent that is lost in the middle of a session, again and again or without a word: the session ends.

use std::net::{TcpListener, TcpStream};

use crate::bench::Bench;
use crate::far::{LONG, agent, pass, restartable, stopped, trials_in, under_way};
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
