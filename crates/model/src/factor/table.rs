//! The table itself: declares the keys, the rows and the methods that read values, from the lists of rows.

use std::sync::LazyLock;

use crate::emulated::{LinkRate, LossShare};
use crate::end::EndRole;
use crate::factor::row::*;
use crate::level::{Level, LevelKind};
use crate::name_tables::{Abilities, Arrivals, Batches, Engine, EngineEnd, Fill, Placement, RcvbufOn, Transport, Work};
use crate::named_levels::{CallEnds, ComparedCondition, ConnectionAge, MessageWrites, ProgramRole, SendFrom, Tls};
use crate::option::{BeyondLoopback, OptionLayer, OptionRow, Sites, Switching, ValueForm, Variant, When};
use crate::place::{Direction, Place};
use crate::relay::{RelayMethod, RelayPlacement, RelayThreads};
use crate::relay_program::{RelayChoice, relay_name};
use crate::ring::{ENTRIES_MAX, Implementation, Mode, RingFlags, UserData};
use crate::slo::Slo;
use crate::spec::Spec;
use crate::unit::TextError;
use crate::value::{FactorValue, KernelName, ProfileName, ProgramValue, or_word};

/// Declares everything that follows from the rows. The lists come in the order in which factors are printed.
macro_rules! declare {
    ($({$(
        $(#[doc = $doc:literal])+ $name:ident: $type:ty = $base:ident { $($field:tt)* }
        $(sets $option:ident($($of_option:literal),+) { $($option_field:tt)* })?,
    )+})+) => {
        /// The factors, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(non_camel_case_types, reason = "a key has the name of its factor")]
        #[repr(u8)]
        pub enum FactorKey { $($($(#[doc = $doc])+ $name,)+)+ }

        impl FactorKey {
            /// The factor of a name in stored data.
            pub fn named(name: &str) -> Option<FactorKey> {
                match name {
                    $($(stringify!($name) => Some(FactorKey::$name),)+)+
                    _ => None,
                }
            }
        }

        /// Every factor, in the order in which they are printed.
        pub const FACTORS: &[Factor] = &[$($({
            const ROW: Factor = Factor {
                $($field)*
                $(option: Some(OptionRow { $($option_field)* ..$option($($of_option),+) }),)?
                ..$base
            };
            Factor {
                name: stringify!($name),
                key: FactorKey::$name,
                typed: <$type as FactorValue>::named,
                listed: <$type as FactorValue>::listed,
                kind: match ROW.kind {
                    LevelKind::Value => <$type as FactorValue>::KIND,
                    kind => kind,
                },
                heading: heading(ROW.heading, const { &spaced::<{ stringify!($name).len() }>(stringify!($name)) }),
                ..ROW
            }
        },)+)+];

        impl Spec {
            $($($(#[doc = $doc])+ /// `None` where it is absent, and where it is the system's default.
            pub fn $name(&self) -> Option<<$type as FactorValue>::Read<'_>> {
                self.read::<$type>(FactorKey::$name)
            })+)+
        }
    };
}

with_load_rows! { with_engine_and_size_rows with_option_rows with_ring_rows declare }

/// Every option of the kernel that a factor sets, in the order of the table.
pub static OPTIONS: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let row =
        |&Factor { name, kind, fits, option, .. }: &Factor| Some(OptionRow { factor: name, kind, fits, ..option? });
    FACTORS.iter().filter_map(row).collect()
});

const NO_SLO: &str = "--slo none (a search sets the rates itself): leave one of them out";
const NO_MAX_LOSS: &str = "--max-loss none (a search sets the rates itself): leave one of them out";
const NO_SEARCH: &str = "--slo none and --max-loss none (a search sets the rates itself): leave one of them out";
const BATCHES: &str = "--engine mmsg or gso (in call: --server-engine mmsg)";
const OUTSTANDING: &str =
    "--engine uring:plain or uring:multishot (in call: --server-engine uring:plain or uring:multishot)";

/// A search finds its rates itself.
fn without_search(spec: &Spec) -> bool {
    !spec.searches_rate()
}

/// Whether the number of threads differs from the number of flows.
fn shares_threads(engine: Option<Engine>) -> bool {
    !engine.is_some_and(Engine::has_thread_a_flow)
}

/// Whether the engine of a stream, or of the server of a call, has an ability.
fn reader_can(spec: &Spec, can: fn(&Abilities) -> bool) -> bool {
    [spec.engine(), spec.server_engine()].into_iter().flatten().any(|engine| can(engine.can()))
}

/// Whether bytegauge's own relay has a property.
fn relays(spec: &Spec, holds: fn(RelayMethod) -> bool) -> bool {
    spec.relay_or_direct().is_some_and(holds)
}

fn calling_engine(name: &str) -> Result<String, TextError> {
    name.parse::<Engine>().and_then(Engine::for_call).map(|engine| engine.to_string())
}

/// `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF` (include/net/sock.h): room for a small packet and the kernel's structures for it.
const LEAST_BUFFER: &str = "that is the minimum of the kernel: use at least that";

/// The kernel's timers have a resolution of one tick (`CONFIG_HZ`).
const TICKS: &str = "the kernel rounds up to whole ticks of its timer, of 1 to 10 ms";

/// Options of a socket's first moments.
const AT_THE_START: Switching = Switching::Never("it takes effect when a socket begins to listen or connects");

/// Options that hold data back.
const BLOCKS: Switching = Switching::Never("it changes when the program gets or sends data, which can block it");

/// Options that do nothing by themselves.
const IN_ITS_CALLS: Switching = Switching::Never("the program has to use it in its own calls");

/// The ends whose `TCP_NODELAY` is set.
fn nodelay_sites(spec: &Spec) -> Sites {
    let ends: &[EndRole] = match spec.nodelay_at() {
        Some(CallEnds::Client) => &[EndRole::Client],
        Some(CallEnds::Server) => &[EndRole::Server],
        _ => WRITERS,
    };
    (ends, When::Early)
}

/// Whether the engine of the server makes a system call for each receive and each send.
fn serves_by_system_calls(spec: &Spec) -> bool {
    matches!(spec.server_engine(), Some(Engine::Blocking | Engine::Epoll(_)))
}

/// A buffer of a fixed size on a network.
const FIXED_BUFFER: Option<BeyondLoopback> = beyond_loopback(
    |level| level.number().is_some(),
    "a fixed size ends autotuning and caps the rate at its size per round trip",
);

/// What an option does on a network, if it has one of some levels.
const fn beyond_loopback(concerns: fn(&Level) -> bool, sentence: &'static str) -> Option<BeyondLoopback> {
    Some(BeyondLoopback { concerns, sentence })
}

fn is_set(level: &Level) -> bool {
    *level != Level::Absent
}

/// Units of the kernel, where levels are nanoseconds, or seconds.
const MICROSECONDS: (u64, &str) = (1_000, "us");
const MILLISECONDS: (u64, &str) = (1_000_000, "ms");
const SECONDS: (u64, &str) = (1, "s");

/// Whether an option is off, or left to the kernel.
fn is_not_on(level: &Level) -> bool {
    !matches!(level, Level::Switch(true) | Level::Absent)
}

/// Busy polling needs a queue with NAPI.
const NO_QUEUE: &str = "loopback has no device queue to poll";

/// A reason that applies over loopback.
fn over_loopback(spec: &Spec, why: &'static str) -> Option<&'static str> {
    spec.is_over_loopback().then_some(why)
}

/// Over loopback, nothing is sent again.
fn without_loss(spec: &Spec) -> Option<&'static str> {
    over_loopback(spec, "loopback loses no packet, so no timer expires")
}

/// Connections are made before the measured window.
fn once_per_flow(spec: &Spec) -> Option<&'static str> {
    (spec.connect_per_call() != Some(true)).then_some("connections are made once: use --connect-per-call")
}

/// A variant over IPv6.
fn ipv6(_: EndRole, transport: &Transport, variant: Variant) -> Option<Variant> {
    matches!(transport, Transport::Tcp6 | Transport::Udp6).then_some(variant)
}

/// Where the receive buffer is set decides whether it binds: the window scale is fixed in the handshake (tcp(7)).
fn rcvbuf_sites(spec: &Spec) -> Sites {
    match spec.rcvbuf_on() {
        // bytegauge has no other socket then.
        _ if spec.connect().is_some() && !spec.iperf3_writes() => (&[EndRole::Client], When::Early),
        Some(RcvbufOn::Client) => (&[EndRole::Client], When::Early),
        Some(RcvbufOn::Accepted) => (&[EndRole::Server], When::Accepted),
        _ => (&[EndRole::Sink, EndRole::Server], When::Early),
    }
}
