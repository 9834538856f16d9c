//! `cargo xtask package`: a static binary that runs on any Linux of its architecture, its manual page and completions, and
//! where cargo-deb and maturin are there a Debian package of all of them and a Python wheel of the binary.
//!
//! One binary for all, linked with musl: no package depends on a distribution's libc. Nothing is published.

use std::fs;
use std::path::Path;
use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgMatches, Command};

use xtask::cargo;

/// Shells with completions: the name, and the file as the shell looks for it.
const SHELLS: [(&str, &str); 3] = [("bash", "bytegauge.bash"), ("zsh", "_bytegauge"), ("fish", "bytegauge.fish")];

/// The manual page.
const MANUAL: &str = "bytegauge.1";

/// `cargo xtask package [--target TRIPLE]`.
pub fn command() -> Command {
    Command::new("package")
        .about("Make the static binary, a Debian package and a Python wheel of it, in target/package")
        .arg(
            Arg::new("target")
                .long("target")
                .value_name("TRIPLE")
                .help("Target of the compiler [default: musl on this architecture]"),
        )
}

/// Makes all of it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let own = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let target = matches.get_one::<String>("target").unwrap_or(&own);
    let build = ["build", "--locked", "--profile", "dist", "--package", "bytegauge", "--target", target];
    cargo::visible(&mut cargo::command(&build)).with_context(|| {
        format!("no binary: it needs `rustup target add {target}` and musl's C compiler (Debian: musl-tools)")
    })?;
    let binary = cargo::workspace()?.target_directory.join(target).join("dist/bytegauge");
    // Where the manifest of the Debian package looks for them.
    let folder = cargo::root().join("target/package");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let size = fs::copy(&binary, folder.join("bytegauge")).with_context(|| format!("copying {}", binary.display()))?;
    println!("{}: {:.1} MiB, static", folder.join("bytegauge").display(), size as f64 / f64::from(1 << 20));
    if *target != own {
        println!("its manual page, completions and Debian package are made on a machine that runs it");
        return Ok(());
    }
    write_output(&binary, &["man"], &folder.join(MANUAL))?;
    for (shell, file) in SHELLS {
        write_output(&binary, &["completions", shell], &folder.join(file))?;
    }
    debian(target, &folder)?;
    wheel(target, &folder)
}

/// Writes the standard output of the program into a file.
fn write_output(binary: &Path, words: &[&str], file: &Path) -> Result<()> {
    let output = Process::new(binary).args(words).output().with_context(|| format!("running {}", binary.display()))?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(file, output.stdout).with_context(|| format!("writing {}", file.display()))
}

/// The Debian package, whose contents `crates/cli/Cargo.toml` lists.
fn debian(target: &str, folder: &Path) -> Result<()> {
    if cargo::on_path("cargo-deb").is_err() {
        println!("no Debian package without cargo-deb: `cargo install --locked cargo-deb`");
        return Ok(());
    }
    let mut deb = cargo::command(&["deb", "--no-build", "--no-strip", "--profile", "dist", "--package", "bytegauge"]);
    cargo::visible(deb.args(["--target", target, "--output"]).arg(folder)).context("no Debian package")
}

/// The Python wheel: the binary, found by pip on every Linux, since it needs no library.
fn wheel(target: &str, folder: &Path) -> Result<()> {
    let Ok(maturin) = cargo::on_path("maturin") else {
        println!("no wheel for pip without maturin: `pip install maturin`");
        return Ok(());
    };
    let mut maturin = Process::new(maturin);
    maturin.current_dir(cargo::root());
    maturin.args(["build", "--locked", "--bindings", "bin", "--profile", "dist", "--target", target]);
    maturin.args(["--compatibility", "manylinux2014", "musllinux_1_2", "--manifest-path", "crates/cli/Cargo.toml"]);
    cargo::visible(maturin.arg("--out").arg(folder)).context("no wheel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debian_package_lists_what_is_made() {
        let manifest = fs::read_to_string(cargo::root().join("crates/cli/Cargo.toml")).unwrap();
        let listed: Vec<&str> =
            manifest.split("\"../../target/package/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let made: Vec<&str> = [MANUAL].into_iter().chain(SHELLS.map(|(_, file)| file)).collect();
        assert_eq!(listed, made);
        for kept in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "packaging/Containerfile"] {
            assert!(cargo::root().join(kept).exists(), "{kept}");
        }
    }
}
