//! One combination of factor levels, typed: it is planned, stored, sent to the ends and reported.
//!
//! Text becomes a [`Spec`] once. Code then reads fields; only parsers and importers look a factor up by its name. A spec may
//! hold the conditions of a group alone, so every field is optional. Its stored form is a map from names to levels. Each row
//! of the table of factors names the field that holds its level, by a [`Lens`].

mod derived;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::{Arrivals, Engine, FdTable, Fill, Placement, RcvbufOn, Transport, Work};
use crate::emulated::{LinkRate, LossShare};
use crate::far::Direction;
use crate::level::Level;
use crate::old_names;
use crate::place::Place;
use crate::program::{ComparedCondition, ConnectionAge, ProgramRole};
use crate::relay::{RelayPlacement, RelayThreads};
use crate::relay_choice::RelayChoice;
use crate::ring::{Implementation, Mode, RingFlags, UserData};
use crate::send_from::SendFrom;
use crate::slo::Slo;
use crate::tls::Tls;
use crate::value::{FactorValue, OrAuto, OrMax, OrNone, OrSame};
use crate::workload::Workload;

/// How one factor's level is read from a [`Spec`] and written to it.
#[derive(Clone, Copy, Debug)]
pub struct Lens {
    /// The factor's name, which is the field's.
    pub name: &'static str,
    slot: SpecSlot,
    get: fn(&Spec) -> Level,
    is_set: fn(&Spec) -> bool,
    set: fn(&mut Spec, &Level) -> bool,
    copy: fn(&Spec, &mut Spec),
}

/// The factors that a spec states, by their slots. One that has no level is stored as `null`, unlike factors that the spec
/// does not mention. Both mean the same, so two specs that differ in this alone are equal.
#[derive(Clone, Copy, Debug, Default)]
struct Stated(u128);

impl PartialEq for Stated {
    fn eq(&self, _: &Stated) -> bool {
        true
    }
}

impl Eq for Stated {}

impl Hash for Stated {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Stated {
    fn has(self, slot: SpecSlot) -> bool {
        self.0 & (1 << slot as u8) != 0
    }

    fn insert(&mut self, slot: SpecSlot) {
        self.0 |= 1 << slot as u8;
    }

