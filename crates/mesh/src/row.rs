//! The rows of a mesh: one for each trial, and one for each part of a slot that was not measured.

use bytegauge_model::{CallReport, Direction, EncodedHistogram, EndReport, EndReports, EndRole, Outcome, Trial};
use bytegauge_stats::call_times;
use bytegauge_stats::lifetimes::Lifetimes;
use serde::{Deserialize, Serialize};

use crate::Rank;
use crate::rate_model::RateSample;
use crate::schedule::{MeshSlot, SlotId};
use crate::settings::{MeshCell, MeshSettings};

/// One trial between two ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshRow {
    /// The part of the mesh that it belongs to.
    pub place: SlotPlace,
    /// The option, by its position in the settings; `None` in a row of a part that was not measured at all.
    pub option: Option<u32>,
    /// The rank that sent or called; `None` in a row of a part that was not measured at all.
    pub sender: Option<Rank>,
    /// How it ended.
    pub outcome: Outcome,
    /// The begin by the clock of rank 0, nanoseconds of Unix time; off by the time of a message between both at most.
    pub started_unix_ns: u64,
    /// Length of the measured window, nanoseconds.
    #[serde(default)]
    pub window_ns: u64,
    /// Bytes that arrived within it; of calls, bytes in both directions at the client.
    #[serde(default)]
    pub bytes: u64,
    /// Calls that were completed within it.
    #[serde(default)]
    pub calls: u64,
    /// Bytes or calls per second.
    pub rate: Option<f64>,
    /// CPU time of the sender's end in the window, nanoseconds.
    pub sender_cpu_ns: Option<u64>,
    /// CPU time of the receiver's end in the window, nanoseconds.
    pub receiver_cpu_ns: Option<u64>,
    /// Retransmitted segments of all flows, by the sender's kernel (`TCP_INFO`).
    pub retransmits: Option<u64>,
    /// The smallest round-trip time of all flows, by the sender's kernel (`TCP_INFO`), microseconds.
    pub min_rtt_us: Option<u64>,
    /// Time in which the receiver's window was the limit, all flows, microseconds (`TCP_INFO`).
    pub rwnd_limited_us: Option<u64>,
    /// Time in which the send buffer was the limit, all flows, microseconds (`TCP_INFO`).
    pub sndbuf_limited_us: Option<u64>,
    /// Datagrams of all flows that were sent and did not arrive; absent without datagrams.
    pub lost: Option<u64>,
    /// Bytes per second that streams moved in both directions together while the calls were measured.
    pub load_rate: Option<f64>,
    /// Times of the calls that ended within the window (HdrHistogram V2, base64, nanoseconds).
    pub latency: Option<String>,
    /// Ages of calls when the window began, of those that had begun before (as `latency`).
    pub entered: Option<String>,
    /// Ages of calls when the window ended, of those that had not ended (as `latency`).
    pub left: Option<String>,
}

/// The part of one client in one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPlace {
    /// The replicate, from 0. Repetitions of suspects continue the count.
    pub replicate: u32,
    /// The round.
    pub round: u32,
    /// The position of the slot in the schedule.
    pub slot: SlotId,
    /// The rank whose agent served the slot.
    pub hub: Rank,
    /// The rank that measured.
    pub client: Rank,
    /// Clients of the slot at the same time.
    pub clients: u32,
}

impl SlotPlace {
    /// The part of a client in a slot of a schedule.
    pub fn of(id: SlotId, slot: MeshSlot<'_>, client: Rank) -> SlotPlace {
        let MeshSlot { replicate, round, hub, clients } = slot;
        SlotPlace { replicate, round, slot: id, hub, client, clients: clients.len() as u32 }
    }

    /// Checks a place that came from another process or a file.
    ///
    /// # Errors
    /// The wrong value.
    pub fn check(&self, settings: &MeshSettings) -> Result<(), String> {
        let SlotPlace { hub, client, .. } = *self;
        if client >= settings.ranks || hub >= settings.parties() {
            return Err(format!("rank {} of {}", client.max(hub), settings.ranks));
        }
        if hub == client {
            return Err(format!("rank {client} with itself"));
        }
        Ok(())
    }

    /// The slot and the client, which distinguish it from all other parts.
    pub fn part(&self) -> (SlotId, Rank) {
        (self.slot, self.client)
    }
}

impl MeshRow {
    /// A row without numbers.
    pub fn without_numbers(place: SlotPlace, outcome: Outcome, started_unix_ns: u64) -> MeshRow {
        MeshRow { place, outcome, started_unix_ns, ..MeshRow::default() }
    }

    /// The rows of a trial of a cell: one, or one per direction.
    pub fn all_of(place: SlotPlace, cell: &MeshCell, trial: &Trial) -> Vec<MeshRow> {
        let row = |sender, trial: &Trial| MeshRow::of(place, cell.option, sender, trial);
        match cell.direction {
            Direction::To => vec![row(place.client, trial)],
            Direction::From => vec![row(place.hub, trial)],
            Direction::Both => vec![row(place.client, &one_way(trial, false)), row(place.hub, &one_way(trial, true))],
        }
    }

