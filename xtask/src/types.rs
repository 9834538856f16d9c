//! Checks that each type has a name of its own in the workspace, private types included.
//!
//! A reader who searches for a name finds one declaration. Aliases inside `impl` blocks and types of tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::modules::{Sources, crates};

/// Names that each crate may declare, with the reason.
const CONVENTIONAL: &[(&str, &str)] = &[("Error", "the usual name of a crate's error type")];

/// Every name that occurs more than once.
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
    Ok(breaches_of(&places))
}

fn breaches_of(places: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let is_allowed = |name: &str| CONVENTIONAL.iter().any(|(conventional, _)| *conventional == name);
    let shared = places.iter().filter(|(name, places)| places.len() > 1 && !is_allowed(name));
    shared
        .map(|(name, places)| {
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            format!("the type {name} is declared in {}: rename all but one", places.join(", "))
        })
        .collect()
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
    fn shared_names_are_breaches() {
        let at = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let places = [("Error", at(&["a", "b"])), ("Row", at(&["a", "b"])), ("Cell", at(&["a"]))];
        let places = places.map(|(name, places)| (name.to_owned(), places)).into();
        assert_eq!(breaches_of(&places), ["the type Row is declared in a, b: rename all but one"]);
    }
}
