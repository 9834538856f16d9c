//! Relays: what one socket sends is passed on to another, both ways.
//!
//! A connection that is accepted gets one to the other side, and from then on has two directions, each with an end of
//! its own: what ends in order is passed on as the end of a stream, what fails as a reset. How bytes get across is a
//! method: a file in `methods` and a line in [`carry`]. Most are told what to take and what to give (`Hands`), so that
//! they run in a thread for each direction (`threads`) as well as in one thread for all, or one a CPU (`one`); `epoll` and `uring`
//! are paired flows on the engines of that name (`flow`), as is `uring` in its other modes.
//!
//! Programs of somebody else's are looked for in `installed`, and run by an end of their own.
//!
//! Never holds more than its buffers: who is not read from is not listened to.

mod bell;
mod flow;
mod follow;
mod hall;
mod installed;
mod methods;
mod one;
mod socket;
mod threads;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytegauge_model::{EngineReport, Levels, RelayMethod, RelayPlacement, RelayProgram, RelayThreads};
use bytegauge_sys::{affinity, uring};
use serde::{Deserialize, Serialize};

pub use hall::Hall;
pub use installed::lacks_program;
pub(crate) use installed::{version, words};
pub use socket::{Upstream, listen};

use crate::engine;
use crate::fault::Fault;
use crate::meter::Meter;
use crate::plant::Plant;
use crate::relay::bell::{ByEpoll, ByUring};
use crate::relay::methods::{
    bufio, copy_buffer, faulty, hybrid, pipe, read_write, readv_writev, splice, std_copy, tokio,
};
use crate::setup::parsed;

/// Buffer of a direction where no level says: what read(2) and write(2) on loopback need for their best rate.
const BUFFER: usize = 64 << 10;

/// Who stands between the ends of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// A relay of ours.
    Ours(RelaySetup),
    /// A program of somebody else's.
    Program(RelayProgram),
}

impl Between {
    /// Resolves a cell's levels; `None` where nobody does.
    ///
    /// # Errors
    /// [`Fault::Impossible`] for a level of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Levels) -> Result<Option<Between>, Fault> {
        match levels.get("relay").name().and_then(RelayProgram::of) {
            Some(program) => Ok(Some(Between::Program(program))),
            None => Ok(RelaySetup::of(levels)?.map(Between::Ours)),
        }
    }
}

/// How a relay of ours passes bytes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaySetup {
    /// The method.
    pub method: RelayMethod,
    /// Its threads, of a method that leaves the choice.
    pub threads: RelayThreads,
    /// Bytes of the buffer of one direction, of a method that has one; absent: as many as suit it.
    pub buffer: Option<usize>,
    /// Whether its threads go where bulk data comes in.
    pub follows: bool,
    /// Capacity to ask for of each pipe, of a method that has them; absent: the system's.
    pub pipe_size: Option<usize>,
}

impl RelaySetup {
    /// A method as it is without a word about it.
    pub fn new(method: RelayMethod) -> RelaySetup {
        RelaySetup { method, threads: RelayThreads::default(), buffer: None, follows: false, pipe_size: None }
    }

    /// Bytes of the buffer of one direction.
    fn buffer(&self) -> usize {
        self.buffer.unwrap_or(BUFFER)
    }

    /// Resolves a cell's levels; `None` where there is no relay.
    ///
    /// # Errors
    /// [`Fault::Impossible`] for a level of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Levels) -> Result<Option<RelaySetup>, Fault> {
        let method = parsed::<RelayMethod>(levels, "relay")?.filter(|method| *method != RelayMethod::Direct);
        let Some(method) = method else { return Ok(None) };
        let number = |name: &str| levels.get(name).number().map(|bytes| bytes as usize);
        Ok(Some(RelaySetup {
            threads: parsed(levels, "relay_threads")?.unwrap_or_default(),
            buffer: number("relay_buffer"),
            follows: parsed(levels, "relay_placement")? == Some(RelayPlacement::Follows),
            pipe_size: number("relay_pipe"),
            ..RelaySetup::new(method)
        }))
    }
}

/// What a relay's thread looks at.
#[derive(Clone, Copy, Debug)]
pub struct Cues<'a> {
    /// Set by the watchdog: leave at once.
    pub abort: &'a AtomicBool,
    /// Set when the relay is told that nobody needs it any more.
    pub told: &'a AtomicBool,
}

