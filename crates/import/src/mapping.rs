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
            let given = || (ours.clone(), theirs.clone());
            let target = target::ours(ours).map_err(|hint| {
                let (ours, theirs) = given();
                ImportError::MapUnknown { ours, theirs, hint }
            })?;
            if mapping.columns.iter().chain(&mapping.levels).any(|pair| pair.target.key() == target.key()) {
                let (ours, theirs) = given();
                return Err(ImportError::MapTwice { ours, theirs });
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
            constants.set(*target, theirs).map_err(|reason| ImportError::MapLevel {
                ours: (*ours).to_owned(),
                theirs: format!("={theirs}"),
                reason,
            })?;
        }
        Ok(constants)
    }
}
