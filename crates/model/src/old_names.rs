//! Names of factors that earlier versions stored, each with its present name.
//!
//! Stores and exported tables of earlier versions are read with it. Nothing is ever written under an old name.

/// Factors as keys of stored data and headings of tables: the old name, the present one.
const FACTORS: &[(&str, &str)] = &[
    ("i_am", "role"),
    ("choose", "compare"),
    ("age", "connection_age"),
    ("walk", "working_set"),
    ("fill", "writer_work"),
    ("think", "think_time"),
];

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
