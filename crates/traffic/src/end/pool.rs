//! The ends of trials: each is started when it is first needed, where its role belongs, and serves one trial after another.
//!
//! Also the places of ends that this crate does not know: another host, and a network between the ends.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytegauge_model::task::LOOPBACK;
use bytegauge_model::{EmulatedLink, EndRole, Ends, LinkUse, Side};
use bytegauge_sys::network::{HeldNetwork, NetworkTables};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::EndError;
use crate::address::Host;
use crate::end::channel::{Channel, ChannelError, GREETING};
use crate::message::{Command, Reply};
use crate::path::FarPath;
use crate::setup::Setup;

/// The ends of trials, by role: each is started when first requested, and serves one trial after another.
#[derive(Debug)]
pub struct EndPool {
    ends: Ends,
    program: PathBuf,
    links: Vec<Arc<dyn RemoteHost>>,
    /// The hosts of the current trial's ends.
    far: Option<FarPath>,
    /// Makes the network between ends for trials with an emulated link.
    start_network: Option<StartNetwork>,
    /// The network, once requested.
    network: Option<Box<dyn TrialNetwork>>,
    /// Whether the current trial uses it.
    is_emulated: bool,
    /// Number of trials that used it.
    trials: u64,
    /// By role and, for those on another host or at a side of the emulated link, the address of the agent or the side.
    channels: BTreeMap<(EndRole, Option<SocketAddr>), Channel>,
}

impl EndPool {
    /// No ends yet. `program` is this program's own file, run as `PROGRAM end ROLE` for processes.
    pub fn new(ends: Ends, program: &Path) -> EndPool {
        EndPool {
            ends,
            program: program.to_owned(),
            links: Vec::new(),
            far: None,
            start_network: None,
            network: None,
            is_emulated: false,
            trials: 0,
            channels: BTreeMap::new(),
        }
    }

    /// The same with ends on other hosts, over these links. Two links to one agent: the second one is for the streams that load
    /// the path of calls.
    pub fn with_links(self, links: Vec<Arc<dyn RemoteHost>>) -> EndPool {
        EndPool { links, ..self }
    }

    /// The same with a network for trials with an emulated link.
    pub fn with_network(self, start_network: Option<StartNetwork>) -> EndPool {
        EndPool { start_network, ..self }
    }

    /// Sets the path of the next trial: between two hosts, or on this one, with an emulated link or without, which is created
    /// when first needed. The seed determines which packets it loses.
    ///
    /// # Errors
    /// [`EndError::Missing`] if no link can be emulated, [`EndError::Impossible`] without [`with_network`](EndPool::with_network).
    pub fn joined(&mut self, far: Option<FarPath>, link: Option<EmulatedLink>, seed: u64) -> Result<(), EndError> {
        self.far = far;
        self.is_emulated = link.is_some();
        let Some(link) = link else { return Ok(()) };
        // Each trial loses other packets.
        self.trials += 1;
        let seed = seed ^ self.trials.rotate_right(16);
        self.network()?.set(&link, seed)
    }

    /// The networks of the next trial's programs: with its settings of the kernel, and with the emulated link, if it has one. `None`
    /// without both, where programs run in the network of this process.
    ///
    /// # Errors
    /// As [`joined`](EndPool::joined); [`EndError::Missing`] if the kernel refuses a setting.
    pub fn program_networks(&mut self, setup: &Setup) -> Result<Option<ProgramNetworks>, EndError> {
        let (options, are_apart) = (setup.program_options(), self.is_emulated);
        if setup.program.is_none() || (options.is_empty() && !are_apart) {
            return Ok(None);
        }
        let network = self.network()?;
        network.set_options(&options)?;
        Ok(Some(network.for_programs(are_apart)))
    }

    /// The network, made when it is first needed.
    fn network(&mut self) -> Result<&mut dyn TrialNetwork, EndError> {
        let network = match (self.network.take(), self.start_network) {
            (Some(network), _) => network,
            (None, Some(start)) => start(&self.program)?,
            (None, None) => return Err(EndError::Impossible("no network was given for an emulated link".into())),
        };
        Ok(self.network.insert(network).as_mut())
    }

    /// The emulated link's counts for the current trial; `None` if it did not use one.
    ///
    /// # Errors
    /// If the network no longer works.
    pub fn link_use(&mut self) -> Result<Option<LinkUse>, EndError> {
        self.network.as_mut().filter(|_| self.is_emulated).map(|network| network.used()).transpose()
    }

