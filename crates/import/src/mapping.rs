//! Parses `--map`: `read_size=buf` names a column, `transport==unix` gives every row one level.

use super::ImportError;
use super::observation::Fields;
use super::target::{self, ColumnTarget};

/// The user's mappings.
pub(super) struct Mapping<'a> {
    /// Values that come from a column.
    pub(super) columns: Vec<MapEntry<'a>>,
    /// Values that are equal in all rows.
    pub(super) levels: Vec<MapEntry<'a>>,
}

/// One mapping.
pub(super) struct MapEntry<'a> {
    /// The name in bytegauge.
    pub(super) ours: &'a str,
    /// The heading in the data, or the level.
    pub(super) theirs: &'a str,
    /// The target of the name.
    pub(super) target: ColumnTarget,
}

impl<'a> Mapping<'a> {
    /// Looks up every name.
    pub(super) fn new(map: &'a [(String, String)]) -> Result<Mapping<'a>, ImportError> {
        let mut mapping = Mapping { columns: Vec::new(), levels: Vec::new() };
        for (ours, theirs) in map {
            let wrong = |reason: String| ImportError::map(ours, theirs, reason);
            let target = target::ours(ours).map_err(|hint| wrong(format!("nothing is called `{ours}`{hint}")))?;
            if mapping.columns.iter().chain(&mapping.levels).any(|pair| pair.target.key() == target.key()) {
                return Err(wrong(format!("{ours} is mapped twice: leave one of the two out")));
            }
            match theirs.strip_prefix('=') {
                Some(level) => mapping.levels.push(MapEntry { ours, theirs: level, target }),
                None => mapping.columns.push(MapEntry { ours, theirs, target }),
            }
        }
        Ok(mapping)
    }

    /// The values that are equal in all rows.
    pub(super) fn constants(&self) -> Result<Fields, ImportError> {
        let mut constants = Fields::default();
        for MapEntry { ours, theirs, target } in &self.levels {
            let wrong = |reason| ImportError::map(ours, &format!("={theirs}"), reason);
            constants.set(*target, theirs).map_err(wrong)?;
        }
        Ok(constants)
    }
}