    /// The row of a trial of an option, in which `sender` sent or called.
    fn of(place: SlotPlace, option: u32, sender: Rank, trial: &Trial) -> MeshRow {
        let end = |roles: [EndRole; 2]| roles.into_iter().find_map(|role| trial.end(role));
        // In a trial of calls, a source and a sink only load the path.
        let (sending, receiving) = (end([EndRole::Client, EndRole::Source]), end([EndRole::Server, EndRole::Sink]));
        let load = trial.end(EndRole::Sink).filter(|sink| trial.client().is_some() && sink.window_ns > 0);
        let histogram = |of: fn(&CallReport) -> &Option<EncodedHistogram>| {
            of(trial.client()?).as_ref().map(|histogram| histogram.0.clone())
        };
        let tcp = || sending.into_iter().flat_map(|end| &end.flows).filter_map(|flow| flow.tcp.as_ref());
        MeshRow {
            place,
            option: Some(option),
            sender: Some(sender),
            outcome: trial.outcome.clone(),
            started_unix_ns: trial.started_unix_ns,
            window_ns: trial.wall_ns,
            bytes: trial.bytes,
            calls: trial.calls,
            rate: trial.rate(),
            sender_cpu_ns: sending.map(EndReport::cpu_time_ns),
            receiver_cpu_ns: receiving.map(EndReport::cpu_time_ns),
            retransmits: total(tcp().map(|tcp| tcp.retransmits.get())),
            min_rtt_us: tcp().filter_map(|tcp| tcp.min_rtt_us.get()).min(),
            rwnd_limited_us: total(tcp().map(|tcp| tcp.rwnd_limited_us.get())),
            sndbuf_limited_us: total(tcp().map(|tcp| tcp.sndbuf_limited_us.get())),
            lost: sending.zip(receiving).and_then(|(sender, receiver)| lost(sender, receiver)),
            load_rate: load.map(|sink| sink.bytes as f64 * 1e9 / sink.window_ns as f64),
            latency: histogram(|calls| &calls.total),
            entered: histogram(|calls| &calls.entered),
            left: histogram(|calls| &calls.left),
        }
    }

    /// Checks a row of a file: that it is of ranks and options of the mesh.
    ///
    /// # Errors
    /// The wrong value.
    pub fn check(&self, settings: &MeshSettings) -> Result<(), String> {
        self.place.check(settings)?;
        let SlotPlace { hub, client, .. } = self.place;
        if let Some(sender) = self.sender.filter(|sender| ![hub, client].contains(sender)) {
            return Err(format!("rank {sender} as the sender of a test of {hub} and {client}"));
        }
        match self.option {
            Some(option) if option as usize >= settings.options.len() => {
                Err(format!("option {option} of {}", settings.options.len()))
            }
            _ => Ok(()),
        }
    }

    /// The rank that received or served.
    pub fn receiver(&self) -> Option<Rank> {
        let sender = self.sender?;
        Some(if sender == self.place.client { self.place.hub } else { self.place.client })
    }

    /// Times of its calls; `None` if there are none.
    pub fn times(&self) -> Option<Lifetimes> {
        let durations = |encoded: &Option<String>| encoded.as_deref().and_then(call_times::durations);
        let [entered, left] = [&self.entered, &self.left].map(|encoded| durations(encoded).unwrap_or_default());
        Some(Lifetimes { ended: durations(&self.latency)?, entered, left })
    }

    /// The rate as a sample of its option; `None` if it was not measured.
    pub fn sample(&self) -> Option<RateSample> {
        let rate = self.rate.filter(|rate| *rate > 0.0 && self.outcome == Outcome::Measured)?;
        Some(RateSample { sender: self.sender?, receiver: self.receiver()?, ln_rate: rate.ln() })
    }
}

/// One direction of a trial of both: from the end that connected, or `back` to it.
fn one_way(trial: &Trial, back: bool) -> Trial {
    let way = |(role, end): (EndRole, &EndReport)| {
        let flows = end.flows.iter().filter(|flow| flow.back == back).cloned().collect();
        (role, EndReport::of_flows(flows))
    };
    let ends: EndReports = trial.ends.iter().map(way).collect();
    let bytes = ends.measuring().map_or(0, |end| end.bytes);
    Trial { bytes, ends, ..trial.clone() }
}

/// Datagrams that one end sent and the other did not get.
fn lost(sender: &EndReport, receiver: &EndReport) -> Option<u64> {
    let (sent, arrived) = (sender.datagrams.as_deref()?, receiver.datagrams.as_deref()?);
    Some(sent.total.saturating_sub(arrived.total.saturating_sub(arrived.duplicated)))
}

/// The sum of the numbers that are there; `None` if there is none.
fn total(numbers: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    numbers.flatten().fold(None, |sum: Option<u64>, number| Some(sum.unwrap_or(0).saturating_add(number)))
}
