//! The command loop of one end: opens paths, carries them, reports. The same loop serves a thread and a
//! process; only the channel differs.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytegauge_model::{EndReport, EndRole, Engine, Side};

use crate::address::Address;
use crate::end::client::ClientEnd;
use crate::end::command;
use crate::end::duty::{self, Ended};
use crate::end::peer::{Body, Peer};
use crate::end::relay::RelayEnd;
use crate::end::ring::RingEnd;
use crate::end::server::ServerEnd;
use crate::end::stream::StreamEnd;
use crate::end::{relay_program, relay_running};
use crate::engine;
use crate::fault::Fault;
use crate::message::{Command, Hello, Reply};
use crate::relay::Between;
use crate::setup::{Setup, Task};
use crate::spin;

/// Serves commands until told to quit or left alone.
pub fn serve(peer: &mut impl Peer, body: Body) {
    if !peer.reply(Reply::Hello(Hello::ours())) {
        return;
    }
    let mut kept = Vec::new();
    while let Some(command) = peer.command() {
        // What the last trial left open is closed before anything else is done.
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
    let mut peer = Lines { input: io::stdin().lock(), output: io::stdout().lock() };
    serve(&mut peer, Body::Process);
    peer.output.flush()
}

struct Lines<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Peer for Lines<R, W> {
    fn command(&mut self) -> Option<Command> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            // A line that is no command comes from a stranger or another version: leave.
            Ok(_) => serde_json::from_str(&line).ok(),
        }
    }

    fn reply(&mut self, reply: Reply) -> bool {
        let Ok(mut line) = serde_json::to_string(&reply) else { return false };
        line.push('\n');
        self.output.write_all(line.as_bytes()).and_then(|()| self.output.flush()).is_ok()
    }
}

/// Carries one trial from its first command to its report. `Ok(None)` when it was called off before `Go`.
fn open(
    peer: &mut impl Peer,
    role: EndRole,
    setup: Setup,
    address: Option<&Address>,
    body: Body,
) -> Result<Option<Ended>, Fault> {
    if role == EndRole::Relay {
        return match setup.path().and_then(|path| path.relay.clone()) {
            None => Err(Fault::Impossible("a relay was opened without a method".into())),
            Some(Between::Program(program)) => relay_program::carry(peer, &setup, &program, address, body),
            Some(Between::Running(relay)) => relay_running::carry(peer, &setup, &relay),
            Some(Between::Ours(relay)) => {
                let opened = RelayEnd::open(peer, setup, relay, address, body)?;
                opened.map_or(Ok(None), |end| duty::carry(peer, end))
            }
        };
    }
    // What this machine lacks the plan was told, and it may be another one's. A server that listened first would have its clients
    // call in vain.
    let is_far = setup.path().is_some_and(|path| path.far.is_some());
    if let Some(reason) = engine_of(&setup.task, role).filter(|_| is_far).and_then(engine::lacks) {
        return Err(Fault::Missing(reason));
    }
    if setup.spins() {
        // Before anything counts.
        spin::prepare();
    }
    match setup.task.clone() {
        Task::Stream(stream) => {
            let opened = StreamEnd::open(peer, role, &Arc::new(setup.with(stream)), address, body)?;
            opened.map_or(Ok(None), |end| duty::carry(peer, end))
        }
        Task::Call(call) => match (role.side(), address) {
            (Side::Sink, _) => {
                let opened = ServerEnd::open(peer, &Arc::new(setup.with(call)), body)?;
                opened.map_or(Ok(None), |end| duty::carry(peer, end))
            }
            (Side::Source, Some(address)) => {
                duty::carry(peer, ClientEnd::open(role, &Arc::new(setup.with(call)), address, body)?)
            }
            (Side::Source, None) => Err(Fault::Impossible("a client was opened without an address".into())),
        },
        Task::Ring(ring) => duty::carry(peer, RingEnd(Arc::new(setup.with(ring)))),
        Task::Check(run) => command::carry(peer, &setup.with(run), body),
    }
}

fn engine_of(task: &Task, role: EndRole) -> Option<Engine> {
    match task {
        Task::Stream(stream) => Some(stream.engine),
        Task::Call(call) if role == EndRole::Server => Some(call.server_engine),
        Task::Call(call) => Some(call.client_engine),
        Task::Ring(_) | Task::Check(_) => None,
    }
}

fn reply(report: EndReport, fault: Option<Fault>) -> Reply {
    match fault {
        None => Reply::Done(Box::new(report)),
        Some(Fault::Missing(reason)) => Reply::Skipped(reason),
        Some(fault) => Reply::Failed(fault.to_string(), Box::new(report)),
    }
}