    fn remove(&mut self, slot: SpecSlot) {
        self.0 &= !(1 << slot as u8);
    }
}

const _: () = assert!(LENSES.len() <= 128, "a slot is a bit of Stated");

/// Declares the fields, the slot that numbers each, the method that reads it, and the lenses. It takes only the field of an
/// option's row.
macro_rules! spec {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty $(= $row:expr)?,)+) => {
        /// The level of every factor; a factor that does not apply has none.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "BTreeMap<String, Level>", into = "BTreeMap<String, Level>")]
        pub struct Spec {
            workload: Option<Workload>,
            $($(#[doc = $doc])+ pub $name: Option<$type>,)+
            /// Levels that no field holds: of columns that only an imported table has, and of kinds that this version does not
            /// have.
            pub other: BTreeMap<String, Level>,
            stated: Stated,
        }

        static EMPTY: Spec =
            Spec { workload: None, $($name: None,)+ other: BTreeMap::new(), stated: Stated(0) };

        /// Numbers the fields in their order, which is that of the table of factors.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "a slot has the name of its field")]
        #[repr(u8)]
        pub(crate) enum SpecSlot { $($name,)+ }

        /// The lens of every field, in their order.
        pub(crate) const LENSES: &[Lens] = &[$(Lens {
            name: stringify!($name),
            slot: SpecSlot::$name,
            get: |spec| spec.$name.as_ref().map_or(Level::Absent, FactorValue::to_level),
            is_set: |spec| spec.$name.is_some(),
            set: |spec, level| {
                spec.$name = FactorValue::from_level(level);
                spec.$name.is_some()
            },
            copy: |from, to| to.$name.clone_from(&from.$name),
        },)+];

        impl Spec {
            /// No level yet, of a workload.
            pub const fn of(workload: Workload) -> Spec {
                Spec { workload: Some(workload), $($name: None,)+ other: BTreeMap::new(), stated: Stated(0) }
            }

            $($(#[doc = $doc])+ /// `None` where it is absent, and where it is the system's default.
            pub fn $name(&self) -> Option<<$type as FactorValue>::Read<'_>> {
                self.$name.as_ref().and_then(FactorValue::read)
            })+
        }

        /// The slot of a field by its name.
        fn slot_of(name: &str) -> Option<SpecSlot> {
            match name {
                $(stringify!($name) => Some(SpecSlot::$name),)+
                _ => None,
            }
        }
    };
}

with_options! { spec {
    /// How the ends are joined.
    transport: Transport,
    /// The end that the user's program controls.
    role: ProgramRole,
    /// The condition whose levels are compared.
    compare: ComparedCondition,
    /// How old a path is when it is measured.
    connection_age: ConnectionAge,
    /// Where the ends run.
    placement: Placement,
    /// The users of a measured thread's descriptor table.
    fd_table: FdTable,
    /// Encryption of connections.
    tls: Tls,
    /// The named set of conditions.
    profile: Arc<str>,
    /// Parallel flows.
    flows: u64,
    /// Bytes of a request.
    request: u64,
    /// Bytes of a response, where it has another size than the request.
    response: OrSame<u64>,
    /// Most bytes of one write of a request.
    request_chunk: OrAuto<u64>,
    /// Requests outstanding per flow.
    depth: u64,
    /// Whether every call opens a connection of its own.
    connect_per_call: bool,
    /// Whether the server takes its first read for the whole request.
    read_once: bool,
    /// Connections that the server holds and that never call.
    idle_flows: u64,
    /// The reader's work per read, the server's per request.
    work: Work,
    /// Bytes of private state that the reader touches per read, the server per request.
    working_set: u64,
    /// The writer's work per write.
    writer_work: Fill,
    /// CPU time that each end of a stream spends on its own per read or write, nanoseconds.
    call_work: u64,
    /// The share of datagrams that may be lost in a search for the highest rate.
    max_loss: OrNone<LossShare>,
    /// Offered load of all flows of a stream, bytes per second.
    rate: OrMax<u64>,
    /// The latency objective of a search for the knee.
    slo: OrNone<Slo>,
    /// Offered load of all flows, calls per second.
    call_rate: OrMax<u64>,
    /// How offered calls are spaced.
    arrivals: Arrivals,
    /// Writes of a burst, which follow each other without a pause.
    burst: OrAuto<u64>,
    /// From the begin of a burst to that of the next one, nanoseconds.
    every: u64,
    /// Pause between two writes, or two calls, nanoseconds.
    think_time: u64,
    /// How long a call may take, nanoseconds.
    timeout: u64,
    /// Flows of a second group of clients against the same server.
    competing_flows: u64,
    /// Streams in each direction that load the path of the calls.
    load_flows: u64,
    /// The engine of the client.
    client_engine: Engine,
    /// Threads of the client.
    client_threads: u64,
    /// Where the relay runs.
    relay_placement: RelayPlacement,
    /// The agent on whose host the relays run, if that is not this one.
    relay_host: OrAuto<Place>,
    /// The agent on whose host one end runs, if that is not this one.
    host: OrAuto<Place>,
    /// Direction of bytes or calls between two hosts.
    direction: Direction,
    /// The round trip that an emulated link adds, nanoseconds.
    link_delay: u64,
    /// The loss of an emulated link.
    link_loss: LossShare,
    /// The rate of an emulated link.
    link_rate: LinkRate,
    /// Measured time of one trial, nanoseconds.
    duration: OrAuto<u64>,
    /// The engine of both ends of a stream.
    engine: Engine,
    /// An external server, which is used instead of bytegauge's own.
    connect: OrAuto<Place>,
    /// The relay between the ends.
    relay: RelayChoice,
    /// The threads of a relay.
    relay_threads: RelayThreads,
    /// Bytes of the buffer of each direction of a relay.
    relay_buffer: OrAuto<u64>,
    /// Capacity of each pipe of a relay, bytes.
    relay_pipe: OrAuto<u64>,
    /// The engine of the server.
    server_engine: Engine,
    /// Threads of the server.
    server_threads: u64,
    /// Most bytes of one receive.
    read_size: u64,
    /// Bytes of one write.
    write_size: u64,
    /// Where the writer of a stream has its bytes.
    send_from: SendFrom,
    /// Datagrams of one call, or segments of one send.
    batch: OrAuto<u64>,
    /// Receives of datagrams that an io_uring keeps in flight.
    outstanding: u64,
}{
    /// The socket whose `SO_RCVBUF` is set.
    rcvbuf_on: RcvbufOn,
    /// Connections that may wait to be accepted.
    backlog: OrAuto<u64>,
    /// The task of the loop of a ring.
    mode: Mode,
    /// The data of each operation of a ring.
    user_data: UserData,
    /// Submissions that fit a ring.
    entries: u64,
    /// Operations of one submission.
    submit_batch: OrAuto<u64>,
    /// The implementation that drives a ring.
    implementation: Implementation,
    /// The set-up of a ring.
    setup: RingFlags,
    /// How long a run of a program may take, nanoseconds.
    run_timeout: u64,
    /// The value that replaces the placeholder in the words of a program.
    value: Level,
} }

/// The name under which the workload is stored next to the levels.
const WORKLOAD: &str = "workload";

impl From<BTreeMap<String, Level>> for Spec {
    fn from(by_name: BTreeMap<String, Level>) -> Spec {
        let mut spec = Spec::default();
        for (name, level) in by_name {
            match level.parsed().filter(|_| name == WORKLOAD) {
                Some(workload) => spec.workload = Some(workload),
                None => spec.set(old_names::factor(&name), level),
            }
        }
        spec
    }
}

impl<'a> FromIterator<(&'a str, Level)> for Spec {
    fn from_iter<I: IntoIterator<Item = (&'a str, Level)>>(pairs: I) -> Spec {
        Spec::from(pairs.into_iter().map(|(name, level)| (name.to_owned(), level)).collect::<BTreeMap<_, _>>())
    }
}

