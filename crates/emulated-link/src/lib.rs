//! An emulated link between two processes on this host: delay, loss and rate in user space, without privileges and without a
//! module of the kernel such as netem.
//!
//! A process of its own makes two networks that only it joins (`serve`). Each end is started in the network of its side, for
//! which the link is a path to another host. Commands to an end and its replies do not cross the link.

#![forbid(unsafe_code)]

mod direction;
mod packet_train;
mod process;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use bytegauge_model::{EmulatedLink, LinkUse, Side};
use bytegauge_sys::children::lead_session;
use bytegauge_sys::network::{self, HeldNetwork};
use bytegauge_sys::process::die_with_parent;
use bytegauge_traffic::{EndError, ProgramNetworks, TrialNetwork};

pub use process::serve_stdio;
use process::{LinkCommand, LinkReply};

/// The name of the process on the command line, after `end`.
pub const ROLE: &str = "link";

/// Addresses of both sides, from the networks that are reserved for measurements (RFC 2544, C.2.2): no router forwards them.
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// How long the process may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// The reason why no link can be emulated here, if there is one: makes a link and removes it. `program` is this program's own
/// file.
pub fn missing_requirement(program: &Path) -> Option<String> {
    match Emulator::start(program) {
        Ok(_) => None,
        Err(EndError::Missing(reason)) => Some(reason),
        // Trials report all other errors.
        Err(_) => None,
    }
}

/// Starts a link for trials ([`bytegauge_traffic::StartNetwork`]).
///
/// # Errors
/// As [`Emulator::start`].
pub fn start_network(program: &Path) -> Result<Box<dyn TrialNetwork>, EndError> {
    Ok(Box::new(Emulator::start(program)?))
}

/// A link and its process.
#[derive(Debug)]
pub struct Emulator {
    child: Child,
    input: UnixStream,
    output: BufReader<UnixStream>,
    near: Arc<HeldNetwork>,
    far: Arc<HeldNetwork>,
    /// The descriptors of the near and the far network in the process.
    held: [i32; 2],
}

impl Emulator {
    /// Starts a link. `program` is this program's own file, run as `PROGRAM end link`.
    ///
    /// # Errors
    /// [`EndError::Missing`] where the system allows no networks of one's own.
    pub fn start(program: &Path) -> Result<Emulator, EndError> {
        let failed = |source| EndError::Io { doing: "starting the emulated link".into(), source };
        let (input, theirs) = UnixStream::pair().map_err(failed)?;
        input.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut output = BufReader::new(input.try_clone().map_err(failed)?);
        let mut command = Command::new(program);
        let answers = theirs.try_clone().map_err(failed)?;
        command.args(["end", ROLE]).stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(answers));
        lead_session(&mut command);
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        // This closes our copies of its side, so that we notice its death.
        drop(command);
        let made = reply(&mut output).and_then(|reply| match reply {
            LinkReply::Made(near, far) => {
                let held = |descriptor| HeldNetwork::held_by(child.id(), descriptor).map(Arc::new);
                Ok(([near, far], held(near).map_err(failed)?, held(far).map_err(failed)?))
            }
            LinkReply::Missing(reason) => Err(EndError::Missing(reason)),
            other => Err(out_of_turn(&other)),
        });
        match made {
            Ok((held, near, far)) => Ok(Emulator { child, input, output, near, far, held }),
            Err(fault) => {
                end(&mut child);
                Err(fault)
            }
        }
    }

    fn asked(&mut self, ask: &LinkCommand) -> Result<LinkReply, EndError> {
        let line = serde_json::to_string(ask).map_err(|error| broke(error.into()))?;
        self.input.write_all(format!("{line}\n").as_bytes()).map_err(broke)?;
        reply(&mut self.output)
    }
}

impl TrialNetwork for Emulator {
    /// Packets on their way are lost.
    fn set(&mut self, link: &EmulatedLink, seed: u64) -> Result<(), EndError> {
        match self.asked(&LinkCommand::Be(*link, seed))? {
            LinkReply::Is => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    fn used(&mut self) -> Result<LinkUse, EndError> {
        match self.asked(&LinkCommand::Tell)? {
            LinkReply::Did(used) => Ok(used),
            other => Err(out_of_turn(&other)),
        }
    }

    fn set_options(&mut self, options: &[(String, String)]) -> Result<(), EndError> {
        match self.asked(&LinkCommand::Settings(options.to_vec()))? {
            LinkReply::Is => Ok(()),
            LinkReply::Refused(reason) => Err(EndError::Missing(reason)),
            other => Err(out_of_turn(&other)),
        }
    }

    fn for_programs(&self, are_apart: bool) -> ProgramNetworks {
        let [near, far] = self.held;
        ProgramNetworks { holder: self.child.id(), near, far, far_address: FAR.into(), are_apart }
    }

    fn place(&self, command: &mut Command, side: Side) {
        let network = match side {
            Side::Source => &self.near,
            Side::Sink => &self.far,
        };
        network::run_in(command, network);
    }

    fn address(&self, side: Side) -> IpAddr {
        match side {
            Side::Source => NEAR.into(),
            Side::Sink => FAR.into(),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends the process. Its networks disappear with it.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn reply(output: &mut impl BufRead) -> Result<LinkReply, EndError> {
    let mut line = String::new();
    match output.read_line(&mut line) {
        Ok(0) => Err(broke(io::ErrorKind::UnexpectedEof.into())),
        Ok(_) => serde_json::from_str(&line).map_err(|error| broke(error.into())),
        Err(error) => Err(broke(error)),
    }
}

fn broke(source: io::Error) -> EndError {
    EndError::Io { doing: "asking the emulated link".into(), source }
}

fn out_of_turn(reply: &LinkReply) -> EndError {
    EndError::Impossible(format!("the emulated link answered out of turn: {reply:?}"))
}
