//! The ready plans, by name: the files of `plans/`, built into the program.

use bytegauge_model::{factor, suggest};

use crate::error::PlanError;
use crate::file;
use crate::spec::PlanSpec;

/// Name and text of every ready plan.
pub const PLANS: &[(&str, &str)] = &[
    ("buffer-size", include_str!("../plans/buffer-size.toml")),
    ("buffer-alignment", include_str!("../plans/buffer-alignment.toml")),
    ("buffer-grid", include_str!("../plans/buffer-grid.toml")),
    ("read-sweep", include_str!("../plans/read-sweep.toml")),
    ("pipe-sizes", include_str!("../plans/pipe-sizes.toml")),
    ("socket-buffers", include_str!("../plans/socket-buffers.toml")),
    ("tcp-echo", include_str!("../plans/tcp-echo.toml")),
    ("udp-echo", include_str!("../plans/udp-echo.toml")),
    ("receive-buffer", include_str!("../plans/receive-buffer.toml")),
    ("part-written", include_str!("../plans/part-written.toml")),
    ("streaming", include_str!("../plans/streaming.toml")),
    ("relay-copy", include_str!("../plans/relay-copy.toml")),
    ("relay-calls", include_str!("../plans/relay-calls.toml")),
    ("remote-tcp", include_str!("../plans/remote-tcp.toml")),
    ("delay-loss", include_str!("../plans/delay-loss.toml")),
    ("ring-nop", include_str!("../plans/ring-nop.toml")),
];

/// The ready plan of that name, with examples of the factors that its user must give, for display.
///
/// # Errors
/// As [`find`].
pub fn shown(name: &str) -> Result<PlanSpec, PlanError> {
    let mut spec = find(name)?;
    let examples: Vec<_> = spec
        .wants
        .iter()
        .filter_map(|name| Some((factor::find(name)?, (*name == "host").then_some(EXAMPLE_HOST)?.to_owned())))
        .collect();
    spec.set_all(&examples)?;
    Ok(spec)
}

/// An example address without a host (RFC 5737).
const EXAMPLE_HOST: &str = "192.0.2.1:7300";

/// The ready plan of that name.
///
/// # Errors
/// [`PlanError::Usage`] with what may have been meant.
pub fn find(name: &str) -> Result<PlanSpec, PlanError> {
    match PLANS.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => file::parse(name, text),
        None => {
            let hint = suggest::hint(name, PLANS.iter().map(|(name, _)| *name));
            Err(PlanError::Usage(format!("no plan is called `{name}`{hint} (or give a path that ends in .toml)")))
        }
    }
}
