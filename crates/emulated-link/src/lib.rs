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

use process::LinkCommand;
pub use process::serve_stdio;
use serde::de::DeserializeOwned;

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
    /// The near and the far network.
    networks: [Arc<HeldNetwork>; 2],
    /// Their descriptors in the process.
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
        let made = reply(&mut output).and_then(|held: [i32; 2]| {
            let network = |at: usize| HeldNetwork::held_by(child.id(), held[at]).map(Arc::new).map_err(failed);
            Ok((held, [network(0)?, network(1)?]))
        });
        let (held, networks) = made.inspect_err(|_| end(&mut child))?;
        Ok(Emulator { child, input, output, networks, held })
    }

    fn asked<T: DeserializeOwned>(&mut self, ask: &LinkCommand) -> Result<T, EndError> {
        let line = serde_json::to_string(ask).map_err(|error| broke(error.into()))?;
        self.input.write_all(format!("{line}\n").as_bytes()).map_err(broke)?;
        reply(&mut self.output)
    }
}

impl TrialNetwork for Emulator {
    /// Packets on their way are lost.
    fn set(&mut self, link: &EmulatedLink, seed: u64) -> Result<(), EndError> {
        self.asked(&LinkCommand::Be(*link, seed))
    }

    fn used(&mut self) -> Result<LinkUse, EndError> {
        self.asked(&LinkCommand::Tell)
    }

    fn set_options(&mut self, options: &[(String, String)]) -> Result<(), EndError> {
        self.asked(&LinkCommand::Settings(options.to_vec()))
    }

    fn for_programs(&self, are_apart: bool) -> ProgramNetworks {
        let [near, far] = self.held;
        ProgramNetworks { holder: self.child.id(), near, far, far_address: FAR.into(), are_apart }
    }

    fn place(&self, command: &mut Command, side: Side) {
        let [near, far] = &self.networks;
        network::run_in(command, if side == Side::Source { near } else { far });
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

/// An answer of the process: a value, or the reason why there is no link or no such setting.
fn reply<T: DeserializeOwned>(output: &mut impl BufRead) -> Result<T, EndError> {
    let mut line = String::new();
    if output.read_line(&mut line).map_err(broke)? == 0 {
        return Err(broke(io::ErrorKind::UnexpectedEof.into()));
    }
    let answer: Result<T, String> = serde_json::from_str(&line).map_err(|error| broke(error.into()))?;
    answer.map_err(EndError::Missing)
}

fn broke(source: io::Error) -> EndError {
    EndError::Io { doing: "asking the emulated link".into(), source }
}
