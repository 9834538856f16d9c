//! The values of factors as code uses them, and the types of the rows in the table of factors.
//!
//! A level that is a name becomes a value once, when it is set. A word in place of a value (`auto`, `max`, `same`, `none`) is a text:
//! it is no value of the type, so that code reads nothing.

use std::sync::Arc;

use crate::emulated::{LinkRate, LossShare};
use crate::engine::ENGINES;
use crate::level::{Level, LevelKind};
use crate::name_tables::{
    ARRIVALS, Arrivals, Engine, Fill, PLACEMENTS, Placement, RCVBUF_ON, RcvbufOn, Row, TRANSPORTS, Transport, Work,
};
use crate::named_levels::{
    CALL_ENDS, COMPARED_CONDITIONS, CallEnds, ComparedCondition, ConnectionAge, MESSAGE_WRITES, MessageWrites,
    ProgramRole, SEND_FROM, SendFrom, TLS_KINDS, Tls,
};
use crate::place::{DIRECTIONS, Direction, Place};
use crate::profile::PROFILES;
use crate::relay::{RELAY_METHODS, RELAY_PLACEMENTS, RELAY_THREADS, RelayPlacement, RelayThreads};
use crate::relay_program::{READY_RELAYS, RelayChoice};
use crate::ring::{IMPLEMENTATIONS, Implementation, MODES, Mode, RingFlags, SETUPS, USER_DATA, UserData};
use crate::slo::Slo;
use crate::unit::TextError;

/// Names with their descriptions.
type Listed = Vec<(&'static str, &'static str)>;

/// The type of a factor's values.
pub trait FactorValue {
    /// The type that code reads: the value itself if it is small, else a reference.
    type Read<'a>;

    /// How the levels of a factor with such values are read, unless its row has another way.
    const KIND: LevelKind = LevelKind::Value;

    /// The value; `None` for a word in its place, and for a level of another kind.
    fn read(value: &TypedLevel) -> Option<Self::Read<'_>>;

    /// The value of a name; `None` where it has none.
    fn named(_: &str) -> Option<TypedLevel> {
        None
    }

    /// Every name of a table, with its description.
    fn listed() -> Listed {
        Vec::new()
    }
}

/// Makes a type with names that of a factor's values, as it is read from the level that holds it.
macro_rules! named_value {
    ($type:ident, $read:ty, |$value:ident| $reading:expr, $rows:expr) => {
        impl FactorValue for $type {
            type Read<'a> = $read;

            const KIND: LevelKind = LevelKind::Name(canonical::<$type>);

            fn read(value: &TypedLevel) -> Option<Self::Read<'_>> {
                match value {
                    TypedLevel::$type($value) => Some($reading),
                    _ => None,
                }
            }

            fn named(name: &str) -> Option<TypedLevel> {
                name.parse::<$type>().ok().map(TypedLevel::from)
            }

            fn listed() -> Listed {
                $rows
            }
        }
    };
}

