//! The ends of trials: each is started when it is first needed, where its role belongs, and serves one trial after another.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytegauge_model::{EmulatedLink, EndRole, Ends, LinkUse};

use crate::address::Host;
use crate::end::channel::{Channel, ChannelError, GREETING};
use crate::end_error::EndError;
use crate::network::{ProgramNetworks, StartNetwork, TrialNetwork};
use crate::path::FarPath;
use crate::remote_host::RemoteHost;
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
