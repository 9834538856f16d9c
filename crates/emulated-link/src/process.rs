//! The process of the link: it makes two networks, each with a device of its own, and carries packets from one device to the
//! other.
//!
//! One thread serves both directions, so the link carries as many packets as one thread can. A second thread would take a CPU
//! from the ends. The thread sleeps until a packet arrives or is due, and never spins.

use std::fs::File;
use std::io::{self, BufRead, StdinLock, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use bytegauge_model::{EmulatedLink, LINK_MTU, LinkUse, WayUse};
use bytegauge_sys::clock::{monotonic_ns, wake_precisely};
use bytegauge_sys::cpu_time::process_usage;
use bytegauge_sys::network::{self, PointToPoint, TAKEN_MAX, Tun, readable};
use bytegauge_sys::process;
use serde::{Deserialize, Serialize};

use crate::direction::LinkWay;
use crate::packet_train::TakenMessage;
use crate::{FAR, NEAR};

/// Packets or trains that are taken from one device before the other one is served.
const TURN: usize = 64;

/// Packets that a device holds until they are taken: those of a window of 32 MiB, the largest that kernels choose by
/// themselves. So only the queue of the link drops packets, even if this process gets no CPU for a moment.
const DEVICE_PACKETS: u32 = 32_768;

/// Settings of both networks, in addition to those of this machine for TCP. Otherwise the kernel begins a connection with the slow
/// start threshold and round trip of the last one to the same address, which belongs to another trial over another link.
const SETTINGS: [(&str, &str); 1] = [("net/ipv4/tcp_no_metrics_save", "1")];

/// A command to the process, with the type of its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LinkCommand {
    /// Become this link and discard packets on their way: `()`. The seed determines the lost packets.
    Be(EmulatedLink, u64),
    /// Report the counts since then: [`LinkUse`].
    Tell,
    /// Change these settings of both networks: `()`.
    Settings(Vec<(String, String)>),
}

/// Serves a link until standard input ends. Commands arrive there and answers go to standard output, as lines of JSON: first
/// the descriptors of the near and the far network, or the reason why there is no link.
///
/// # Errors
/// If a device or its own input fails.
pub fn serve_stdio() -> io::Result<()> {
    let (mut devices, networks) = match networks() {
        Ok([(near, near_network), (far, far_network)]) => ([near, far], [near_network, far_network]),
        Err(missing) => return send(&Err::<(), _>(missing)),
    };
    send(&Ok(networks.each_ref().map(AsRawFd::as_raw_fd)))?;
    let _ = wake_precisely();
    let mut input = io::stdin().lock();
    let mut line = String::new();
    let mut carried: Option<CarriedTraffic> = None;
    loop {
        let asked = match &mut carried {
            Some(carried) => carried.carry_until_asked(&devices, &input)?,
            None => true,
        };
        if !asked {
            continue;
        }
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match serde_json::from_str(&line)? {
            LinkCommand::Be(link, seed) => {
                empty(&devices);
                carried = Some(CarriedTraffic::new(link, seed, missed(&mut devices)?));
                send(&Ok(()))?;
            }
            LinkCommand::Tell => {
                let used = carried.as_ref().map(|carried| carried.used(&mut devices)).transpose()?;
                send(&Ok(used.unwrap_or_default()))?;
            }
            LinkCommand::Settings(settings) => {
                // The process stays in the far network, whose tables it shows.
                send(&networks.iter().try_for_each(|network| change(network, &settings)))?;
            }
        }
    }
}

/// Makes both networks, each with its device, or returns the reason why the system forbids it.
fn networks() -> Result<[(Tun, File); 2], String> {
    let refused = |error: io::Error| {
        // The user has as many as allowed; the text of this error number is about a disk.
        let why = match error.kind() {
            io::ErrorKind::StorageFull => "the user's limit is 0".to_owned(),
            _ => error.to_string(),
        };
        format!(
            "an emulated link needs a user namespace ({why}): run as root, allow them (sysctl \
             user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; for a \
             container --security-opt seccomp=unconfined), or measure a real link (--host)"
        )
    };
    // Now, while the process may have privileges.
    let _ = process::run_with_priority();
    let options = network::tcp_options();
    network::leave_for_own_network().map_err(refused)?;
    let near = network("near0", NEAR, FAR, &options)?;
    network::leave_for_another_network().map_err(refused)?;
    Ok([near, network("far0", FAR, NEAR, &options)?])
}

/// Enters a network, changes its settings, and reads each of them back.
fn change(network: &File, settings: &[(String, String)]) -> Result<(), String> {
    network::enter_network(network).map_err(|error| format!("a network cannot be entered ({error})"))?;
    for (name, value) in settings {
        let shown = name.replace('/', ".");
        let changed = network::set_network_option(name, value).and_then(|()| network::network_option(name));
        match changed {
            Ok(in_force) if in_force == *value => {}
            Ok(in_force) => return Err(format!("{shown}: the kernel takes `{in_force}` in place of `{value}`")),
            // Of the controls that are not in net.ipv4.tcp_allowed_congestion_control; an unknown one is not found.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && name.ends_with("/tcp_congestion_control") =>
            {
                return Err(format!(
                    "the kernel gives `{value}` to no network of its own: set it on the sockets, by --option congestion={value} (in \
                     ab: --a-option, --b-option)"
                ));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                return Err(format!(
                    "{shown} is unknown to this kernel, or a setting of the whole machine, which a network of its own does not have"
                ));
            }
            Err(error) => return Err(format!("{shown}: the kernel refuses `{value}` ({error})")),
        }
    }
    Ok(())
}

