//! Installs rustup components and Debian packages that the tasks need and the machine lacks.
//!
//! Never asks for a password without a terminal, and changes no machine without apt.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

/// The cargo subcommands that come as rustup components.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs `cargo fmt` and `cargo clippy` if they are missing.
///
/// # Errors
/// With the command that installs them.
pub fn components() -> Result<()> {
    if missing_components().is_empty() {
        return Ok(());
    }
    // Works if rustup manages the toolchain. Otherwise the message below names the command.
    let _ = Command::new("rustup").args(["component", "add"]).args(missing_components()).stdin(Stdio::null()).status();
    let missing = missing_components();
    ensure!(
        missing.is_empty(),
        "{} missing: run `rustup component add {}`",
        missing.join(" and "),
        COMPONENTS.map(|(_, component)| component).join(" ")
    );
    Ok(())
}

fn missing_components() -> Vec<&'static str> {
    let works =
        |subcommand: &str| crate::cargo::command(&[subcommand, "--version"]).output().is_ok_and(|o| o.status.success());
    COMPONENTS.iter().filter(|(subcommand, _)| !works(subcommand)).map(|(_, component)| *component).collect()
}

/// Installs a Debian package if its program is missing. Returns the reason if the program is still missing.
pub fn package(program: &str, package: &str) -> Result<(), String> {
    if exists(program) {
        return Ok(());
    }
    println!("   {program} is not here: installing the Debian package {package}");
    install(package).map_err(|reason| format!("{program} is missing and cannot be installed: {reason}"))?;
    if exists(program) { Ok(()) } else { Err(format!("the package {package} did not bring {program}")) }
}

/// Finds a program, and installs its Debian package, if there is one, when it is missing. Returns the program's file, or the
/// reason if it is still missing.
pub fn on_path(program: &str, package: Option<&str>) -> Result<PathBuf, String> {
    if let Some(file) = file_of(program) {
        return Ok(file);
    }
    let Some(package) = package else { return Err(format!("{program} is not here")) };
    println!("   {program} is not here: installing the Debian package {package}");
    install(package).map_err(|reason| format!("{program} is missing and cannot be installed: {reason}"))?;
    file_of(program).ok_or_else(|| format!("the package {package} did not bring {program}"))
}

/// The file of a program: the distribution's, or else the first in PATH. The PATH of a user may lack the folders of servers,
/// and a file earlier in PATH may be a script that selects a version.
fn file_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/usr/sbin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Installs a Debian package if its file is missing. Returns the reason if the file is still missing.
pub fn file(path: &Path, package: &str) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    let shown = path.display();
    println!("   {shown} is not here: installing the Debian package {package}");
    install(package).map_err(|reason| format!("{shown} is missing and cannot be installed: {reason}"))?;
    if path.exists() { Ok(()) } else { Err(format!("the package {package} did not bring {shown}")) }
}

/// Installs a Debian package if its library is missing. Returns the reason if the library is still missing.
pub fn library(library: &str, package: &str) -> Result<(), String> {
    self::package("pkg-config", "pkg-config")?;
    if is_known(library) {
        return Ok(());
    }
    println!("   {library} is not here: installing the Debian package {package}");
    install(package).map_err(|reason| format!("{library} is missing and cannot be installed: {reason}"))?;
    if is_known(library) { Ok(()) } else { Err(format!("the package {package} did not bring {library}")) }
}

fn is_known(library: &str) -> bool {
    let status = Command::new("pkg-config").args(["--exists", library]).stdin(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn exists(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn install(package: &str) -> Result<(), String> {
    if !exists("apt-get") {
        return Err(format!("no apt-get here; install {package} by hand"));
    }
    let update = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "update"];
    // A stale list of packages may still do, so only the installation counts.
    let _ = as_root(&update)?.status();
    let install = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", package];
    match as_root(&install)?.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get install {package}: {status}")),
        Err(error) => Err(format!("apt-get install {package}: {error}")),
    }
}

/// The command as root: unchanged, or with sudo. Asks for a password only in a terminal.
fn as_root(command: &[&str]) -> Result<Command, String> {
    let mut words: Vec<&str> = Vec::new();
    let attended = std::env::var_os("CI").is_none() && std::io::stdin().is_terminal();
    if !is_root() {
        if !exists("sudo") {
            return Err("not root, and no sudo here; install it as root".into());
        }
        words.push("sudo");
        if !attended {
            words.push("-n");
        }
    }
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive"]);
    words.extend(command);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    if !attended {
        command.stdin(Stdio::null());
    }
    Ok(command)
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_programs_are_not_installed() {
        assert_eq!(package("true", "no-such-package"), Ok(()));
        assert_eq!(file(Path::new("/"), "no-such-package"), Ok(()));
        assert!(on_path("sh", Some("no-such-package")).is_ok_and(|file| file.ends_with("sh")));
        assert_eq!(on_path("no-such-program-anywhere", None), Err("no-such-program-anywhere is not here".into()));
        assert!(!exists("no-such-program-anywhere"));
        assert!(!is_known("no-such-library-anywhere"));
    }
}
