//! The default path of the results: the XDG data directory.

use std::ffi::OsString;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// The kind of a path that cannot hold results; `None` for a file or a folder.
pub fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device")
    } else {
        None
    }
}

/// `$XDG_DATA_HOME/bytegauge/results.db`, or `$HOME/.local/share/bytegauge/results.db`.
///
/// `None` when neither variable is an absolute path: the caller must then require `--store`.
pub fn default_path() -> Option<PathBuf> {
    from_variables(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

/// The default path for given values of `XDG_DATA_HOME` and `HOME`.
///
/// A relative `XDG_DATA_HOME` is ignored, as the XDG base directory specification demands.
pub fn from_variables(xdg_data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute(xdg_data_home).or_else(|| absolute(home).map(|home| home.join(".local/share")))?;
    Some(data.join("bytegauge/results.db"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(xdg: Option<&str>, home: Option<&str>, expected: Option<&str>) {
        let path = from_variables(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(path, expected.map(PathBuf::from), "{xdg:?} {home:?}");
    }

    #[test]
    fn xdg_before_home() {
        check(Some("/data"), Some("/home/ada"), Some("/data/bytegauge/results.db"));
        check(None, Some("/home/ada"), Some("/home/ada/.local/share/bytegauge/results.db"));
        check(Some(""), Some("/home/ada"), Some("/home/ada/.local/share/bytegauge/results.db"));
        check(Some("data"), Some("/home/ada"), Some("/home/ada/.local/share/bytegauge/results.db"));
        check(None, None, None);
        check(Some(""), Some(""), None);
    }
}
