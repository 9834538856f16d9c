//! Finds modules that depend on each other in a circle.
//!
//! Files that depend on each other in a circle can only be read together. A circle of two files is allowed, a longer one is
//! not.
//!
//! Reads text: `use` and paths that begin with `crate`, `super` or `self`, as rustfmt writes them. A name that is
//! re-exported (`pub use`) counts for the module that declares it. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::sources::collect;
use xtask::cargo;

/// Files that may depend on each other in a circle.
const MOST: usize = 2;

/// The path of a module.
type Module = Vec<String>;

/// Every circle that is too long, described; empty if there is none.
pub fn breaches() -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for (name, folder) in crates()? {
        breaches.extend(Sources::read(&folder)?.circles().iter().filter_map(|circle| beyond(&name, circle)));
    }
    Ok(breaches)
}

/// Describes a circle that is too long.
fn beyond(name: &str, circle: &[String]) -> Option<String> {
    (circle.len() > MOST).then(|| {
        format!(
            "{name}: {} depend on each other in a circle of {} files (at most {MOST}): move the shared part into a file of its own",
            circle.join(", "),
            circle.len()
        )
    })
}

/// Every crate of the workspace with its folder of sources.
pub fn crates() -> Result<Vec<(String, PathBuf)>> {
    let mut all: Vec<(String, PathBuf)> =
        ["lab", "xtask"].map(|name| (name.to_owned(), cargo::root().join(name).join("src"))).into();
    for entry in fs::read_dir(cargo::root().join("crates"))? {
        let path = entry?.path();
        all.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path.join("src")));
    }
    all.sort();
    Ok(all)
}

/// The modules of a crate, each with its code without comments and tests.
pub struct Sources(BTreeMap<Module, String>);

impl Sources {
    /// Reads the crate whose sources are in a folder.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read(folder: &Path) -> Result<Sources> {
        let mut files = Vec::new();
        collect(folder, &mut files)?;
        let mut modules = BTreeMap::new();
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let name = file.strip_prefix(folder).unwrap_or(&file).with_extension("");
            let mut module: Module = name.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
                module.pop();
            }
            if !module.last().is_some_and(|last| last.ends_with("tests")) {
                modules.insert(module, code_of(&text));
            }
        }
        Ok(Sources(modules))
    }

    /// The path of every module, and its code.
    pub fn modules(&self) -> impl Iterator<Item = (String, &str)> {
        self.0.iter().map(|(module, text)| (module.join("::"), text.as_str()))
    }

    /// Modules that reach each other.
    fn circles(&self) -> Vec<Vec<String>> {
        let passed: BTreeMap<&Module, BTreeMap<String, Module>> =
            self.0.iter().map(|(module, text)| (module, self.passed_on(module, text))).collect();
        let edges: BTreeMap<&Module, BTreeSet<&Module>> = self
            .0
            .iter()
            .map(|(module, text)| {
                let known = self.known_to(module, text).into_iter().filter(|(is_passed, _)| !is_passed);
                let homes = known.map(|(_, path)| self.home(&path, &passed, 0));
                (module, homes.filter(|home| *home != module).collect())
            })
            .collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            edges.keys().map(|module| (*module, reach(module, &edges))).collect();
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for (module, others) in &reached {
            let circle: Vec<String> =
                others.iter().filter(|other| reached[*other].contains(module)).map(|other| other.join("::")).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// Paths that a module names, from the crate's root, and whether it only re-exports them.
    fn known_to(&self, module: &Module, text: &str) -> Vec<(bool, Module)> {
        let mut known = Vec::new();
        let mut rest = String::new();
        for statement in text.split_inclusive(';') {
            let found = statement.rfind("use ").filter(|at| starts_a_word(statement, *at));
            let (before, named) = found.map_or((statement, None), |at| (&statement[..at], Some(&statement[at + 4..])));
            rest.push_str(before);
            let is_passed = before.trim_end().ends_with("pub") || before.trim_end().ends_with("pub(crate)");
            known.extend(named.into_iter().flat_map(expanded).map(|path| (is_passed, path)));
        }
        let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let inline = words.filter(|word| ["crate::", "super::", "self::"].iter().any(|head| word.starts_with(head)));
        known.extend(inline.map(|path| (false, path.split("::").map(str::to_owned).collect())));
        known.into_iter().filter_map(|(is_passed, path)| Some((is_passed, self.rooted(module, path)?))).collect()
    }

    fn passed_on(&self, module: &Module, text: &str) -> BTreeMap<String, Module> {
        let passed = self.known_to(module, text).into_iter().filter(|(is_passed, _)| *is_passed);
        passed.filter_map(|(_, path)| Some((path.last()?.clone(), path))).collect()
    }

    /// A path from the root; `None` of what is not of this crate.
    fn rooted(&self, module: &Module, path: Module) -> Option<Module> {
        let mut base = module.clone();
        let mut path = path.into_iter().peekable();
        match path.peek()?.as_str() {
            "crate" => {
                base.clear();
                path.next();
            }
            "self" => {
                path.next();
            }
            "super" => {
                while path.next_if(|part| part == "super").is_some() {
                    base.pop();
                }
            }
            first => {
                let child = [base.as_slice(), &[first.to_owned()]].concat();
                self.0.contains_key(&child).then_some(())?;
            }
        }
        base.extend(path);
        Some(base)
    }

    /// The module that declares the item of a path.
    fn home<'a>(
        &'a self,
        path: &[String],
        passed: &BTreeMap<&Module, BTreeMap<String, Module>>,
        deep: u32,
    ) -> &'a Module {
        for len in (0..=path.len()).rev() {
            let Some((module, _)) = self.0.get_key_value(&path[..len]) else { continue };
            let further = path.get(len).and_then(|name| passed[module].get(name)).filter(|target| *target != path);
            return match further {
                Some(target) if deep < 8 => self.home(&[target, &path[len + 1..]].concat(), passed, deep + 1),
                _ => module,
            };
        }
        unreachable!("a crate has a root")
    }
}

