//! Which crate may depend on which.
//!
//! The list is an upper bound on the `[dependencies]` of the manifests. It keeps results readable on any
//! machine (`report` never reaches `traffic`) and plans makeable without one (`plan` neither). Dev-dependencies
//! are free: tests may look across.

use anyhow::Result;

use xtask::cargo;

/// The edges allowed: a crate of the workspace, and the others that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("bytegauge-model", &[]),
    ("bytegauge-sys", &[]),
    ("bytegauge-plan", &["bytegauge-model"]),
    ("bytegauge-stats", &["bytegauge-model"]),
    ("bytegauge-store", &["bytegauge-model", "bytegauge-sys"]),
    // Formats of other programs.
    ("bytegauge-import", &["bytegauge-model", "bytegauge-store"]),
    ("bytegauge-wire", &[]),
    ("bytegauge-traffic", &["bytegauge-model", "bytegauge-sys", "bytegauge-wire"]),
    // Ends on other hosts: harness and traffic know them as `RemoteHost`.
    ("bytegauge-agent", &["bytegauge-model", "bytegauge-sys", "bytegauge-traffic", "bytegauge-wire"]),
    (
        "bytegauge-harness",
        &[
            "bytegauge-model",
            "bytegauge-plan",
            "bytegauge-stats",
            "bytegauge-store",
            "bytegauge-sys",
            "bytegauge-traffic",
        ],
    ),
    ("bytegauge-mesh", &["bytegauge-model", "bytegauge-stats", "bytegauge-sys"]),
    // Tests the harness and the statistics from outside: neither depends on it.
    (
        "bytegauge-selftest",
        &[
            "bytegauge-harness",
            "bytegauge-model",
            "bytegauge-plan",
            "bytegauge-stats",
            "bytegauge-sys",
            "bytegauge-traffic",
        ],
    ),
    // Servers for external clients, on the measured engines.
    ("bytegauge-serve", &["bytegauge-model", "bytegauge-sys", "bytegauge-traffic"]),
    // Both are parts of their own, which the core does not know.
    ("bytegauge-emulated-link", &["bytegauge-model", "bytegauge-sys", "bytegauge-traffic"]),
    ("bytegauge-observe", &["bytegauge-model", "bytegauge-sys", "bytegauge-traffic"]),
    ("bytegauge-bottleneck", &["bytegauge-model", "bytegauge-stats"]),
    ("bytegauge-report", &["bytegauge-bottleneck", "bytegauge-model", "bytegauge-stats", "bytegauge-store"]),
    ("bytegauge-tune", &["bytegauge-model", "bytegauge-report", "bytegauge-sys", "bytegauge-traffic"]),
    // Several sessions together.
    ("bytegauge-compare", &["bytegauge-model", "bytegauge-report", "bytegauge-stats"]),
    (
        "bytegauge-flamegraph",
        &[
            "bytegauge-harness",
            "bytegauge-model",
            "bytegauge-plan",
            "bytegauge-report",
            "bytegauge-sys",
            "bytegauge-traffic",
        ],
    ),
    (
        "bytegauge",
        &[
            "bytegauge-agent",
            "bytegauge-compare",
            "bytegauge-flamegraph",
            "bytegauge-harness",
            "bytegauge-emulated-link",
            "bytegauge-import",
            "bytegauge-mesh",
            "bytegauge-model",
            "bytegauge-observe",
            "bytegauge-plan",
            "bytegauge-report",
            "bytegauge-selftest",
            "bytegauge-serve",
            "bytegauge-stats",
            "bytegauge-store",
            "bytegauge-sys",
            "bytegauge-traffic",
            "bytegauge-tune",
            "bytegauge-wire",
        ],
    ),
    // `compare` and `report` for the schemas of their documents, `import` and `store` for the session that the README shows.
    (
        "xtask",
        &[
            "bytegauge-compare",
            "bytegauge-import",
            "bytegauge-model",
            "bytegauge-plan",
            "bytegauge-report",
            "bytegauge-store",
        ],
    ),
    // `traffic` contains the commands of an end that is measured alone.
    ("lab", &["bytegauge-model", "bytegauge-stats", "bytegauge-sys", "bytegauge-traffic", "xtask"]),
];

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
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package) else {
        return vec![format!("{package} is not in the table of edges: add it to xtask/src/edges.rs")];
    };
    declared
        .filter(|name| !allowed.contains(name))
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
            for target in *allowed {
                let at = ALLOWED.iter().position(|(other, _)| other == target);
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
