//! Builds the program of this repository for release.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{cargo, steps};

/// Builds `bytegauge` for release and returns the path of the binary.
///
/// # Errors
/// If the build fails.
pub fn built() -> Result<PathBuf> {
    steps::visible(&mut cargo::command(&["build", "--locked", "--release", "--quiet", "--package", "bytegauge"]))
        .context("building bytegauge")?;
    Ok(cargo::workspace()?.target_directory.join("release/bytegauge"))
}
