//! Checks that each type has a name of its own in the workspace, private types included.
//!
//! A reader who searches for a name finds one declaration. Aliases inside `impl` blocks and types of tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::modules::{Sources, crates};

/// Names that each crate may declare, with the reason.
const CONVENTIONAL: &[(&str, &str)] = &[("Error", "the usual name of a crate's error type")];

/// Names that still occur more than once. Remove a name when it is unique; add none.
#[rustfmt::skip]
const STILL_SHARED: &[&str] = &[
    "Asked",
    "Buffer",
    "Column",
    "Counted",
    "Counts",
    "End",
    "Event",
    "Family",
    "Found",
    "Heard",
    "Host",
    "Kept",
    "Kind",
    "Line",
    "Mapping",
    "Metric",
    "Opener",
    "Output",
    "Part",
    "Piece",
    "Place",
    "Reply",
    "Run",
    "Scene",
    "Schedule",
    "Seen",
    "Server",
    "Session",
    "Side",
    "Slot",
    "Source",
    "Standing",
    "Subject",
    "Task",
    "Times",
    "Work",
];

/// Every name that occurs more than once, and every entry of the list that is not needed.
///
/// # Errors
/// If a source file cannot be read.
pub fn breaches() -> Result<Vec<String>> {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, folder) in crates()? {
        for (module, text) in Sources::read(&folder)?.modules() {
            for found in declared_in(text) {
                places.entry(found.to_owned()).or_default().insert(format!("{name}::{module}"));
            }
        }
    }
    Ok(breaches_of(&places, STILL_SHARED))
}

fn breaches_of(places: &BTreeMap<String, BTreeSet<String>>, still_shared: &[&str]) -> Vec<String> {
    let is_shared = |name: &str| places.get(name).is_some_and(|places| places.len() > 1);
    let is_allowed =
        |name: &str| still_shared.contains(&name) || CONVENTIONAL.iter().any(|(conventional, _)| *conventional == name);
    let shared = places.iter().filter(|(name, _)| is_shared(name) && !is_allowed(name)).map(|(name, places)| {
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        format!("the type {name} is declared in {}: rename all but one", places.join(", "))
    });
    let unneeded = still_shared
        .iter()
        .filter(|name| !is_shared(name))
        .map(|name| format!("the type {name} is declared once: remove it from STILL_SHARED in xtask/src/types.rs"));
    shared.chain(unneeded).collect()
}

/// Names of the types that code declares.
fn declared_in(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let is_indented = line.starts_with(' ');
        let declaration = without_visibility(line.trim_start());
        let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
        let kind = kinds.iter().find(|kind| declaration.starts_with(**kind))?;
        // An indented alias belongs to an `impl` block.
        if is_indented && *kind == "type " {
            return None;
        }
        declaration[kind.len()..].split(|c: char| !c.is_alphanumeric()).next().filter(|name| !name.is_empty())
    })
}

/// A declaration without `pub`, `pub(crate)` and the like.
fn without_visibility(declaration: &str) -> &str {
    let Some(rest) = declaration.strip_prefix("pub") else { return declaration };
    match rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => rest,
        None => rest.strip_prefix(' ').unwrap_or(declaration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_with_any_visibility() {
        let code = "pub(crate) struct One(u8);\nenum Two {}\n    type Item = u8;\npub type Three = u8;\nunion Four {\n\
                    pub(in super::a) trait Five {\nlet structure = 1;\n    struct Six;\n";
        assert_eq!(declared_in(code).collect::<Vec<_>>(), ["One", "Two", "Three", "Four", "Five", "Six"]);
    }

    #[test]
    fn shared_names_and_unneeded_entries_are_breaches() {
        let at = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let places =
            [("Error", at(&["a", "b"])), ("Row", at(&["a", "b"])), ("Cell", at(&["a"])), ("Run", at(&["a", "c"]))];
        let places = places.map(|(name, places)| (name.to_owned(), places)).into();
        assert_eq!(
            breaches_of(&places, &["Cell", "Run"]),
            [
                "the type Row is declared in a, b: rename all but one",
                "the type Cell is declared once: remove it from STILL_SHARED in xtask/src/types.rs",
            ]
        );
    }

    #[test]
    fn list_is_sorted() {
        assert!(STILL_SHARED.is_sorted());
    }
}
