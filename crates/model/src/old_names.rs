//! Factors that earlier versions stored under another name, or that are gone.
//!
//! Stores and exported tables of earlier versions are read with it. Nothing is ever written under an old name.

use crate::level::Level;

/// Factors as keys of stored data and headings of tables: the old name, the present one.
const FACTORS: &[(&str, &str)] = &[
    ("i_am", "role"),
    ("choose", "compare"),
    ("age", "connection_age"),
    ("walk", "working_set"),
    ("fill", "writer_work"),
    ("think", "think_time"),
];

/// Factors that are gone, each with the level at which trials are as without it.
const GONE: &[(&str, &str)] = &[("fd_table", "shared")];

/// Whether a stored level has no meaning now: that of a factor that is gone, where it changed nothing.
pub(crate) fn is_void(name: &str, level: &Level) -> bool {
    let changes_nothing = |usual: &str| match level {
        Level::Absent => true,
        Level::Name(level) => level == usual,
        _ => false,
    };
    GONE.iter().any(|(gone, usual)| *gone == name && changes_nothing(usual))
}

/// The present name of a factor that is stored under this name; the name itself, where it was not renamed.
pub fn factor(name: &str) -> &str {
    FACTORS.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::find;

    #[test]
    fn old_names_lead_to_factors() {
        for (old, new) in FACTORS {
            assert!(find(old).is_none() && find(new).is_some(), "{old}");
            assert_eq!(factor(old), *new);
        }
        assert_eq!(factor("flows"), "flows");
    }
}
