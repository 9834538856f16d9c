//! Which crate may depend on which.
//!
//! The list is an upper bound on the `[dependencies]` of the manifests. It keeps results readable on any
//! machine (`report` never reaches `traffic`) and plans makeable without one (`plan` neither). Dev-dependencies
//! are free: tests may look across.

use anyhow::Result;

use xtask::cargo;

/// The edges allowed, in the words of ARCHITECTURE.md: a part of the workspace, and the others that it may depend on.
const ALLOWED: &[(&str, &str)] = &[
    ("model", ""),
    ("sys", ""),
    ("wire", ""),
    ("plan", "model"),
    ("stats", "model"),
    ("store", "model sys"),
    // Formats of other programs.
    ("import", "model store"),
    ("traffic", "model sys wire"),
    // Ends on other hosts: harness and traffic know them as `RemoteHost`.
    ("agent", "model sys traffic wire"),
    ("harness", "model plan stats store sys traffic"),
    ("mesh", "model stats sys"),
    // Tests the harness and the statistics from outside: neither depends on it.
    ("selftest", "harness model plan stats sys traffic"),
    // Parts of their own, which the core does not know.
    ("serve", "model sys traffic"),
    ("emulated-link", "model sys traffic"),
    ("observe", "model sys traffic"),
    ("bottleneck", "model stats"),
    ("report", "bottleneck model stats store"),
    ("tune", "model report sys traffic"),
    // Several sessions together.
    ("compare", "model report stats"),
    ("flamegraph", "harness model plan report sys traffic"),
    (
        "bytegauge",
        "agent compare emulated-link flamegraph harness import mesh model observe plan report selftest serve stats store sys traffic \
         tune wire",
    ),
    // `compare` and `report` for the schemas of their documents, `import` and `store` for the session that the README shows.
    ("xtask", "compare import model plan report store"),
    // `traffic` contains the commands of an end that is measured alone.
    ("lab", "model stats sys traffic xtask"),
];

/// A package by its name in the table.
fn short(package: &str) -> &str {
    package.strip_prefix("bytegauge-").unwrap_or(package)
}

/// Every dependency beyond the allowed edges, as text; empty if there is none.
pub fn breaches() -> Result<Vec<String>> {
    let metadata = cargo::workspace()?;
    let members: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut breaches = Vec::new();
    for package in &metadata.packages {
        let declared = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name.as_str())
            .filter(|name| members.contains(name));
        breaches.extend(beyond(&package.name, declared));
    }
    Ok(breaches)
}

fn beyond<'a>(package: &str, declared: impl Iterator<Item = &'a str>) -> Vec<String> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == short(package)) else {
        return vec![format!("{package} is not in the table of edges: add it to xtask/src/edges.rs")];
    };
    declared
        .filter(|name| !allowed.split(' ').any(|one| one == short(name)))
        .map(|name| format!("{package} must not depend on {name}: see the edges in xtask/src/edges.rs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_keep_to_the_edges() {
        assert_eq!(breaches().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_table_has_no_circle() {
        for (index, (name, allowed)) in ALLOWED.iter().enumerate() {
            for target in allowed.split(' ').filter(|target| !target.is_empty()) {
                let at = ALLOWED.iter().position(|(other, _)| *other == target);
                assert!(at.is_some_and(|at| at < index), "{name} → {target}: a crate comes after what it uses");
            }
        }
    }

    #[test]
    fn a_forbidden_edge_is_named() {
        let got = beyond("bytegauge-report", ["bytegauge-model", "bytegauge-traffic"].into_iter());
        assert_eq!(got, ["bytegauge-report must not depend on bytegauge-traffic: see the edges in xtask/src/edges.rs"]);
        assert_eq!(beyond("new", std::iter::empty()).len(), 1);
    }
}
