//! The table of factors: everything that can be varied, with its role, its levels and its help.
//!
//! A factor is declared here and applied in `traffic`; flags, TOML keys, JSON keys, validation and the
//! documentation walk this table. `choice`: the user may set it. `condition`: life imposes it; cells that
//! agree in every condition form a group, within which choices are compared.

use serde::{Deserialize, Serialize};

use crate::catalog::{ENGINES, Engine, Fill, PLACEMENTS, Placement, Transport, Work};
use crate::level::Kind;
use crate::suggest;

/// Whether the user may set a factor, or life imposes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Compared within a group; the recommendation names it.
    Choice,
    /// Defines the group.
    Condition,
}

/// What is said over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Bulk, one way.
    Stream,
    /// Request and reply.
    Call,
}

/// One thing that can be varied.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The key in JSON and TOML (`read_size`); the flag has dashes.
    pub name: &'static str,
    /// Choice or condition.
    pub role: Role,
    /// How levels are read, bounded and printed.
    pub kind: Kind,
    /// The default list of levels of a plan that does not name the factor.
    pub default: &'static str,
    /// A short column heading.
    pub heading: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// The transports it makes sense for; elsewhere it is absent.
    pub fits: fn(&Transport) -> bool,
}

impl Factor {
    /// The long flag, without its two dashes: `read-size`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// The largest buffer of one call.
pub const SIZE_MAX: u64 = 16 << 20;

const EVERYWHERE: fn(&Transport) -> bool = |_| true;
const SOCKETS: fn(&Transport) -> bool = Transport::is_socket;
const TCP: fn(&Transport) -> bool = Transport::is_tcp;
const TWO_ENDED: fn(&Transport) -> bool = Transport::two_ended;
const BUFFER: Kind = Kind::Size { min: 1, max: SIZE_MAX, auto: false };
const SOCKET_BUFFER: Kind = Kind::Size { min: 1, max: 1 << 30, auto: true };

/// Every factor, in the order in which they are printed.
pub const FACTORS: &[Factor] = &[
    Factor {
        name: "transport",
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Transport>().map(|t| t.to_string())),
        default: "unix,tcp",
        heading: "transport",
        summary: "how the ends are joined: unix, tcp, tcp6, pipe, or a source such as /dev/zero or any file",
        fits: EVERYWHERE,
    },
    Factor {
        name: "placement",
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Placement>().map(|p| p.to_string())),
        default: "cross-core",
        heading: "placement",
        summary: "where the ends run: unpinned, same-cpu, smt-sibling, cross-core, cross-node",
        fits: TWO_ENDED,
    },
    Factor {
        name: "profile",
        role: Role::Condition,
        kind: Kind::Name(|s| Ok(s.to_owned())),
        default: "drain,sum,parser",
        heading: "profile",
        summary: "named sets of conditions: drain, sum, parser, or one that the plan defines",
        fits: EVERYWHERE,
    },
    Factor {
        name: "flows",
        role: Role::Condition,
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "1",
        heading: "flows",
        summary: "parallel flows, each with threads of its own",
        fits: EVERYWHERE,
    },
    Factor {
        name: "work",
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Work>().map(|w| w.to_string())),
        default: "none",
        heading: "work",
        summary: "what the reader does per read: none, sum, copy, or nanoseconds per byte (0.5ns)",
        fits: EVERYWHERE,
    },
    Factor {
        name: "walk",
        role: Role::Condition,
        kind: Kind::Size { min: 0, max: 1 << 30, auto: false },
        default: "0",
        heading: "walk",
        summary: "bytes of private state that the reader touches per call",
        fits: EVERYWHERE,
    },
    Factor {
        name: "fill",
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Fill>().map(|w| w.to_string())),
        default: "none",
        heading: "fill",
        summary: "what the writer does per write: none, touch (every byte), or nanoseconds per byte",
        fits: TWO_ENDED,
    },
    Factor {
        name: "rate",
        role: Role::Condition,
        kind: Kind::Rate,
        default: "max",
        heading: "rate",
        summary: "offered load of all flows together, bytes per second (100M), or max",
        fits: TWO_ENDED,
    },
    Factor {
        name: "think",
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        default: "0ns",
        heading: "think",
        summary: "pause of the writer between two writes (50us)",
        fits: TWO_ENDED,
    },
    Factor {
        name: "duration",
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
        default: "auto",
        heading: "duration",
        summary: "measured time of one trial (100ms), or auto: the design chooses",
        fits: EVERYWHERE,
    },
    Factor {
        name: "engine",
        role: Role::Choice,
        kind: Kind::Name(|s| s.parse::<Engine>().and_then(Engine::for_stream).map(|e| e.to_string())),
        default: "blocking",
        heading: "engine",
        summary: "who moves bytes at both ends: blocking, null",
        fits: EVERYWHERE,
    },
    Factor {
        name: "read_size",
        role: Role::Choice,
        kind: BUFFER,
        default: "4K..1M",
        heading: "read",
        summary: "buffer of one read call, 1 B to 16 MiB",
        fits: EVERYWHERE,
    },
    Factor {
        name: "write_size",
        role: Role::Choice,
        kind: BUFFER,
        default: "16K..1M",
        heading: "write",
        summary: "buffer of one write call, 1 B to 16 MiB; absent for one-ended sources",
        fits: TWO_ENDED,
    },
    Factor {
        name: "sndbuf",
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        default: "auto",
        heading: "sndbuf",
        summary: "SO_SNDBUF as requested (the kernel doubles and clamps it), or auto",
        fits: SOCKETS,
    },
    Factor {
        name: "rcvbuf",
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        default: "auto",
        heading: "rcvbuf",
        summary: "SO_RCVBUF as requested, set before listen and connect; auto leaves autotuning on",
        fits: SOCKETS,
    },
    Factor {
        name: "rcvlowat",
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        default: "auto",
        heading: "rcvlowat",
        summary: "SO_RCVLOWAT: how many bytes a blocked reader waits for",
        fits: SOCKETS,
    },
    Factor {
        name: "nodelay",
        role: Role::Choice,
        kind: Kind::Switch,
        default: "auto",
        heading: "nodelay",
        summary: "TCP_NODELAY at the writer: on, off, auto",
        fits: TCP,
    },
    Factor {
        name: "congestion",
        role: Role::Choice,
        kind: Kind::Name(|s| Ok(s.to_owned())),
        default: "auto",
        heading: "cc",
        summary: "TCP congestion control at the writer (cubic, bbr, …), or auto",
        fits: TCP,
    },
    Factor {
        name: "pipe_size",
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        default: "auto",
        heading: "pipe",
        summary: "capacity of the pipe (F_SETPIPE_SZ), or auto",
        fits: Transport::is_pipe,
    },
];