impl<const N: usize> From<[(&str, Level); N]> for Spec {
    fn from(pairs: [(&str, Level); N]) -> Spec {
        pairs.into_iter().collect()
    }
}

impl From<Spec> for BTreeMap<String, Level> {
    fn from(spec: Spec) -> BTreeMap<String, Level> {
        let mut map: BTreeMap<String, Level> = spec.iter().map(|(name, level)| (name.to_owned(), level)).collect();
        if let Some(workload) = spec.workload {
            map.insert(WORKLOAD.into(), Level::Name(workload.to_string()));
        }
        map
    }
}

/// In the order of the stored maps.
impl Ord for Spec {
    fn cmp(&self, other: &Spec) -> Ordering {
        let levels = |spec: &'_ Spec| -> Vec<(String, Level)> {
            let set = spec.iter().filter(|(_, level)| *level != Level::Absent);
            set.map(|(name, level)| (name.to_owned(), level)).collect()
        };
        (self.workload, levels(self)).cmp(&(other.workload, levels(other)))
    }
}

impl PartialOrd for Spec {
    fn partial_cmp(&self, other: &Spec) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Spec {
    /// The same levels, with their workload stated.
    #[must_use]
    pub fn with_workload(self, workload: Workload) -> Spec {
        Spec { workload: Some(workload), ..self }
    }

    /// The workload, where the spec states it.
    pub(crate) fn stated_workload(&self) -> Option<Workload> {
        self.workload
    }

    /// The level of a factor, by its name: for code that walks factors, parses or imports. Other code reads fields.
    pub fn get(&self, name: &str) -> Level {
        match slot_of(name) {
            Some(slot) => self.get_by(&LENSES[slot as usize]),
            None => self.other.get(name).cloned().unwrap_or(Level::Absent),
        }
    }

    /// The level of a factor by its lens; faster than by its name.
    pub fn get_by(&self, lens: &Lens) -> Level {
        match (lens.is_set)(self) {
            true => (lens.get)(self),
            false if self.other.is_empty() => Level::Absent,
            false => self.other.get(lens.name).cloned().unwrap_or(Level::Absent),
        }
    }

    /// Sets the level of a factor, by its name. A level of another kind than the factor's is kept in `other`.
    pub fn set(&mut self, name: &str, level: Level) {
        let Some(slot) = slot_of(name) else {
            self.other.insert(name.to_owned(), level);
            return;
        };
        self.set_by(&LENSES[slot as usize], level);
    }

    /// The same of a factor whose lens is known: a large plan has millions of levels.
    pub fn set_by(&mut self, lens: &Lens, level: Level) {
        self.forget(lens.slot);
        self.stated.insert(lens.slot);
        if !(lens.set)(self, &level) && level != Level::Absent {
            self.other.insert(lens.name.to_owned(), level);
        }
    }

    fn forget(&mut self, slot: SpecSlot) {
        let lens = &LENSES[slot as usize];
        (lens.copy)(&EMPTY, self);
        self.stated.remove(slot);
        if !self.other.is_empty() {
            self.other.remove(lens.name);
        }
    }

    /// Names and levels in the order of the names, factors that are stated to be absent included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Level)> {
        let mut stated: BTreeMap<&str, Level> =
            self.other.iter().map(|(name, level)| (name.as_str(), level.clone())).collect();
        for lens in LENSES {
            if (lens.is_set)(self) {
                stated.insert(lens.name, (lens.get)(self));
            } else if self.stated.has(lens.slot) {
                stated.entry(lens.name).or_insert(Level::Absent);
            }
        }
        stated.into_iter()
    }

