//! A network between the two ends of a trial that this crate does not know, such as an emulated link.

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use bytegauge_model::task::LOOPBACK;
use bytegauge_model::{EmulatedLink, LinkUse, Side};
use bytegauge_sys::interface::{HeldNetwork, NetworkTables};
use serde::{Deserialize, Serialize};

use crate::end_error::EndError;

/// A network with two sides, in which the ends of a trial are started as processes.
pub trait TrialNetwork: Debug + Send {
    /// Changes its settings for the next trial. The seed determines which packets it loses.
    ///
    /// # Errors
    /// If it no longer works.
    fn set(&mut self, link: &EmulatedLink, seed: u64) -> Result<(), EndError>;

    /// Counts since its settings were last changed.
    ///
    /// # Errors
    /// If it no longer works.
    fn used(&mut self) -> Result<LinkUse, EndError>;

    /// Changes settings of the kernel (`net/ipv4/tcp_rmem`) at both sides, and reads them back.
    ///
    /// # Errors
    /// [`EndError::Missing`] with the reason if the kernel refuses one of them.
    fn set_options(&mut self, options: &[(String, String)]) -> Result<(), EndError>;

    /// Both sides, for programs that an end starts there: at both, or all at the far one.
    fn for_programs(&self, are_apart: bool) -> ProgramNetworks;

    /// Puts the process that `command` will start into the network of one side.
    fn place(&self, command: &mut Command, side: Side);

    /// The address of an end at this side.
    fn address(&self, side: Side) -> IpAddr;
}

/// The sides of a network, in which an end starts a user's program and its server. The end itself is in neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramNetworks {
    /// The process that holds both, and is in the far one.
    pub holder: u32,
    /// The descriptor of the near one there.
    pub near: i32,
    /// The descriptor of the far one there.
    pub far: i32,
    /// The address of the far one at the link.
    pub far_address: IpAddr,
    /// Whether the link joins the program to its server. Otherwise both are in the far one, and reach each other by its loopback.
    pub are_apart: bool,
}

impl ProgramNetworks {
    /// The network of the server, or of the program.
    ///
    /// # Errors
    /// If the process has ended.
    pub(crate) fn held(&self, server: bool) -> io::Result<HeldNetwork> {
        let descriptor = if self.are_apart && !server { self.near } else { self.far };
        HeldNetwork::held_by(self.holder, descriptor)
    }

    /// The address at which the program reaches its server.
    pub(crate) fn server(&self) -> IpAddr {
        if self.are_apart { self.far_address } else { LOOPBACK }
    }

    /// The kernel's tables of the server's network.
    pub(crate) fn tables(&self) -> NetworkTables {
        NetworkTables::of_process(self.holder)
    }
}

/// Makes a network when a trial first needs it. Gets this program's own file, which a network may run as another process.
///
/// # Errors
/// [`EndError::Missing`] if this machine lacks something.
pub type StartNetwork = fn(&Path) -> Result<Box<dyn TrialNetwork>, EndError>;