fn network(
    name: &'static str,
    address: Ipv4Addr,
    peer: Ipv4Addr,
    options: &[(String, String)],
) -> Result<(Tun, File), String> {
    let failed = |what: &str, error: io::Error| {
        format!(
            "an emulated link needs {what} ({error}): allow it (for a container --device /dev/net/tun), or measure a real link (--host)"
        )
    };
    let setup = PointToPoint { name, address, peer, mtu: LINK_MTU, queue_packets: DEVICE_PACKETS };
    let device = Tun::make(&setup).map_err(|error| failed("a TUN device (/dev/net/tun)", error))?;
    // Some may be read, or set for the whole machine, alone.
    for (option, value) in options {
        let _ = network::set_network_option(option, value);
    }
    for (setting, value) in SETTINGS {
        network::set_network_option(setting, value)
            .map_err(|error| failed(&format!("/proc/sys/{setting} to be writable"), error))?;
    }
    let network = network::own_network().map_err(|error| failed("/proc", error))?;
    Ok((device, network))
}

fn send<T: Serialize>(answer: &Result<T, String>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(answer)?)?;
    output.flush()
}

/// Discards packets that wait in the devices: they belong to earlier connections.
fn empty(devices: &[Tun; 2]) {
    let mut packet = vec![0; TAKEN_MAX];
    for device in devices {
        while device.take(&mut packet).is_ok() {}
    }
}

/// Packets that the kernel dropped at the near and at the far device since these were made.
fn missed([near, far]: &mut [Tun; 2]) -> io::Result<[u64; 2]> {
    Ok([near.dropped()?, far.dropped()?])
}

/// The traffic of one setting.
struct CarriedTraffic {
    /// From the near device to the far one, and back.
    lanes: [Lane; 2],
    /// Packets that the kernel had dropped before.
    missed: [u64; 2],
    /// CPU time that this process had used before, nanoseconds.
    cpu_ns: u64,
}

impl CarriedTraffic {
    fn new(link: EmulatedLink, seed: u64, missed: [u64; 2]) -> CarriedTraffic {
        let lanes = [seed, !seed].map(|seed| Lane::new(link, seed));
        CarriedTraffic { lanes, missed, cpu_ns: process_usage().total_ns }
    }

    /// Carries packets until a command arrives. `false` after a signal.
    fn carry_until_asked(&mut self, devices: &[Tun; 2], input: &StdinLock<'_>) -> io::Result<bool> {
        let fds = [devices[0].as_fd(), devices[1].as_fd(), input.as_fd()];
        loop {
            let next_ns = self.lanes.iter().filter_map(|lane| lane.way.next_ns()).min();
            let wait_ns = next_ns.map(|ns| ns.saturating_sub(monotonic_ns()));
            // First, to know that nothing waits before it sleeps.
            let looked = readable(fds, Some(0)).and_then(|now| match now {
                [false, false, false] if wait_ns != Some(0) => Ok((readable(fds, wait_ns)?, true)),
                some => Ok((some, false)),
            });
            let ([filled @ .., asked], has_slept) = match looked {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
                looked => looked?,
            };
            let now_ns = monotonic_ns();
            // Due packets first: taking new packets must not delay them.
            for ((lane, is_filled), target) in self.lanes.iter_mut().zip(filled).zip(devices.iter().rev()) {
                // Packets that arrived during the sleep ended it.
                if has_slept || !is_filled {
                    lane.empty_ns = now_ns;
                }
                lane.deliver(target);
            }
            for ((lane, is_filled), device) in self.lanes.iter_mut().zip(filled).zip(devices) {
                if is_filled {
                    lane.accept(device)?;
                }
            }
            if asked {
                return Ok(true);
            }
        }
    }

    fn used(&self, devices: &mut [Tun; 2]) -> io::Result<LinkUse> {
        let missed = missed(devices)?;
        let used =
            |at: usize| WayUse { missed: missed[at].saturating_sub(self.missed[at]), ..self.lanes[at].way.used() };
        let cpu_ns = process_usage().total_ns.saturating_sub(self.cpu_ns);
        Ok(LinkUse { there: used(0), back: used(1), cpu_ns })
    }
}

/// One direction and the device of its packets.
struct Lane {
    way: LinkWay<Vec<u8>>,
    /// The last moment when nothing waited in that device. A packet taken now arrived after it.
    empty_ns: u64,
    taken: Vec<u8>,
}

impl Lane {
    fn new(link: EmulatedLink, seed: u64) -> Lane {
        Lane { way: LinkWay::new(link, seed), empty_ns: monotonic_ns(), taken: vec![0; TAKEN_MAX] }
    }

    /// Takes packets from a device.
    fn accept(&mut self, device: &Tun) -> io::Result<()> {
        for _ in 0..TURN {
            match device.take(&mut self.taken) {
                Ok(length) => {
                    let now_ns = monotonic_ns();
                    self.way.offer(now_ns, now_ns - self.empty_ns, &TakenMessage::of(&self.taken[..length])?);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.empty_ns = monotonic_ns();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives arrived packets to a device. A packet counts as arrived even if its network refuses it, for example one of a closed
    /// connection.
    fn deliver(&mut self, device: &Tun) {
        for _ in 0..TURN {
            let Some(piece) = self.way.arrived(monotonic_ns()) else { break };
            let _ = device.give(&piece);
        }
    }
}