/// Declares the values that have names: copied when they are read, or lent. Each type has its table, if it has one.
macro_rules! values {
    (copied { $($copied:ident: $rows:expr;)+ } lent { $($lent:ident: $lent_rows:expr;)+ }) => {
        /// The value of one factor.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "a variant has the name of its type")]
        pub enum TypedLevel {
            /// The factor does not exist here.
            Absent,
            /// A switch.
            Switch(bool),
            /// A number in base units.
            Number(u64),
            /// A word in place of a value, a name without a type, or one that this version does not know.
            Text(Arc<str>),
            $($copied($copied),)+
            $($lent(Arc<$lent>),)+
        }

        impl From<&TypedLevel> for Level {
            fn from(value: &TypedLevel) -> Level {
                match value {
                    TypedLevel::Absent => Level::Absent,
                    TypedLevel::Switch(on) => Level::Switch(*on),
                    TypedLevel::Number(number) => Level::Number(*number),
                    TypedLevel::Text(text) => Level::Name(text.to_string()),
                    $(TypedLevel::$copied(value) => Level::Name(value.to_string()),)+
                    $(TypedLevel::$lent(value) => Level::Name(value.to_string()),)+
                }
            }
        }

        $(
            impl From<$copied> for TypedLevel {
                fn from(value: $copied) -> TypedLevel {
                    TypedLevel::$copied(value)
                }
            }

            named_value!($copied, $copied, |value| *value, $rows);
        )+

        $(
            impl From<$lent> for TypedLevel {
                fn from(value: $lent) -> TypedLevel {
                    TypedLevel::$lent(Arc::new(value))
                }
            }

            named_value!($lent, &'a $lent, |value| value, $lent_rows);
        )+
    };
}

values! {
    copied {
        ProgramRole: Vec::new();
        ComparedCondition: rows(COMPARED_CONDITIONS);
        ConnectionAge: Vec::new();
        Placement: rows(PLACEMENTS);
        Tls: rows(TLS_KINDS);
        Work: Vec::new();
        Fill: Vec::new();
        LossShare: Vec::new();
        Slo: Vec::new();
        Arrivals: rows(ARRIVALS);
        Engine: ENGINES.iter().map(|row| (row.name, row.summary)).collect();
        RelayPlacement: rows(RELAY_PLACEMENTS);
        RelayThreads: rows(RELAY_THREADS);
        Direction: rows(DIRECTIONS);
        LinkRate: Vec::new();
        SendFrom: rows(SEND_FROM);
        MessageWrites: rows(MESSAGE_WRITES);
        CallEnds: rows(CALL_ENDS);
        RcvbufOn: rows(RCVBUF_ON);
        Mode: rows(MODES);
        UserData: rows(USER_DATA);
        Implementation: rows(IMPLEMENTATIONS);
        RingFlags: rows(SETUPS);
    }
    lent {
        Transport: rows(TRANSPORTS);
        Place: Vec::new();
        RelayChoice: {
            let programs = READY_RELAYS.iter().map(|ready| (ready.name, ready.summary));
            rows(RELAY_METHODS).into_iter().chain(programs).collect()
        };
    }
}

/// The names of a table with their descriptions.
pub fn rows<T>(table: &'static [Row<T>]) -> Listed {
    table.iter().map(|row| (row.name, row.summary)).collect()
}

impl From<u64> for TypedLevel {
    fn from(number: u64) -> TypedLevel {
        TypedLevel::Number(number)
    }
}

impl From<bool> for TypedLevel {
    fn from(on: bool) -> TypedLevel {
        TypedLevel::Switch(on)
    }
}

impl FactorValue for u64 {
    type Read<'a> = u64;

    fn read(value: &TypedLevel) -> Option<u64> {
        match value {
            TypedLevel::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl FactorValue for bool {
    type Read<'a> = bool;

    const KIND: LevelKind = LevelKind::Switch { auto: true };

    fn read(value: &TypedLevel) -> Option<bool> {
        match value {
            TypedLevel::Switch(on) => Some(*on),
            _ => None,
        }
    }
}

/// The type of the name of a profile.
#[derive(Debug)]
pub enum ProfileName {}

impl FactorValue for ProfileName {
    type Read<'a> = &'a str;

    fn read(value: &TypedLevel) -> Option<&str> {
        match value {
            TypedLevel::Text(name) => Some(name),
            _ => None,
        }
    }

    fn listed() -> Listed {
        PROFILES.iter().map(|profile| (profile.name, profile.summary)).collect()
    }
}

/// The type of a name that only the kernel knows, or `auto`.
#[derive(Debug)]
pub enum KernelName {}

impl FactorValue for KernelName {
    type Read<'a> = &'a str;

    fn read(value: &TypedLevel) -> Option<&str> {
        ProfileName::read(value).filter(|name| *name != "auto")
    }
}

/// The type of the values of a program, which may be sizes or words.
#[derive(Debug)]
pub enum ProgramValue {}

impl FactorValue for ProgramValue {
    type Read<'a> = Level;

    fn read(value: &TypedLevel) -> Option<Level> {
        Some(Level::from(value)).filter(|level| *level != Level::Absent)
    }
}

/// A name in the form in which it is stored.
///
/// # Errors
/// If it is none of the type.
pub(crate) fn canonical<T: FactorValue + std::str::FromStr<Err = TextError> + ToString>(
    text: &str,
) -> Result<String, TextError> {
    text.parse::<T>().map(|value| value.to_string())
}

/// The same, or a word in place of a value.
pub(crate) fn or_word<T: FactorValue + std::str::FromStr<Err = TextError> + ToString>(
    text: &str,
) -> Result<String, TextError> {
    if matches!(text, "auto" | "none") { Ok(text.into()) } else { canonical::<T>(text) }
}

#[cfg(test)]
mod tests {
    use crate::factor::FACTORS;

    #[test]
    fn names_are_unique_within_their_factor() {
        let names: Vec<_> = FACTORS.iter().map(|factor| (factor.name, (factor.listed)())).collect();
        assert!(names.iter().filter(|(_, names)| !names.is_empty()).count() >= 15);
        for (factor, names) in names {
            for (at, (name, meaning)) in names.iter().enumerate() {
                assert!(!meaning.is_empty(), "{factor} {name}");
                assert!(names[..at].iter().all(|(other, _)| other != name), "{factor}: {name} occurs twice");
            }
        }
    }
}
