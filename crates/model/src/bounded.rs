//! Lists of bounded length from other hosts: a short text must not become a list that fills memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a list of at most `MAX` elements. The first one beyond them is refused before it takes memory.
///
/// # Errors
/// Those of the elements, and one with the limit for a longer list.
pub fn at_most<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(BoundedList::<MAX, T>(PhantomData))
}

struct BoundedList<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for BoundedList<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = from.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            list.push(element);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Deserializer;

    use super::*;

    #[test]
    fn longer_lists_are_refused_with_the_limit() {
        let read = |text: &str| at_most::<2, u8, _>(&mut Deserializer::from_str(text));
        assert_eq!(read("[]").unwrap(), Vec::<u8>::new());
        assert_eq!(read("[1,2]").unwrap(), [1, 2]);
        assert!(read("[1,2,3]").unwrap_err().to_string().contains("at most 2 elements"));
        assert!(read("7").is_err());
    }
}
