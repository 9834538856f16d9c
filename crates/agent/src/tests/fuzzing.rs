//! Entry points of the fuzzer (`fuzz/`): messages of a key holder, without sockets and processes. Compiled only for tests and
//! the fuzzer.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use bytegauge_model::{EndCounts, EndReport, EndRole, Side, Spec, Workload};
use bytegauge_traffic::address::Address;
use bytegauge_traffic::message::{Command, Reply};
use bytegauge_traffic::path::{FarPath, Ticket};
use bytegauge_traffic::setup::Setup;

use crate::limits::{Between, Limits};
use crate::protocol::{COMMANDS_MAX, PROGRAM_MAX, TEXT_MAX, ToAgent, ToHome, program};
use crate::session_counts::{self, AgentCounts, EndCommands, Spent};

const HERE: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [192, 0, 2, 9];

/// Decodes a message as either side does, and checks a message that passes.
///
/// # Panics
/// If an agent admits a command beyond its limits, or a caller accepts a reply beyond its caps.
pub fn words(input: &[u8]) {
    match serde_json::from_slice::<ToAgent>(input) {
        Ok(ToAgent::Ask(ask)) => assert!(program(&ask.program).len() <= PROGRAM_MAX),
        Ok(ToAgent::Tell(_, command)) => tune_command(*command),
        Ok(ToAgent::Start(_) | ToAgent::End(_) | ToAgent::Used) | Err(_) => {}
    }
    if let Ok(word) = serde_json::from_slice::<ToHome>(input)
        && let Ok(word) = word.within_caps()
    {
        check_reply(&word);
    }
}

fn tune_command(command: Command) {
    let limits = Limits::default();
    let between = Between { here: HERE.into(), peer: PEER.into(), port: 4711 };
    let Ok(Command::Open(_, setup, address)) = limits.admitted(command, between, Spent::default()) else { return };
    match address {
        None => {}
        Some(Address::Ip(place)) => assert!(place.ip() == IpAddr::from(PEER) && place.port() >= 1024, "{place}"),
        Some(other) => panic!("{other:?}"),
    }
    assert!(setup.has_path());
    assert!(setup.host.v4.octets() == HERE && !setup.is_external() && setup.flows() <= limits.flows);
    assert!(setup.cpus.is_empty() && setup.plant.is_none());
    assert!(setup.bound.is_some_and(|bound| bound.bytes <= limits.bytes));
    let far = setup.far.expect("agents");
    let hosts = far.end.map(|(at, _)| at).into_iter().chain(far.relay);
    assert!(hosts.into_iter().all(|host| host.ip() == IpAddr::from(PEER)), "{far:?}");
}

fn check_reply(word: &ToHome) {
    match word {
        ToHome::Welcome(welcome) => {
            assert!(welcome.program.len() <= PROGRAM_MAX);
            assert!(welcome.missing_relays.values().all(|why| why.len() <= TEXT_MAX));
        }
        ToHome::Refused(text) | ToHome::Gone(_, text) => assert!(text.len() <= TEXT_MAX),
        ToHome::Heard(_, reply) => match &**reply {
            Reply::Skipped(text) | Reply::Failed(text, _) => assert!(text.len() <= TEXT_MAX),
            Reply::Listening(at) => assert!(matches!(at, Address::Ip(_)), "{at:?}"),
            Reply::Hello(_) | Reply::Ready | Reply::Closed | Reply::Done(_) => {}
        },
        ToHome::Used(_) => {}
    }
}

/// Bytes that a session of [`session`] may move.
const SESSION_BYTES: u64 = 1 << 20;