/// Carries connections until the hall is over (`Hall::is_over`).
///
/// # Errors
/// [`Fault::Missing`] if this machine lacks what the method needs, [`Fault::Io`] if its own calls failed. What fails on a
/// connection is passed on, and counted.
pub fn carry(
    hall: &Arc<Hall>,
    setup: &RelaySetup,
    plant: Option<Plant>,
    cues: Cues<'_>,
    meter: &mut Meter,
) -> Result<EngineReport, Fault> {
    let carrying = Carrying { hall, setup, cues, meter };
    if let Some(plant) = plant.filter(Plant::is_of_relay) {
        return threads::carry(carrying, &move |way| faulty::copy(way, plant));
    }
    match setup.method {
        RelayMethod::Direct => Err(Fault::Impossible("there is no relay to open".into())),
        RelayMethod::ReadWrite => by_hand::<read_write::ReadWrite>(carrying),
        RelayMethod::StdCopy => threads::carry(carrying, &std_copy::copy),
        RelayMethod::CopyBuffer => threads::carry(carrying, &copy_buffer::copy),
        RelayMethod::Bufio => threads::carry(carrying, &bufio::copy),
        RelayMethod::ReadvWritev => by_hand::<readv_writev::Vectored>(carrying),
        RelayMethod::Pipe => threads::carry(carrying, &pipe::copy),
        RelayMethod::Splice => by_hand::<splice::Splice<false>>(carrying),
        RelayMethod::Sendfile => by_hand::<splice::Splice<true>>(carrying),
        RelayMethod::Hybrid => by_hand::<hybrid::Hybrid>(carrying),
        RelayMethod::UringSplice => {
            look_ahead::<splice::Splice<false>>(&carrying)?;
            one::carry::<splice::Splice<false>, ByUring>(carrying, 1)
        }
        RelayMethod::Epoll
        | RelayMethod::Uring
        | RelayMethod::UringMultishot
        | RelayMethod::UringBundle
        | RelayMethod::Zerocopy => flow::carry(carrying),
        RelayMethod::Tokio => tokio::carry(carrying),
    }
}

/// What this machine lacks for a method, if anything, with the next step: asked before a plan is made.
pub fn lacks(method: RelayMethod) -> Option<String> {
    match method {
        RelayMethod::UringSplice => uring::probe(&[]).err().map(|missing| missing.to_string()),
        _ => flow::engine_of(method).and_then(engine::lacks),
    }
}

/// What a relay's counters fail to prove of its method, if anything: a mode that was asked for but did not run fails its
/// cell.
pub fn unproven(method: RelayMethod, report: &EngineReport) -> Option<String> {
    flow::unproven(method, report)
}

/// What a method is carried with.
struct Carrying<'a, 'm> {
    hall: &'a Arc<Hall>,
    setup: &'a RelaySetup,
    cues: Cues<'a>,
    meter: &'m mut Meter,
}

/// A method whose every step is a call of its own: it runs in calls that block as in calls that do not.
///
/// One direction of a connection has one. It takes only when it holds nothing, and gives until it does.
trait Hands: Sized + Send {
    /// Prepares what a direction needs.
    ///
    /// # Errors
    /// [`Fault::Missing`] if this machine lacks it.
    fn new(setup: &RelaySetup) -> Result<Self, Fault>;

    /// Bytes asked for at most by one [`take`](Hands::take): fewer are a short one.
    fn room(&self) -> usize;

    /// Takes bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// The kernel's.
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize>;

    /// Gives bytes that it holds, all or a part.
    ///
    /// # Errors
    /// The kernel's.
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize>;

    /// Bytes taken and not given yet.
    fn held(&self) -> usize;

    /// Whether a short take proves that the socket is empty: of one that fills a buffer it does, of a pipe that counts
    /// fragments it does not.
    const SHORT_IS_EMPTY: bool;

    /// Capacity of its pipe, if it has one.
    fn pipe_size(&self) -> Option<usize> {
        None
    }
}

/// What is lacking is found before the first connection.
fn look_ahead<H: Hands>(carrying: &Carrying<'_, '_>) -> Result<(), Fault> {
    if let Some(bytes) = H::new(carrying.setup)?.pipe_size() {
        carrying.hall.has_pipes_of(bytes);
    }
    Ok(())
}

fn by_hand<H: Hands>(carrying: Carrying<'_, '_>) -> Result<EngineReport, Fault> {
    look_ahead::<H>(&carrying)?;
    match carrying.setup.threads {
        RelayThreads::Direction => threads::carry(carrying, &threads::by_hand::<H>),
        RelayThreads::One => one::carry::<H, ByEpoll>(carrying, 1),
        RelayThreads::Cpus => {
            let allowed = affinity::allowed_cpus().map_err(Fault::io("asking which CPUs the relay may use"))?;
            one::carry::<H, ByEpoll>(carrying, allowed.len())
        }
    }
}
