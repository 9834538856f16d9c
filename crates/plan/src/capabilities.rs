//! Capabilities of the machine, as probed by code that may open sockets and files.

use std::collections::BTreeMap;

use bytegauge_model::{Engine, Implementation, Placement, RingFlags, Transport};

/// Capabilities. An unlisted one counts as available, so that a plan can be made without a machine.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Placements that the machine does not have, and why.
    pub missing_placements: BTreeMap<String, String>,
    /// Transports that cannot be used (an unreadable file, no IPv6), and why.
    pub missing_transports: BTreeMap<String, String>,
    /// Engines that this machine's kernel or its settings do not allow, and why.
    pub missing_engines: BTreeMap<String, String>,
    /// Rings, by implementation and set-up, that this machine or this build does not have, and why.
    pub missing_rings: BTreeMap<(String, String), String>,
    /// Methods of a relay that this machine does not have, and why.
    pub missing_relays: BTreeMap<String, String>,
    /// Placements of the ends that leave a relay no CPU of its own, and why.
    pub missing_relay_cpus: BTreeMap<String, String>,
    /// Why the kernel cannot encrypt connections, if so.
    pub missing_kernel_tls: Option<String>,
    /// Why no link can be emulated, if so.
    pub missing_link: Option<String>,
    /// Congestion controls that the kernel offers; empty if unknown.
    pub congestion: Vec<String>,
    /// Those of them that this user may not set.
    pub reserved_congestion: Vec<String>,
    /// Files that the process may have open at most, after raising its soft limit.
    pub open_files_max: Option<u64>,
    /// The largest packet of the loopback interface, bytes with its IP header.
    pub loopback_mtu: Option<u64>,
    /// Memory that could be used without swapping, bytes.
    pub memory_available: Option<u64>,
}

impl Catalog {
    /// Why this placement is unavailable, if so.
    pub fn lacks_placement(&self, placement: Placement) -> Option<&str> {
        self.missing_placements.get(&placement.to_string()).map(String::as_str)
    }

    /// Why this engine is unavailable, if so.
    pub fn lacks_engine(&self, engine: Engine) -> Option<&str> {
        self.missing_engines.get(&engine.to_string()).map(String::as_str)
    }

    /// Why a ring of this implementation and set-up is unavailable, if so.
    pub fn lacks_ring(&self, implementation: Implementation, setup: RingFlags) -> Option<&str> {
        self.missing_rings.get(&(implementation.to_string(), setup.to_string())).map(String::as_str)
    }

    /// Why this transport is unavailable, if so.
    pub fn lacks_transport(&self, transport: &Transport) -> Option<&str> {
        self.missing_transports.get(&transport.to_string()).map(String::as_str)
    }
}
