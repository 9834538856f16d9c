//! `--map`, taken apart: `read_size=buf` names a column, `transport==unix` gives every row one level.

use super::ImportError;
use super::observation::Fields;
use super::target::{self, Target};

/// What the user mapped.
pub(super) struct Mapping<'a> {
    /// Things that a column says.
    pub(super) columns: Vec<Pair<'a>>,
    /// Things that every row says alike.
    pub(super) levels: Vec<Pair<'a>>,
}

/// One mapping.
pub(super) struct Pair<'a> {
    /// Our name.
    pub(super) ours: &'a str,
    /// Their heading, or the level.
    pub(super) theirs: &'a str,
    /// What our name stands for.
    pub(super) target: Target,
}

impl<'a> Mapping<'a> {
    /// Looks up every name on our side.
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
                Some(level) => mapping.levels.push(Pair { ours, theirs: level, target }),
                None => mapping.columns.push(Pair { ours, theirs, target }),
            }
        }
        Ok(mapping)
    }

    /// What every row says alike.
    pub(super) fn constants(&self) -> Result<Fields, ImportError> {
        let mut constants = Fields::default();
        for Pair { ours, theirs, target } in &self.levels {
            constants.set(*target, theirs).map_err(|reason| ImportError::MapLevel {
                ours: (*ours).to_owned(),
                theirs: format!("={theirs}"),
                reason,
            })?;
        }
        Ok(constants)
    }
}