fn reach<'a>(from: &'a Module, edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> BTreeSet<&'a Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(edges[module].iter().filter(|other| reached.insert(**other)));
    }
    reached
}

/// Code without comments, without tests, which come last, and without the scope of a visibility, which is no dependency.
fn code_of(text: &str) -> String {
    let before_tests = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = before_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n").replace("pub(in crate::", "pub(in ")
}

fn starts_a_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(char::is_whitespace)
}

/// The paths of a tree of names: `a::{b, c::d}` are `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<Module> {
    fn split(tree: &str) -> Vec<&str> {
        let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
        for (at, c) in tree.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(&tree[from..at]);
                    from = at + 1;
                }
                _ => {}
            }
        }
        parts.push(&tree[from..]);
        parts
    }
    let branches = split(tree).into_iter().map(|part| part.trim().trim_end_matches(';').trim());
    branches
        .filter(|branch| !branch.is_empty())
        .flat_map(|branch| match branch.split_once('{') {
            Some((head, inner)) => {
                let head: Vec<String> =
                    head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect();
                let inner = inner.trim_end().trim_end_matches('}');
                expanded(inner).into_iter().map(|rest| [head.clone(), rest].concat()).collect()
            }
            None => {
                let path = branch.split(" as ").next().unwrap_or_default();
                vec![path.split("::").map(|part| part.trim().to_owned()).filter(|part| part != "self").collect()]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_keep_to_the_lists() {
        assert_eq!(breaches().unwrap(), Vec::<String>::new());
    }

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let module = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Sources(files.iter().map(|(name, text)| (module(name), code_of(text))).collect()).circles()
    }

    #[test]
    fn circles_are_found_through_every_path() {
        let three = [("", ""), ("a", "use crate::{b::{B, C}, d};"), ("b", "fn f() { super::c::g() }")];
        assert_eq!(circles(&[&three[..], &[("c", "use crate::a::A;"), ("d", "")]].concat()), [["a", "b", "c"]]);
        assert!(circles(&[&three[..], &[("c", "// crate::a"), ("d", "")]].concat()).is_empty());
        let tested = "\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}";
        assert!(circles(&[&three[..], &[("c", tested), ("d", "")]].concat()).is_empty());
        let shown = "pub(in crate::a) fn g() {}";
        assert!(circles(&[&three[..], &[("c", shown), ("d", "")]].concat()).is_empty());
    }

    #[test]
    fn reexports_count_for_the_declaring_module() {
        let files = [("", ""), ("a", "mod b;\nmod c;\npub use b::B;"), ("a::b", ""), ("a::c", "use crate::a::B;")];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn circles_of_three_files_are_breaches() {
        let circle = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>();
        assert_eq!(beyond("stats", &circle(&["a", "b"])), None);
        assert!(beyond("stats", &circle(&["a", "b", "c"])).unwrap().contains("a circle of 3 files (at most 2)"));
    }
}