/// The factor of that name; dashes and underscores are the same.
pub fn find(name: &str) -> Option<&'static Factor> {
    let name = name.replace('-', "_");
    FACTORS.iter().find(|factor| factor.name == name)
}

/// The tail of an error message about an unknown factor.
pub fn hint(name: &str) -> String {
    suggest::hint(&name.replace('-', "_"), FACTORS.iter().map(|f| f.name))
}

/// Names of the engines and placements, for help texts and completions.
pub fn possible_values(factor: &Factor) -> Vec<&'static str> {
    match factor.name {
        "engine" => ENGINES.iter().map(|row| row.name).collect(),
        "placement" => PLACEMENTS.iter().map(|row| row.name).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (index, factor) in FACTORS.iter().enumerate() {
            assert!(FACTORS[..index].iter().all(|f| f.name != factor.name), "{} stands twice", factor.name);
            assert!(!factor.summary.is_empty());
            factor.kind.parse_list(factor.default).unwrap_or_else(|e| panic!("{}: {e}", factor.name));
        }
    }

    #[test]
    fn profiles_set_known_conditions() {
        for profile in crate::catalog::PROFILES {
            for (name, level) in profile.sets {
                let factor = find(name).unwrap();
                assert_eq!(factor.role, Role::Condition);
                factor.kind.parse(level).unwrap();
            }
        }
    }
}