    /// Whether it states a level of the factor, or that it is absent.
    pub fn states(&self, name: &str) -> bool {
        let slot = slot_of(name);
        slot.is_some_and(|slot| (LENSES[slot as usize].is_set)(self) || self.stated.has(slot))
            || self.other.contains_key(name)
    }

    /// Removes the statements that factors are absent: they are not stored any more.
    pub fn drop_absent(&mut self) {
        self.stated = Stated::default();
        self.other.retain(|_, level| *level != Level::Absent);
    }

    /// Removes the factors that `keep` rejects, by their names.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        for lens in LENSES.iter().filter(|lens| !keep(lens.name)) {
            self.forget(lens.slot);
        }
        self.other.retain(|name, _| keep(name));
    }

    /// Sets the levels that another spec states.
    pub fn extend(&mut self, other: &Spec) {
        for lens in LENSES {
            if other.stated.has(lens.slot) || (lens.is_set)(other) {
                (lens.copy)(other, self);
                self.stated.insert(lens.slot);
                if !self.other.is_empty() {
                    self.other.remove(lens.name);
                }
            }
        }
        self.other.extend(other.other.iter().map(|(name, level)| (name.clone(), level.clone())));
    }
}

/// The position of a factor in the table of factors, by its name.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    slot_of(name).map(|slot| slot as usize)
}

impl Lens {
    /// The factor's level.
    pub fn get(&self, spec: &Spec) -> Level {
        (self.get)(spec)
    }

    /// Whether the factor has a level.
    pub fn is_set(&self, spec: &Spec) -> bool {
        (self.is_set)(spec)
    }

    /// Sets the factor's level; `false` where the level is absent or of another kind: then the factor has none.
    pub fn set(&self, spec: &mut Spec, level: &Level) -> bool {
        (self.set)(spec, level)
    }

    /// The position of the factor in the table of factors.
    pub fn index(&self) -> usize {
        self.slot as usize
    }
}

/// The lens of a field, by the field's name.
macro_rules! lens {
    ($name:ident) => {
        crate::spec::LENSES[crate::spec::SpecSlot::$name as usize]
    };
}
pub(crate) use lens;

#[cfg(test)]
mod tests;
