//! The nouns of bytegauge: factors and their levels, cells, trials, sessions, and the tables of names
//! that flags, help, plans and reports walk.
//!
//! Every other crate uses these types. Nothing here reads a clock, opens a socket or a file, or
//! draws a random number.
#![forbid(unsafe_code)]

pub mod call;
pub mod cell;
pub mod datagram;
pub mod emulated;
pub mod end;
pub mod end_report;
pub mod engine;
pub mod escape;
pub mod factor;
pub mod kernel_faults;
pub mod level;
pub mod metric;
pub mod name_tables;
pub mod named_levels;
pub mod option;
pub mod place;
pub mod profile;
pub mod relay;
pub mod relay_program;
pub mod ring;
pub mod session;
mod shell;
pub mod slo;
pub mod socket_changes;
pub mod sockets_seen;
pub mod spec;
pub mod suggest;
mod sums;
pub mod task;
pub mod trial;
pub mod unit;
pub mod value;
pub mod workload;

pub use call::{CallDatagrams, CallError, CallReport, EncodedHistogram, EngineReport, ErrorClass, ErrorPhase};
pub use cell::{Cell, CellId, CellKind, Group, GroupId, Versus, VersusSide};
pub use datagram::{DatagramReport, Deaths, UdpUse};
pub use emulated::{EmulatedLink, LINK_MTU, LinkRate, LinkUse, LossShare, WayUse};
pub use end::{ByRole, EndReports, EndRole, Side};
pub use end_report::{Bin, EffectiveOptions, EndCounts, EndReport, FlowReport, Iperf3Report, TcpReport};
pub use factor::{FACTORS, Factor, FactorKey, Role};
pub use level::Level;
pub use metric::{Counted, Metric, PrintedNumber};
pub use name_tables::{
    AfterEvent, Arrivals, Ends, Engine, EpollMode, Fill, Placement, Profile, RcvbufOn, Transport, UringKind, UringMode,
    Work,
};
pub use named_levels::{
    COMPARED_CONDITIONS, CallEnds, ComparedCondition, ConnectionAge, MessageParts, MessageWrites, ProgramRole,
    SEND_FROM, SendFrom, TLS_KINDS, Tls,
};
pub use place::{Direction, Place};
pub use relay::{RELAY_BUFFER, RelayHolds, RelayMethod, RelayPlacement, RelayReport, RelayThreads};
pub use relay_program::{RelayChoice, RelayPlaces, RelayProgram, RelayProgramReport, RunningRelay};
pub use ring::{Implementation, Mode, RingFlags, RingReport, UserData};
pub use session::{AnalysedGroup, AnalysisProgress, BlockRecord, SessionId, SessionRecord, SessionStatus, Stage};
pub use slo::{Probe, Slo};
pub use socket_changes::{
    ChangedProgram, OptionChange, ProgramChange, RunningService, ServiceCounts, SocketChanges, SysctlChange,
};
pub use sockets_seen::{OpenedSocket, Opening, OwnOption, SocketWaits, SocketsSeen};
pub use spec::Spec;
pub use sums::OptionalCount;
pub use task::{ProgramTask, ReadyWhen, ServerTask, TaskReport};
pub use trial::{MachineUse, Outcome, Trial, without_digits};
pub use unit::{Bytes, Nanos, TextError};
pub use value::TypedLevel;
pub use workload::{Cost, WORKLOADS, Workload};

/// Mixes the bits of a number: one step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014), the same on every machine and in every version.
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(MIX_STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The distance between the states of SplitMix64.
pub const MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
