//! An emulated link between two ends on this host: delay, loss and rate in user space, without privileges and without a module of
//! the kernel (netem is one).
//!
//! A process of its own makes two networks that only it joins (`serve`). Ends are started in them, each in its side's, and
//! never know: to them it is a path to another host. What they are told and what they answer goes past the link.

mod serve;
mod train;
mod way;

use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use bytegauge_model::{EmulatedLink, LinkUse, Side};
use bytegauge_sys::children::lead_session;
use bytegauge_sys::namespace::{self, HeldNetwork};
use bytegauge_sys::process::die_with_parent;

use crate::address::Host;
use crate::fault::Fault;

pub use serve::serve_stdio;
use serve::{Ask, Said};

/// What the process is called on the command line, behind `end`.
pub const ROLE: &str = "link";

/// Addresses at both sides, of the networks that are set aside for measuring (RFC 2544, C.2.2): nobody routes them.
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// How long the process may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why no link can be emulated here, if so: makes one and takes it down. `program` is this program's own file.
pub fn lacks(program: &Path) -> Option<String> {
    match Emulator::start(program) {
        Ok(_) => None,
        Err(Fault::Missing(reason)) => Some(reason),
        // What else goes wrong the trials tell.
        Err(_) => None,
    }
}

/// A link, and the process that is it.
#[derive(Debug)]
pub struct Emulator {
    child: Child,
    input: UnixStream,
    output: BufReader<UnixStream>,
    near: Arc<HeldNetwork>,
    far: Arc<HeldNetwork>,
}

impl Emulator {
    /// Makes a link. `program` is this program's own file, run as `PROGRAM end link`.
    ///
    /// # Errors
    /// [`Fault::Missing`] where the system allows no networks of one's own; else whatever went wrong.
    pub(crate) fn start(program: &Path) -> Result<Emulator, Fault> {
        let failed = |source| Fault::Io { doing: "starting the emulated link".into(), source };
        let (input, theirs) = UnixStream::pair().map_err(failed)?;
        input.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut output = BufReader::new(input.try_clone().map_err(failed)?);
        let mut command = Command::new(program);
        let answers = theirs.try_clone().map_err(failed)?;
        command.args(["end", ROLE]).stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(answers));
        lead_session(&mut command);
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        // With it go our copies of its side, so that its death is heard.
        drop(command);
        let made = said(&mut output).and_then(|said| match said {
            Said::Made(near, far) => {
                let held = |descriptor| HeldNetwork::held_by(child.id(), descriptor).map(Arc::new);
                Ok((held(near).map_err(failed)?, held(far).map_err(failed)?))
            }
            Said::Missing(reason) => Err(Fault::Missing(reason)),
            other => Err(out_of_turn(&other)),
        });
        match made {
            Ok((near, far)) => Ok(Emulator { child, input, output, near, far }),
            Err(fault) => {
                end(&mut child);
                Err(fault)
            }
        }
    }

    /// Is such a link from now on; whatever was on its way is gone.
    ///
    /// # Errors
    /// If the process is.
    pub(crate) fn be(&mut self, link: &EmulatedLink, seed: u64) -> Result<(), Fault> {
        match self.asked(&Ask::Be(*link, seed))? {
            Said::Is => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    /// What it has done since it became what it is.
    ///
    /// # Errors
    /// If the process is gone.
    pub(crate) fn used(&mut self) -> Result<LinkUse, Fault> {
        match self.asked(&Ask::Tell)? {
            Said::Did(used) => Ok(used),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Makes an end that `command` will start run at one side, whose addresses these are.
    pub(crate) fn place(&self, command: &mut Command, side: Side) {
        let network = match side {
            Side::Source => &self.near,
            Side::Sink => &self.far,
        };
        namespace::run_in(command, network);
    }

    /// Where an end at this side is reached.
    pub(crate) fn host(side: Side) -> Host {
        Host::at(match side {
            Side::Source => NEAR.into(),
            Side::Sink => FAR.into(),
        })
    }

    fn asked(&mut self, ask: &Ask) -> Result<Said, Fault> {
        let line = serde_json::to_string(ask).map_err(|error| broke(error.into()))?;
        self.input.write_all(format!("{line}\n").as_bytes()).map_err(broke)?;
        said(&mut self.output)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends the process, which has nothing to tidy up: its networks leave with it.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn said(output: &mut impl BufRead) -> Result<Said, Fault> {
    let mut line = String::new();
    match output.read_line(&mut line) {
        Ok(0) => Err(broke(io::ErrorKind::UnexpectedEof.into())),
        Ok(_) => serde_json::from_str(&line).map_err(|error| broke(error.into())),
        Err(error) => Err(broke(error)),
    }
}

fn broke(source: io::Error) -> Fault {
    Fault::Io { doing: "asking the emulated link".into(), source }
}

fn out_of_turn(said: &Said) -> Fault {
    Fault::Impossible(format!("the emulated link answered out of turn: {said:?}"))
}
