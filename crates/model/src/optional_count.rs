//! A count that may be absent, in eight bytes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sums::AddCounts;

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

    /// Whether there is no count.
    pub fn is_none(&self) -> bool {
        *self == OptionalCount::NONE
    }

    /// The sum of both; none if one of them is absent.
    #[must_use]
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
        assert_eq!((one.plus(two).get(), one.plus(OptionalCount::NONE).is_none()), (Some(3), true));
    }
}
