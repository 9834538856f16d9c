//! The nouns of bytegauge: factors and their levels, cells, trials, sessions, and the tables of names
//! that flags, help, plans and reports walk.
//!
//! Every other crate uses these types. Nothing here reads a clock, opens a socket or a file, or
//! draws a random number.
#![forbid(unsafe_code)]

mod optional_count;

pub mod bounded;
pub mod by_role;
pub mod call;
pub mod catalog;
pub mod cell;
pub mod datagram;
pub mod emulated;
pub mod end;
mod end_report;
pub mod engine;
pub mod escape;
pub mod factor;
pub mod far;
pub mod footprint;
pub mod forecast;
pub mod iperf3;
pub mod kernel_faults;
pub mod level;
pub mod message_parts;
pub mod old_names;
pub mod option;
pub mod place;
pub mod profile;
pub mod program;
mod rate;
pub mod relay;
pub mod relay_choice;
pub mod relay_program;
pub mod ring;
pub mod running_relay;
pub mod running_service;
pub mod send_from;
mod series;
pub mod session;
mod shell;
pub mod slo;
pub mod socket_changes;
pub mod sockets_seen;
pub mod spec;
pub mod suggest;
mod sums;
pub mod task;
pub mod threads;
pub mod tls;
pub mod trial;
pub mod unit;
pub mod value;
pub mod versus;
pub mod wait_causes;
pub mod workload;

pub use by_role::{ByRole, EndReports};
pub use call::{CallDatagrams, CallError, CallReport, EncodedHistogram, EngineReport, ErrorClass, ErrorPhase};
pub use catalog::{
    AfterEvent, Arrivals, Ends, Engine, EpollMode, Fill, Placement, Profile, RcvbufOn, Transport, UringKind, UringMode,
    Work,
};
pub use cell::{Cell, CellId, CellKind, Group, GroupId};
pub use datagram::{DatagramReport, Deaths, UdpUse};
pub use emulated::{EmulatedLink, LINK_MTU, LinkRate, LinkUse, LossShare, WayUse};
pub use end::{EndRole, Side};
pub use end_report::{Bin, EffectiveOptions, EndCounts, EndReport, FlowReport, TcpReport};
pub use factor::{FACTORS, Factor, FactorKey, Role};
pub use far::Direction;
pub use iperf3::Iperf3Report;
pub use level::{Level, LevelError};
pub use message_parts::{CallEnds, MessageWrites};
pub use optional_count::OptionalCount;
pub use place::Place;
pub use program::{COMPARED_CONDITIONS, ComparedCondition, ConnectionAge, ProgramRole};
pub use relay::{RELAY_BUFFER, RelayHolds, RelayMethod, RelayPlacement, RelayReport, RelayThreads};
pub use relay_choice::RelayChoice;
pub use relay_program::{RelayPlaces, RelayProgram, RelayProgramReport};
pub use ring::{Implementation, Mode, RingFlags, RingReport, UserData};
pub use running_relay::RunningRelay;
pub use running_service::{RunningService, ServiceCounts};
pub use send_from::{SEND_FROM, SendFrom};
pub use session::{AnalysedGroup, AnalysisProgress, BlockRecord, SessionId, SessionRecord, SessionStatus, Stage};
pub use slo::{Probe, Slo};
pub use socket_changes::{ChangedProgram, OptionChange, ProgramChange, SocketChanges, SysctlChange};
pub use sockets_seen::{OpenedSocket, Opening, OwnOption, SocketsSeen};
pub use spec::Spec;
pub use task::{Counted, Metric, PrintedNumber, ProgramTask, ReadyWhen, ServerTask, TaskReport};
pub use tls::{TLS_KINDS, Tls};
pub use trial::{MachineUse, Outcome, Trial, TrialTime, without_digits};
pub use unit::{Bytes, Nanos};
pub use value::TypedLevel;
pub use versus::{Versus, VersusSide};
pub use wait_causes::SocketWaits;
pub use workload::{WORKLOADS, Workload};
