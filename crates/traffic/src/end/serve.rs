//! The command loop of one end: opens paths, runs trials, reports. The same loop serves a thread and a process; only the
//! channel differs.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytegauge_model::{EndReport, EndRole, RelayChoice, Workload};

use crate::address::Address;
use crate::end::peer::{Body, Peer};
use crate::end::runner::EndResult;
use crate::end::{client, program, relay, relay_program, relay_running, ring, server, stream};
use crate::end_error::EndError;
use crate::engine;
use crate::message::{Command, Hello, Reply};
use crate::setup::Setup;
use crate::spin;

/// Serves commands until `Quit` or until the channel is closed.
pub fn serve(peer: &mut impl Peer, body: Body) {
    if !peer.reply(Reply::Hello(Hello::ours())) {
        return;
    }
    let mut kept = Vec::new();
    while let Some(command) = peer.command() {
        // Descriptors that the last trial left open are closed first.
        kept.clear();
        let ended = match command {
            Command::Open(role, setup, address) => open(peer, role, *setup, address.as_ref(), body),
            Command::Go | Command::Stop => continue,
            Command::Quit => return,
        };
        let reply = match ended {
            Ok(Some(ended)) => {
                kept = ended.kept;
                reply(ended.report, ended.fault)
            }
            Ok(None) => continue,
            Err(fault) => reply(EndReport::default(), Some(fault)),
        };
        if !peer.reply(reply) {
            return;
        }
    }
}

/// Serves commands as JSON lines on standard input, replies on standard output: an end as a process.
///
/// # Errors
/// When standard output cannot be written.
pub fn serve_stdio() -> io::Result<()> {
    let mut peer = StdioPeer { input: io::stdin().lock(), output: io::stdout().lock() };
    serve(&mut peer, Body::Process);
    peer.output.flush()
}

struct StdioPeer<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Peer for StdioPeer<R, W> {
    fn command(&mut self) -> Option<Command> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            // An invalid line comes from another program or another version: leave, with the reason.
            Ok(_) => match serde_json::from_str(&line) {
                Ok(command) => Some(command),
                Err(error) => {
                    let reason = format!(
                        "this end cannot read a command ({error}): start all ends from one version of bytegauge"
                    );
                    self.reply(Reply::Failed(reason, Box::default()));
                    None
                }
            },
        }
    }

    fn reply(&mut self, reply: Reply) -> bool {
        let Ok(mut line) = serde_json::to_string(&reply) else { return false };
        line.push('\n');
        self.output.write_all(line.as_bytes()).and_then(|()| self.output.flush()).is_ok()
    }
}

/// Runs one trial from its first command to its report. `Ok(None)` if it was called off before `Go`.
fn open(
    peer: &mut impl Peer,
    role: EndRole,
    setup: Setup,
    address: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    let setup = Arc::new(setup);
    // The plan was made for this machine's features or another's. If a server listened first, its clients would connect
    // without being served.
    let engine = setup.engine_of(role).filter(|_| setup.far.is_some() && role != EndRole::Relay);
    if let Some(reason) = engine.and_then(engine::missing_requirement) {
        return Err(EndError::Missing(reason));
    }
    if setup.spins() && role != EndRole::Relay {
        // Before anything counts.
        spin::prepare();
    }
    // A role belongs to its workload: an agent allows what the workload needs.
    match (setup.workload(), role, address) {
        (Workload::Stream, EndRole::Source | EndRole::Sink, _) => stream::run(peer, role, &setup, address, body),
        (Workload::Call, EndRole::Client | EndRole::Competitor, Some(address)) => {
            client::run(peer, role, &setup, address, body)
        }
        (Workload::Call, EndRole::Server, _) => server::run(peer, &setup, body),
        (Workload::Stream | Workload::Call, EndRole::Relay, _) => match setup.relay() {
            Some(RelayChoice::Method(_)) => relay::run(peer, &setup, address, body),
            Some(RelayChoice::Running(running)) => relay_running::run(peer, &setup, running),
            Some(choice @ RelayChoice::Program(name)) => match choice.program() {
                Some(program) => relay_program::run(peer, &setup, &program, address, body),
                None => Err(EndError::Impossible(format!("no relay program has the name {name}"))),
            },
            None => Err(EndError::Impossible("a relay was opened without a method".into())),
        },
        (Workload::Ring, EndRole::Ring, _) => ring::run(peer, &setup),
        (Workload::Check, EndRole::Command, _) => program::run(peer, &setup, body),
        (workload, role, _) => {
            Err(EndError::Impossible(format!("a {role} of a {workload} was opened, or one without an address")))
        }
    }
}

fn reply(mut report: EndReport, fault: Option<EndError>) -> Reply {
    if let Some(EndError::Unserved { task, .. }) = &fault {
        report.task = Some(task.clone());
    }
    match fault {
        None => Reply::Done(Box::new(report)),
        Some(EndError::Missing(reason)) => Reply::Skipped(reason),
        Some(fault) => Reply::Failed(fault.to_string(), Box::new(report)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_commands_get_the_reason() {
        let mut output = Vec::new();
        let mut peer = StdioPeer { input: &b"{\"Open\":7}\n"[..], output: &mut output };
        assert!(peer.command().is_none());
        let reply: Reply = serde_json::from_slice(&output).expect("a reply");
        assert!(matches!(&reply, Reply::Failed(reason, _) if reason.contains("cannot read a command")), "{reply:?}");
    }
}
