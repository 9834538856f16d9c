//! The types of levels: how a value of a factor becomes the [`Level`] that is printed and stored, and back.
//!
//! A factor with a default of the system has a word for it (`auto`, `max`, `same`, `none`). That word is a
//! variant here, so that no code compares texts.

use std::sync::Arc;

use crate::catalog::{Arrivals, Engine, FdTable, Fill, Placement, RcvbufOn, Transport, Work};
use crate::emulated::{LinkRate, LossShare};
use crate::far::Direction;
use crate::level::Level;
use crate::place::Place;
use crate::program::{ComparedCondition, ConnectionAge, ProgramRole};
use crate::relay::{RelayPlacement, RelayThreads};
use crate::relay_choice::RelayChoice;
use crate::ring::{Implementation, Mode, RingFlags, UserData};
use crate::send_from::SendFrom;
use crate::slo::Slo;
use crate::tls::Tls;

/// A value of a factor.
pub trait FactorValue: Sized {
    /// The type that code reads: the value itself if it is small, else a reference.
    type Read<'a>
    where
        Self: 'a;

    /// The value; `None` for the system's default.
    fn read(&self) -> Option<Self::Read<'_>>;

    /// The level as it is printed and stored.
    fn to_level(&self) -> Level;

    /// The value of a level; `None` for a level of another kind.
    fn from_level(level: &Level) -> Option<Self>;
}

/// Declares a value or one word in its place.
macro_rules! or_word {
    ($(#[doc = $doc:literal] $type:ident, $variant:ident, $word:literal;)+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type<T> {
            #[doc = concat!("The word `", $word, "`.")]
            $variant,
            /// A value.
            Is(T),
        }

        impl<T: FactorValue> FactorValue for $type<T> {
            type Read<'a> = T::Read<'a> where T: 'a;

            fn read(&self) -> Option<T::Read<'_>> {
                match self {
                    $type::$variant => None,
                    $type::Is(value) => value.read(),
                }
            }

            fn to_level(&self) -> Level {
                match self {
                    $type::$variant => Level::Name($word.into()),
                    $type::Is(value) => value.to_level(),
                }
            }

            fn from_level(level: &Level) -> Option<$type<T>> {
                match level.name() {
                    Some($word) => Some($type::$variant),
                    _ => T::from_level(level).map($type::Is),
                }
            }
        }
    )+};
}

or_word! {
    /// A value, or the system's default.
    OrAuto, Auto, "auto";
    /// An offered load, or the maximum.
    OrMax, Max, "max";
    /// A size, or the same size as that of the request.
    OrSame, Same, "same";
    /// An objective, or none.
    OrNone, None, "none";
}

/// Values that are copied when they are read, each with its level.
macro_rules! copied {
    ($($type:ty: $variant:ident;)+) => {$(
        impl FactorValue for $type {
            type Read<'a> = $type;

            fn read(&self) -> Option<$type> {
                Some(*self)
            }

            fn to_level(&self) -> Level {
                Level::$variant(*self)
            }

            fn from_level(level: &Level) -> Option<$type> {
                match level {
                    Level::$variant(value) => Some(*value),
                    _ => None,
                }
            }
        }
    )+};
}

copied! {
    u64: Number;
    bool: Switch;
}

/// Values that have a name.
macro_rules! named {
    ($($type:ty),+) => {$(
        impl FactorValue for $type {
            type Read<'a> = $type;

            fn read(&self) -> Option<$type> {
                Some(*self)
            }

            fn to_level(&self) -> Level {
                Level::Name(self.to_string())
            }

            fn from_level(level: &Level) -> Option<$type> {
                level.parsed()
            }
        }
    )+};
}

named!(
    ProgramRole,
    ComparedCondition,
    ConnectionAge,
    Placement,
    Work,
    Fill,
    Slo,
    Arrivals,
    Engine,
    RelayPlacement,
    RelayThreads,
    Direction
);
named!(FdTable, LossShare, LinkRate, RcvbufOn, Mode, UserData, Implementation, RingFlags, SendFrom, Tls);

/// Values that have a name and are too large to copy.
macro_rules! named_by_reference {
    ($($type:ty),+) => {$(
        impl FactorValue for $type {
            type Read<'a> = &'a $type;

            fn read(&self) -> Option<&$type> {
                Some(self)
            }

            fn to_level(&self) -> Level {
                Level::Name(self.to_string())
            }

            fn from_level(level: &Level) -> Option<$type> {
                level.parsed()
            }
        }
    )+};
}

named_by_reference!(Transport, Place, RelayChoice);

/// A name of the user's, or of the kernel's.
impl FactorValue for Arc<str> {
    type Read<'a> = &'a str;

    fn read(&self) -> Option<&str> {
        Some(self)
    }

    fn to_level(&self) -> Level {
        Level::Name(self.to_string())
    }

    fn from_level(level: &Level) -> Option<Arc<str>> {
        level.name().map(Arc::from)
    }
}

/// A value of a program, which may be a number or a word.
impl FactorValue for Level {
    type Read<'a> = &'a Level;

    fn read(&self) -> Option<&Level> {
        Some(self)
    }

    fn to_level(&self) -> Level {
        self.clone()
    }

    fn from_level(level: &Level) -> Option<Level> {
        (*level != Level::Absent).then(|| level.clone())
    }
}
