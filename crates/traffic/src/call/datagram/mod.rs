//! Calls over datagrams: a request is one datagram, its reply another, and either may be lost.
//!
//! Engines of connections move byte streams; here message boundaries and senders matter. So the client makes the calls of its
//! flows itself, and the server waits in a receive: on the loop of the blocking engine, or with io_uring on its own. Measurements and reports are the same: schedule,
//! record, classes of errors.

mod admission;
mod client;
mod flow;
mod responder;
mod ring;
mod server;
mod socket;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytegauge_model::{CallDatagrams, Engine, EngineReport};

use crate::call::datagram::responder::DatagramResponder;
use crate::call::party::Clients;
use crate::call::server_worker::ServerShared;
use crate::end_error::EndError;
use crate::engine::Stop;
use crate::meter::Meter;
use crate::setup::Setup;

pub use flow::DatagramFlow;
pub use socket::{bind, dropped_at};

pub(crate) use admission::{Admissions, let_in};

/// Serves requests at a bound socket until it is stopped; with a list, only those of admitted senders. Returns this thread's counts,
/// however it ended.
pub(crate) fn serve(
    setup: &Setup,
    (shared, admitted): (&Arc<ServerShared>, Option<&Arc<Admissions>>),
    fd: BorrowedFd<'_>,
    flags: (&AtomicBool, &AtomicBool),
    meter: &mut Meter,
) -> (Result<(Stop, EngineReport), EndError>, CallDatagrams) {
    let read_size = setup.read_size();
    let mut responder = DatagramResponder::new(shared, admitted);
    let served = match setup.server_engine() {
        Engine::Plain => server::serve(&mut responder, fd, (read_size, 1), flags, meter),
        Engine::Mmsg => server::serve(&mut responder, fd, (read_size, setup.call_batch()), flags, meter),
        Engine::Uring(mode) => ring::serve(mode, &mut responder, fd, (read_size, setup.outstanding()), flags, meter),
        other => Err(unfit(other)),
    };
    (served, responder.seen)
}

/// Drives a thread's clients until all of their flows are done.
pub(crate) fn carry(
    clients: &mut Clients,
    abort: &AtomicBool,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let setup = clients.setup();
    let batch = match setup.client_engine() {
        Engine::Plain => 1,
        // There are never more at once.
        Engine::Mmsg => setup.call_batch().min(setup.depth()).max(2),
        other => return Err(unfit(other)),
    };
    client::carry(clients, batch, abort, meter)
}

fn unfit(engine: Engine) -> EndError {
    EndError::Impossible(format!("engine {engine} makes no calls over datagrams: past planning, that is a bug"))
}
