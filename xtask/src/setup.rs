//! What the tasks need of a machine, and the command that installs it where it is missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether a program can be started, or how to install it.
///
/// # Errors
/// With its Debian package.
pub fn package(program: &str, package: &str) -> Result<(), String> {
    if works(program, &["--version"]) { Ok(()) } else { Err(missing(program, package)) }
}

/// The file of a program: the distribution's, or else the first in PATH. The PATH of a user may lack the folders of servers,
/// and a file earlier in PATH may be a script that selects a version.
///
/// # Errors
/// If there is none, with its Debian package if there is one.
pub fn on_path(program: &str, package: Option<&str>) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/usr/sbin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| package.map_or_else(|| format!("{program} is not here"), |package| missing(program, package)))
}

/// Whether a file is there, or how to install it.
///
/// # Errors
/// With its Debian package.
pub fn file(path: &Path, package: &str) -> Result<(), String> {
    if path.exists() { Ok(()) } else { Err(missing(&path.display().to_string(), package)) }
}

/// Whether pkg-config knows a library, or how to install it.
///
/// # Errors
/// With its Debian package.
pub fn library(library: &str, package: &str) -> Result<(), String> {
    self::package("pkg-config", "pkg-config")?;
    if works("pkg-config", &["--exists", library]) { Ok(()) } else { Err(missing(library, package)) }
}

fn missing(what: &str, package: &str) -> String {
    format!("{what} is not here: apt-get install {package}")
}

fn works(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    let status = command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_things_are_named_with_their_package() {
        assert_eq!(package("true", "x"), Ok(()));
        assert_eq!(file(Path::new("/"), "x"), Ok(()));
        assert!(on_path("sh", Some("x")).is_ok_and(|file| file.ends_with("sh")));
        let of_nothing = |result: Result<(), String>| assert!(result.unwrap_err().contains(": apt-get install x"));
        of_nothing(package("no-such-program-anywhere", "x"));
        of_nothing(file(Path::new("/no/such/file"), "x"));

        assert_eq!(on_path("no-such-program-anywhere", None), Err("no-such-program-anywhere is not here".into()));
    }
}
