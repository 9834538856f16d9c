//! Programs that relay: whether they are installed, their version, and the configuration that they read.
//!
//! Never runs one as a relay.

use std::env;
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytegauge_model::relay_program::RelayConfig;
use bytegauge_model::{RelayPlaces, RelayProgram};
use bytegauge_sys::children::in_own_session;
use bytegauge_sys::input::RELAY_CONFIG;
use bytegauge_sys::process::ended_within;

use crate::end_error::EndError;

/// Folders of system programs that may not be in `PATH`.
const OF_SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Longest time for a program to print its version.
const VERSION_TIME: Duration = Duration::from_secs(2);

/// Most bytes of its output to read.
const VERSION_BYTES: u64 = 4096;

/// The reason why this machine cannot run a program, if any, with the next step; checked before a plan is made. A command of
/// the user's is not checked, since the shell reports its errors.
pub fn lacks_program(program: &RelayProgram) -> Option<String> {
    if let Some(RelayConfig::File(file)) = &program.config
        && let Err(error) = RELAY_CONFIG.read(file)
    {
        return Some(format!("the relay's configuration {} cannot be read ({error}): check its path", file.display()));
    }
    let install = program.install.as_ref()?;
    match found(program.command.first()?) {
        Some(_) => None,
        None => Some(format!(
            "{} is not installed here: {install}, or leave out --relay {}",
            program.command[0], program.name
        )),
    }
}

/// The words that start a program, with their placeholders filled in; writes its configuration to the path in them.
///
/// # Errors
/// [`EndError::Program`] if its configuration cannot be read or written.
pub(crate) fn words(program: &RelayProgram, places: &RelayPlaces) -> Result<Vec<String>, EndError> {
    let at = |path: &Path, error: &dyn Display| {
        EndError::Program(format!("the relay's configuration {}: {error}: check the file", path.display()))
    };
    let text = match &program.config {
        None => None,
        Some(RelayConfig::Text(text)) => Some(text.clone()),
        Some(RelayConfig::File(file)) => Some(RELAY_CONFIG.read(file).map_err(|error| at(file, &error))?),
    };
    if let Some(text) = text {
        fs::write(&places.config, places.fill(&text)).map_err(|error| at(&places.config, &error))?;
    }
    let mut words: Vec<String> = places.fill_words(&program.command);
    if let Some(path) = words.first().and_then(|first| found(first)) {
        words[0] = path.display().to_string();
    }
    Ok(words)
}

/// A program's version: the first line of its output that contains `version`, or the first line.
pub(crate) fn version(program: &RelayProgram) -> Option<String> {
    let (first, rest) = program.version.split_first()?;
    let mut command = Command::new(found(first)?);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    in_own_session(&mut command, &[]);
    let mut child = command.spawn().ok()?;
    let ended = ended_within(&mut child, VERSION_TIME, Duration::from_millis(1)).is_some_and(|status| status.success());
    let text = |stream: &mut dyn Read| {
        let mut text = Vec::new();
        let read = stream.take(VERSION_BYTES).read_to_end(&mut text);
        read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    };
    // If it was killed, its descendants may still have the other ends of the pipes.
    if !ended {
        return None;
    }
    let mut printed = child.stdout.take().map(|mut out| text(&mut out)).unwrap_or_default();
    printed += &child.stderr.take().map(|mut out| text(&mut out)).unwrap_or_default();
    let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let named = lines.clone().find(|line| line.to_lowercase().contains("version"));
    named.or_else(|| lines.next()).map(str::to_owned)
}

/// The file of a program.
fn found(word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|path| is_program(path));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(OF_SYSTEM.map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(word)).filter(|path| is_program(path)))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_reported_with_its_package() {
        let mut program = RelayProgram::of("haproxy").unwrap();
        program.command[0] = "no-such-proxy-anywhere".into();
        let reason = lacks_program(&program).unwrap();
        assert!(reason.contains("no-such-proxy-anywhere is not installed") && reason.contains("apt-get"), "{reason}");
        program.command[0] = "sh".into();
        assert_eq!(lacks_program(&program), None);
        let program = RelayProgram::of("cmd:x {config:/no/such/file}").unwrap();
        assert!(lacks_program(&program).unwrap().contains("/no/such/file cannot be read"));
    }

    #[test]
    fn version_is_the_line_with_the_word() {
        let of = |script: &str| {
            let words = ["sh", "-c", script].map(str::to_owned).to_vec();
            version(&RelayProgram { version: words, ..RelayProgram::of("socat").unwrap() })
        };
        assert_eq!(of("echo x by Y; echo x Version 3 >&2; echo z").as_deref(), Some("x Version 3"));
        assert_eq!(of("echo; echo proxy 4.5").as_deref(), Some("proxy 4.5"));
        assert_eq!(of("echo unknown argument; exit 2"), None);
        assert_eq!(of("true"), None);
    }

    #[test]
    fn placeholders_of_a_configuration_are_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let places = RelayPlaces {
            listen: "127.0.0.1:4711".parse().unwrap(),
            upstream: "127.0.0.1:4712".parse().unwrap(),
            folder: folder.path().into(),
            config: folder.path().join("relay.conf"),
        };
        let template = folder.path().join("mine");
        fs::write(&template, "from {listen} to {upstream.port}").unwrap();
        let program = RelayProgram::of(&format!("cmd:x -f {{config:{}}}", template.display())).unwrap();
        let words = words(&program, &places).unwrap();
        assert_eq!(words[2], format!("x -f {}", places.config.display()));
        assert_eq!(fs::read_to_string(&places.config).unwrap(), "from 127.0.0.1:4711 to 4712");
    }
}
