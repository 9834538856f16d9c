//! A network between the two ends of a trial that this crate does not know, such as an emulated link.

use std::fmt::Debug;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use bytegauge_model::{EmulatedLink, LinkUse, Side};

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

    /// Puts the process that `command` will start into the network of one side.
    fn place(&self, command: &mut Command, side: Side);

    /// The address of an end at this side.
    fn address(&self, side: Side) -> IpAddr;
}

/// Makes a network when a trial first needs it. Gets this program's own file, which a network may run as another process.
///
/// # Errors
/// [`EndError::Missing`] if this machine lacks something.
pub type StartNetwork = fn(&Path) -> Result<Box<dyn TrialNetwork>, EndError>;