/// The trials of [`session`]: a stream that is received here, one that is sent, calls that are served, and one that is refused.
fn trials() -> &'static [Command; 4] {
    static TRIALS: OnceLock<[Command; 4]> = OnceLock::new();
    let open = |role: EndRole, transport: &str, address: Option<Address>| {
        let workload = if role == EndRole::Server { Workload::Call } else { Workload::Stream };
        let levels = [("transport", transport.into()), ("request", 1.into()), ("read_size", 1.into())];
        let spec: Spec = levels.into_iter().chain([("write_size", 1.into())]).collect();
        let mut setup = Setup::of(&spec.with_workload(workload)).expect("a setup");
        let here = SocketAddr::new(HERE.into(), 1);
        let side = if role == EndRole::Source { Side::Source } else { Side::Sink };
        setup.far = Some(FarPath::to(here, side, Ticket::fresh().expect("random bytes")));
        Command::Open(role, Box::new(setup), address)
    };
    let caller = || Some(Address::Ip((PEER, 5000).into()));
    TRIALS.get_or_init(|| {
        [
            open(EndRole::Sink, "tcp", None),
            open(EndRole::Source, "tcp", caller()),
            open(EndRole::Server, "tcp", None),
            open(EndRole::Sink, "unix", None),
        ]
    })
}

/// Steps the ends of a session through commands of a caller that follows no rule. A step has two bytes: a command, or what the
/// end does, and a number.
///
/// # Panics
/// If bytes are granted twice, more than the session may move, or an end gets more commands than its channel holds.
pub fn session(input: &[u8]) {
    let limits = Limits { bytes: SESSION_BYTES, ..Limits::default() };
    let between = Between { here: HERE.into(), peer: PEER.into(), port: 4711 };
    let (counted, mut end) = (AgentCounts::default(), EndCommands::default());
    // The bytes that the end may move, and the commands that it has not read.
    let (mut granted, mut unread) = (None, 0);
    for step in input.chunks_exact(2) {
        let command = match step[0] % 10 {
            0 => {
                // The end is replaced. Its process is ended first.
                counted.settles(None);
                (end, granted, unread) = (EndCommands::default(), None, 0);
                continue;
            }
            1..=3 => trials()[usize::from(step[1]) % trials().len()].clone(),
            4 => Command::Go,
            5 => Command::Stop,
            6 => Command::Quit,
            what => {
                unread = 0;
                let moved = granted.take().unwrap_or(0).min(u64::from(step[1]) << 10);
                let counts = EndCounts { total_bytes: moved, ..EndCounts::default() };
                let report = Box::new(EndReport { counts, ..EndReport::default() });
                let reply = match what {
                    7 => Reply::Done(report),
                    8 => Reply::Failed(String::new(), report),
                    _ => Reply::Skipped(String::new()),
                };
                let _ = session_counts::counted(reply, &counted, &limits);
                assert!(!counted.is_open() && counted.spent().bytes <= SESSION_BYTES, "{:?}", counted.spent());
                continue;
            }
        };
        let before = counted.spent();
        match end.take(command, (&limits, between), &counted) {
            // The session ends.
            Err(_) => return,
            Ok(Err(_)) => {}
            Ok(Ok(command)) => {
                unread += 1;
                if let Command::Open(_, setup, _) = command {
                    let bound = setup.bound.expect("a limit");
                    assert!(granted.is_none() && before.bytes + bound.bytes <= SESSION_BYTES, "granted twice");
                    (granted, unread) = (Some(bound.bytes), 1);
                }
                assert!(unread <= COMMANDS_MAX + 1, "{unread} commands");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_commands_pass_the_fuzz_target(input in prop::collection::vec(any::<u8>(), 0..200)) {
            session(&input);
        }
    }

    #[test]
    fn kept_commands_pass_the_fuzz_target() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/session");
        let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
        assert!(!inputs.is_empty());
        for file in inputs {
            session(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }

    #[test]
    fn kept_inputs_pass_the_fuzz_target() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/words");
        let mut admitted = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap().path();
            let input = std::fs::read(&file).unwrap();
            words(&input);
            (0..input.len()).for_each(|end| words(&input[..end]));
            let decodes = serde_json::from_slice::<ToAgent>(&input).is_ok();
            let opens = file.file_name().unwrap().to_string_lossy().starts_with("open-");
            assert!(decodes || !opens, "{} does not decode", file.display());
            admitted += usize::from(decodes);
        }
        assert!(admitted > 0, "inputs that decode");
    }
}
