//! The command loop of one end: opens paths, carries them, reports. The same loop serves a thread and a
//! process; only the channel differs.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytegauge_model::catalog::EngineEnd;
use bytegauge_model::{EndReport, Engine};

use crate::end::flows::{Body, Flows};
use crate::end::{call, ring, streams};
use crate::fault::Fault;
use crate::message::{Address, Command, PathSetup, Reply, Side};
use crate::transport::source::Alone;
use crate::transport::{Joint, joint};

/// Where commands come from and replies go to.
pub trait Peer {
    /// The next command; `None` when nobody commands any more.
    fn command(&mut self) -> Option<Command>;
    /// Answers. `false` when nobody listens any more.
    fn reply(&mut self, reply: Reply) -> bool;
}

/// Serves commands until told to quit or left alone.
pub fn serve(peer: &mut impl Peer, body: Body) {
    let mut kept = Vec::new();
    while let Some(command) = peer.command() {
        kept.clear();
        match command {
            Command::Open(side, setup, address) => {
                let reply = match open(peer, &mut kept, side, &Arc::from(setup), address, body) {
                    Ok(Some(reply)) => reply,
                    Ok(None) => continue,
                    Err(fault) => failed(&fault),
                };
                if !peer.reply(reply) {
                    return;
                }
            }
            Command::OpenRing(setup) => {
                let reply = match ring::carry(peer, &Arc::from(setup)) {
                    Ok(Some((report, fault))) => reply(report, fault),
                    Ok(None) => continue,
                    Err(fault) => failed(&fault),
                };
                if !peer.reply(reply) {
                    return;
                }
            }
            Command::Go | Command::Stop => {}
            Command::Quit => return,
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

/// Carries one path from `Open` to its report. `Ok(None)` when it was called off before `Go`.
fn open(
    peer: &mut impl Peer,
    kept: &mut Vec<OwnedFd>,
    side: Side,
    setup: &Arc<PathSetup>,
    address: Option<Address>,
    body: Body,
) -> Result<Option<Reply>, Fault> {
    if let Some(call) = &setup.call {
        let call = Arc::new(call.clone());
        let ended = match (side, &address) {
            (Side::Sink, _) => call::serve(peer, setup, &call, body)?,
            (Side::Source, Some(address)) => call::call(peer, kept, setup, &call, address, body)?,
            (Side::Source, None) => return Err(no_address()),
        };
        return Ok(ended.map(|(report, fault)| reply(report, fault)));
    }
    let datagrams = setup.transport.is_datagram();
    let (engine, transport) = (setup.engine, &setup.transport);
    if !engine.carries(EngineEnd::Stream, transport) {
        return Err(Fault::Missing(format!("engine {engine} does not carry {transport}: use another --engine")));
    }
    let carries = engine != Engine::Null && !engine.has_thread_a_flow() && !datagrams;
    let joins = setup.has_two_ends() || setup.foreign().is_some();
    let joint: &dyn Joint = if joins { joint(&setup.transport) } else { lone(setup) };
    // Held until `Go`: a pipe keeps its name until the source, too, has opened it.
    let mut listening;
    let fds = match (side, address) {
        (Side::Sink, _) => {
            listening = joint.listen(setup)?;
            if !peer.reply(Reply::Listening(listening.address())) {
                return Ok(None);
            }
            listening.accept(setup)?
        }
        (Side::Source, Some(address)) => joint.connect(&address, setup)?,
        (Side::Source, None) => return Err(no_address()),
    };
    if carries {
        let ended = streams::carry(peer, side, setup, fds, body)?;
        return Ok(ended.map(|(report, fault)| reply(report, fault)));
    }
    let flows = Flows::prepare(setup, side, fds, body)?;
    if !peer.reply(Reply::Ready) {
        flows.dismiss();
        return Ok(None);
    }
    match peer.command() {
        Some(Command::Go) => {}
        _ => {
            flows.dismiss();
            return Ok(None);
        }
    }
    flows.start();
    let (report, fault) = match side {
        Side::Sink => flows.finish(setup.warmup_ns + setup.window_ns, || {
            // If nobody hears it, nobody waits for the report either.
            let _ = peer.reply(Reply::Closed);
        }),
        // Nobody says when it is enough: the writer measures.
        Side::Source if setup.foreign().is_some() => flows.finish(setup.warmup_ns + setup.window_ns, || {
            let _ = peer.reply(Reply::Closed);
        }),
        Side::Source => {
            // `Stop`, or nobody is left to say it: both end the sending.
            let _ = peer.command();
            flows.tell();
            flows.finish(0, || {})
        }
    };
    Ok(Some(reply(report, fault)))
}

/// Without a source the sink is alone: it reads a device or a file, or moves nothing at all.
fn lone(setup: &PathSetup) -> &'static dyn Joint {
    if setup.transport.two_ended() { &Alone } else { joint(&setup.transport) }
}

fn no_address() -> Fault {
    Fault::Impossible("a source was opened without an address".into())
}

fn failed(fault: &Fault) -> Reply {
    match fault {
        Fault::Missing(reason) => Reply::Skipped(reason.clone()),
        fault => Reply::Failed(fault.to_string(), Box::default()),
    }
}

fn reply(report: EndReport, fault: Option<Fault>) -> Reply {
    match fault {
        None => Reply::Done(Box::new(report)),
        Some(Fault::Missing(reason)) => Reply::Skipped(reason),
        Some(fault) => Reply::Failed(fault.to_string(), Box::new(report)),
    }
}