    /// The end of a role. Competing clients are always a process of their own, and so are a relay, which is charged for all
    /// that its process uses, and an end that runs a program, which waits for any child.
    ///
    /// # Errors
    /// [`ChannelError::NotStarted`] if a thread or a process cannot be made.
    pub fn end(&mut self, role: EndRole) -> Result<&mut Channel, ChannelError> {
        let agent = self.far.and_then(|far| far.agent(role));
        // Programs enter their networks by themselves.
        let network = self.network.as_deref().filter(|_| self.is_emulated && role != EndRole::Command);
        let at_link = network.map(|network| Host::at(network.address(role.side())));
        let place = (role, agent.or(at_link.map(|host| (host.v4, 0).into())));
        let link = |agent| {
            let mut links = self.links.iter().filter(|link| Some(link.agent()) == agent);
            // A session has one end: the streams that load a path of calls have a session of their own, the later one.
            let link = if matches!(role, EndRole::Source | EndRole::Sink) { links.next_back() } else { links.next() };
            link.ok_or(ChannelError::NoLine(role))
        };
        let mut channel = match self.channels.remove(&place) {
            Some(channel) => channel,
            None if agent.is_some() => {
                let link = link(agent)?;
                // The session's earlier end, of the other direction, leaves: its channel would lead nowhere.
                self.channels.retain(|_, channel| !channel.is_over(link));
                Channel::far(role, link)?.greeted(GREETING)?
            }
            // A process is in one network with all its threads.
            None if self.ends == Ends::Threads
                && network.is_none()
                && !matches!(role, EndRole::Competitor | EndRole::Relay | EndRole::Command) =>
            {
                Channel::thread(role)?.greeted(GREETING)?
            }
            None => Channel::process(role, &self.program, network)?.greeted(GREETING)?,
        };
        if let Some(far) = self.far {
            // Each end binds to its address as seen by the other host, and the other end gets it as seen from here.
            channel.host = match agent {
                Some(agent) => Host::at(agent.ip()),
                None => Host::at(link(far.faces())?.near()),
            };
        }
        if let Some(host) = at_link {
            channel.host = host;
        }
        Ok(self.channels.entry(place).or_insert(channel))
    }

    /// All started ends.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.values()
    }
}

// A network between the two ends of a trial that this crate does not know, such as an emulated link.

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
    fn place(&self, command: &mut Process, side: Side);

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

// Another host on which ends of a trial run, over a line that this crate does not know: a session at an agent.

/// Why a host cannot be used, with the next step.
pub type RemoteError = Box<dyn std::error::Error + Send + Sync>;

/// A host's description of itself.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RemoteFacts {
    /// The version of its program.
    pub program: String,
    /// Its machine, as sessions record one.
    pub machine: Value,
    /// Relay methods that it lacks, with the reason.
    pub missing_relays: BTreeMap<String, String>,
}

/// One session at the agent of another host. It runs one end at a time.
pub trait RemoteHost: Debug + Send + Sync {
    /// The agent's address.
    fn agent(&self) -> SocketAddr;

    /// The address of this host as seen by the other one; loopback without a session.
    fn near(&self) -> IpAddr;

    /// The host's description of itself when the line was established.
    fn facts(&self) -> Option<Arc<RemoteFacts>>;

    /// Whether the session runs and the agent answers in it.
    fn answers(&self) -> bool {
        self.used_ns().is_some()
    }

    /// CPU time that the session's ends there have used so far, nanoseconds; `None` if the agent does not answer.
    fn used_ns(&self) -> Option<u64>;

    /// Why an end's replies stopped.
    fn lost(&self) -> String;

    /// Closes the session and begins another one, within `patience`.
    ///
    /// # Errors
    /// No agent answers, the keys or the versions differ, or the agent is busy.
    fn reopen(&self, patience: Duration) -> Result<(), RemoteError>;

    /// Starts an end there: its number, and the channel of its replies.
    ///
    /// # Errors
    /// If the line broke and no new session can be begun.
    fn start(&self) -> Result<(u64, mpsc::Receiver<Reply>), RemoteError>;

    /// Sends a command to an end. `false` if the line is over.
    fn tell(&self, end: u64, command: Command) -> bool;

    /// Lets an end leave.
    fn finish(&self, end: u64);
}

/// Limits that this host's owner sets for trials that another host asks it to measure.
pub trait VisitLimits: Debug + Send + Sync {
    /// Checks such a trial before it is measured.
    ///
    /// # Errors
    /// The reason for a refusal.
    fn allow_visit(&self, setup: &Setup) -> Result<(), String>;
}
