//! Reads small files below a root directory; missing or invalid ones are `None`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The directory that replaces `/`.
#[derive(Clone, Copy)]
pub(super) struct RootFolder<'a>(&'a Path);

impl<'a> RootFolder<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self(path)
    }

    /// A path below the root. A leading slash, as in mount tables, is dropped.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// A file's text without its final newline; `None` for an empty file.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(super) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// Names in a directory, sorted; none if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}
