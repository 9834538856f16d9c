//! The command loop of one end: opens paths, runs trials, reports. The same loop serves a thread and a process; only the channel
//! differs. Ends without another end are here too: a ring, and a user's program, which has a process of its own, whose only children are
//! the program and its descendants.

use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use bytegauge_model::{EndReport, EndRole, RelayChoice, Workload};

use crate::address::Address;
use crate::end::runner::{self, EndResult};
use crate::end::thread_group::EndPlan;
use crate::end::{calls, relay, relay_program, stream};
use crate::message::{Body, Command, Hello, Peer, Reply};
use crate::setup::Setup;
use crate::{EndError, engine, pace, program, ring};

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
        pace::prepare();
    }
    // A role belongs to its workload: an agent allows what the workload needs.
    match (setup.workload(), role, address) {
        (Workload::Stream, EndRole::Source | EndRole::Sink, _) => stream::run(peer, role, &setup, address, body),
        (Workload::Call, EndRole::Client | EndRole::Competitor, Some(address)) => {
            calls::run_client(peer, role, &setup, address, body)
        }
        (Workload::Call, EndRole::Server, _) => calls::run_server(peer, &setup, body),
        (Workload::Stream | Workload::Call, EndRole::Relay, _) => match setup.relay() {
            Some(RelayChoice::Method(_)) => relay::run(peer, &setup, address, body),
            Some(RelayChoice::Running(running)) => relay_program::run_running(peer, &setup, running),
            Some(choice @ RelayChoice::Program(name)) => match choice.program() {
                Some(program) => relay_program::run(peer, &setup, &program, address, body),
                None => Err(EndError::Impossible(format!("no relay program has the name {name}"))),
            },
            None => Err(EndError::Impossible("a relay was opened without a method".into())),
        },
        (Workload::Ring, EndRole::Ring, _) => run_ring(peer, &setup),
        (Workload::Tune, EndRole::Command, _) => run_program(peer, &setup, body),
        (workload, role, _) => {
            Err(EndError::Impossible(format!("a {role} of a {workload} was opened, or one without an address")))
        }
    }
}

fn reply(mut report: EndReport, fault: Option<EndError>) -> Reply {
    if let Some(EndError::Unserved(_, task)) = &fault {
        report.task = Some(task.clone());
    }
    match fault {
        None => Reply::Done(Box::new(report)),
        Some(EndError::Missing(reason)) => Reply::Skipped(reason),
        Some(fault) => Reply::Failed(fault.to_string(), Box::new(report)),
    }
}

/// Runs the program after `Go`. `Ok(None)` if the trial was called off.
fn run_program(peer: &mut impl Peer, setup: &Setup, body: Body) -> Result<Option<EndResult>, EndError> {
    if body != Body::Process {
        return Err(EndError::Impossible("a program is run by a process of its own".into()));
    }
    if !peer.reply(Reply::Ready) || peer.command() != Some(Command::Go) {
        return Ok(None);
    }
    // A command meanwhile, or a closed channel, means that the result is not wanted.
    let report = program::run(setup, io::stdin().as_fd())?;
    Ok(Some(EndResult { report, ..EndResult::default() }))
}

/// Runs a trial. `Ok(None)` if it was called off.
fn run_ring(peer: &mut impl Peer, setup: &Arc<Setup>) -> Result<Option<EndResult>, EndError> {
    let Setup { warmup_ns, window_ns, grace_ns, .. } = **setup;
    let what = format!("a ring of {} ({})", setup.entries(), setup.implementation());
    let cpus = vec![setup.cpu(EndRole::Ring, 0)];
    let patience_ns = warmup_ns + window_ns + grace_ns;
    let plan = EndPlan { patience_ns, ..EndPlan::of(what, EndRole::Ring.name(), cpus, "rings") };
    let results = runner::run(peer, &plan, |_, _| {
        let setup = Arc::clone(setup);
        Box::new(move |mut start| match start.begin() {
            Some(_) => ring::carry(&setup, &start.flags.abort),
            None => Default::default(),
        })
    })?;
    let Some(results) = results else { return Ok(None) };
    let (report, fault) = results.parts.into_iter().next().unwrap_or_default();
    Ok(Some(EndResult { report, fault: results.fault.or(fault), ..EndResult::default() }))
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
