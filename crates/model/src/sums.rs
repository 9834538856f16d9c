//! Sums of counts, field by field, from one list of the fields.
//!
//! Also counts that may be absent ([`OptionalCount`]).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A count that is added to another one. Counts of a report may come from another host: no sum overflows.
pub(crate) trait AddCounts: Copy {
    /// The sum of both; of an `Option`, that of the known ones. An [`OptionalCount`] is absent unless both are known.
    fn sum(self, other: Self) -> Self;
}

impl AddCounts for u64 {
    fn sum(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
}

impl AddCounts for Option<u64> {
    fn sum(self, other: Option<u64>) -> Option<u64> {
        self.into_iter().chain(other).reduce(u64::sum)
    }
}

/// Gives a struct of counts its `plus`. Fields after `max` keep the larger value.
macro_rules! sums {
    ($of:ident { $($sum:ident),* $(,)? } $(max { $($max:ident),* $(,)? })?) => {
        impl $crate::sums::AddCounts for $of {
            fn sum(self, other: $of) -> $of {
                self.plus(&other)
            }
        }

        impl $of {
            /// The counts of both together.
            pub fn plus(&self, other: &$of) -> $of {
                $of {
                    $($sum: $crate::sums::AddCounts::sum(self.$sum, other.$sum),)*
                    $($($max: self.$max.max(other.$max),)*)?
                }
            }
        }
    };
}

pub(crate) use sums;

// A count that may be absent, in eight bytes.

/// A count of the kernel, absent where the kernel does not report it. `Option<u64>` takes sixteen bytes, and a report holds
/// millions of these. The largest number means absent: no counter reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionalCount(u64);

impl AddCounts for OptionalCount {
    fn sum(self, other: OptionalCount) -> OptionalCount {
        self.plus(other)
    }
}

impl OptionalCount {
    /// No count.
    pub const NONE: OptionalCount = OptionalCount(u64::MAX);

    /// The sum of both; none if one of them is absent.
    pub fn plus(self, other: OptionalCount) -> OptionalCount {
        self.get().zip(other.get()).map(|(one, other)| one.saturating_add(other)).into()
    }

    /// The count.
    pub fn get(self) -> Option<u64> {
        (self != OptionalCount::NONE).then_some(self.0)
    }
}

impl Default for OptionalCount {
    fn default() -> OptionalCount {
        OptionalCount::NONE
    }
}

impl From<Option<u64>> for OptionalCount {
    fn from(count: Option<u64>) -> OptionalCount {
        count.map_or(OptionalCount::NONE, OptionalCount::from)
    }
}

impl From<u64> for OptionalCount {
    fn from(count: u64) -> OptionalCount {
        OptionalCount(count.min(u64::MAX - 1))
    }
}

impl fmt::Debug for OptionalCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Serialize for OptionalCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OptionalCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptionalCount, D::Error> {
        Option::deserialize(deserializer).map(OptionalCount::from)
    }
}

#[cfg(test)]
mod tests {
    use crate::{CallDatagrams, EngineReport};

    #[test]
    fn sums_of_reports_never_overflow() {
        let most = CallDatagrams { sent: u64::MAX, received: 3, ..CallDatagrams::default() };
        assert_eq!(most.plus(&most), CallDatagrams { sent: u64::MAX, received: 6, ..CallDatagrams::default() });
        let one = EngineReport { completions: u64::MAX, accepted_at_once: 5, ..EngineReport::default() };
        let other = EngineReport { completions: 1, accepted_at_once: 4, kernel_threads_ns: Some(7), ..one };
        let sum = one.plus(&other);
        assert_eq!((sum.completions, sum.accepted_at_once, sum.kernel_threads_ns), (u64::MAX, 5, Some(7)));
    }
}

#[cfg(test)]
mod optional_count_tests {
    use super::*;

    #[test]
    fn it_is_stored_as_an_optional_number() {
        for count in [None, Some(0), Some(7), Some(u64::MAX - 1)] {
            let text = serde_json::to_string(&OptionalCount::from(count)).unwrap();
            assert_eq!(text, serde_json::to_string(&count).unwrap());
            assert_eq!(serde_json::from_str::<OptionalCount>(&text).unwrap().get(), count);
        }
        assert_eq!(OptionalCount::from(u64::MAX).get(), Some(u64::MAX - 1));
        assert_eq!(OptionalCount::default().get(), None);
        let [one, two] = [1, 2].map(OptionalCount::from);
        assert_eq!((one.plus(two).get(), one.plus(OptionalCount::NONE).get()), (Some(3), None));
    }
}
