//! What the dependencies must be: from one registry, under known licences, each in one version.
//!
//! Reads `cargo metadata --locked` alone. It therefore does not know advisories or yanked releases, which need
//! a database from the network; it says so whenever it passes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use clap::{ArgMatches, Command};
use spdx::{Expression, LicenseItem, ParseMode};

use crate::cargo::{self, Package};

/// The only source, as Cargo.lock writes it.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences that may be part of a program under MIT or Apache-2.0.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates under a licence of their own, and why that is no hindrance.
const EXCEPTIONS: &[(&str, &str)] =
    &[("inferno", "CDDL-1.0: holds for its own files, which are used as they are; draws flame graphs")];

/// Crates that stand in more than one incompatible version, and why that has to be.
const DUPLICATES: &[(&str, &str)] = &[
    ("bit-set", "proptest and fancy-regex (by jsonschema), both in tests only"),
    ("bit-vec", "with bit-set"),
    ("chacha20", "snow, and rand (by proptest) in tests only"),
    ("cpufeatures", "with chacha20"),
    ("foldhash", "with hashbrown"),
    ("getrandom", "snow's keys, and tempfile in tests only"),
    ("hashbrown", "hashlink (by rusqlite) and jsonschema"),
    ("rand_core", "rand_pcg 0.9, whose numbers plans and verdicts keep, and rand (by proptest)"),
    ("syn", "derive macros move from 2 to 3 one by one; part of no program"),
    ("toml_datetime", "toml 0.9 and toml_edit (by macros at build time)"),
    ("winnow", "toml 0.9 reads documents with one and values with the other"),
];

/// `cargo xtask audit`.
pub fn command() -> Command {
    Command::new("audit").about("Check the dependencies' sources, licences and versions, from Cargo.lock alone")
}

/// Runs the audit.
///
/// # Errors
/// With everything that is not as it must be.
pub fn run(_: &ArgMatches) -> Result<()> {
    audit()
}

/// As [`run`], as a step of the tests.
pub fn audit() -> Result<()> {
    let metadata = cargo::dependencies()?;
    let mut faults: Vec<String> = metadata.packages.iter().flat_map(faults_of).collect();
    faults.extend(duplicates(&metadata.packages));
    if !faults.is_empty() {
        bail!("{} faults in the dependencies:\n  {}", faults.len(), faults.join("\n  "));
    }
    println!(
        "   {} crates: sources, licences and duplicate versions as listed in xtask/src/audit.rs; advisories and \
         yanked releases not checked (that needs a database from the network)",
        metadata.packages.len()
    );
    Ok(())
}

fn faults_of(package: &Package) -> Vec<String> {
    let named = format!("{} {}", package.name, package.version);
    let mut faults = Vec::new();
    if let Some(source) = package.source.as_deref().filter(|source| *source != SOURCE) {
        faults.push(format!("{named} comes from {source}: use a release of the public registry"));
    }
    let excepted = EXCEPTIONS
        .iter()
        .any(|(name, why)| *name == package.name.as_str() && why.split(':').next() == package.license.as_deref());
    if let Err(reason) =
        licence_fits(package.license.as_deref()).or_else(|why| if excepted { Ok(()) } else { Err(why) })
    {
        faults.push(format!("{named}: {reason}: choose another crate, or add the licence to xtask/src/audit.rs"));
    }
    faults
}

fn licence_fits(licence: Option<&str>) -> Result<(), String> {
    let text = licence.ok_or("it names no licence")?;
    let expression = Expression::parse_mode(text, ParseMode::LAX)
        .map_err(|error| format!("its licence `{text}` cannot be read ({})", error.reason))?;
    let allowed = expression.evaluate(|requirement| match &requirement.license {
        // What follows a WITH only permits more.
        LicenseItem::Spdx { id, .. } => LICENCES.contains(&id.name),
        LicenseItem::Other(_) => false,
    });
    if allowed { Ok(()) } else { Err(format!("its licence `{text}` is not in the list")) }
}

/// Crates in several incompatible versions that are not in [`DUPLICATES`].
fn duplicates(packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(compatible_part(&package.version));
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !DUPLICATES.iter().any(|(known, _)| known == name))
        .map(|(name, versions)| {
            let versions: Vec<&str> = versions.into_iter().collect();
            format!(
                "{name} stands in versions {}: align them (`cargo tree -d`), or say why in xtask/src/audit.rs",
                versions.join(" and ")
            )
        })
        .collect()
}

/// The part of a version in which compatible releases agree: `1` of `1.2.3`, `0.4` of `0.4.7`, `0.0.3`.
fn compatible_part(version: &str) -> &str {
    let end = |dots: usize| version.match_indices('.').nth(dots).map_or(version.len(), |(at, _)| at);
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some("0"), Some("0")) => version,
        (Some("0"), _) => &version[..end(1)],
        _ => &version[..end(0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, source: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            license: Some("MIT".into()),
            source: source.map(str::to_owned),
            dependencies: Vec::new(),
            targets: Vec::new(),
        }
    }

    fn check_licence(licence: &str, fits: bool) {
        assert_eq!(licence_fits(Some(licence)).is_ok(), fits, "{licence}");
    }

    #[test]
    fn licences() {
        check_licence("MIT", true);
        check_licence("MIT/Apache-2.0", true);
        check_licence("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check_licence("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true);
        check_licence("GPL-3.0-only", false);
        check_licence("MIT AND GPL-3.0-only", false);
        check_licence("MIT OR GPL-3.0-only", true);
        check_licence("Something", false);
        assert!(licence_fits(None).is_err());
    }

    #[test]
    fn other_sources_are_refused() {
        assert!(faults_of(&package("a", "1.0.0", None)).is_empty());
        assert!(faults_of(&package("a", "1.0.0", Some(SOURCE))).is_empty());
        assert_eq!(faults_of(&package("a", "1.0.0", Some("git+https://example.invalid/a"))).len(), 1);
    }

    #[test]
    fn versions() {
        assert_eq!(compatible_part("1.2.3"), "1");
        assert_eq!(compatible_part("0.4.7"), "0.4");
        assert_eq!(compatible_part("0.0.3"), "0.0.3");
        let alike = [package("a", "1.2.0", None), package("a", "1.9.0", None)];
        assert!(duplicates(&alike).is_empty());
        let unlike = [package("a", "0.1.0", None), package("a", "0.2.0", None)];
        assert_eq!(duplicates(&unlike).len(), 1);
    }
}
