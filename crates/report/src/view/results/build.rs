//! Builds findings number by number, and next steps. Numbers that are not known are left out.

use std::collections::BTreeMap;

use bytegauge_model::{CellId, GroupId};
use serde_json::Value;

use super::super::document::{Finding, FindingKind, NextStep, Severity};

/// A finding without numbers and text.
pub fn found(kind: FindingKind, severity: Severity) -> Finding {
    Finding {
        kind,
        severity,
        test: None,
        option: None,
        other: None,
        numbers: BTreeMap::new(),
        names: BTreeMap::new(),
        text: String::new(),
    }
}

impl Finding {
    pub(super) fn test(self, id: &GroupId) -> Finding {
        Finding { test: Some(id.clone()), ..self }
    }

    pub(super) fn option(self, id: &CellId) -> Finding {
        Finding { option: Some(id.clone()), ..self }
    }

    pub(super) fn other(self, id: Option<&CellId>) -> Finding {
        Finding { other: id.cloned(), ..self }
    }

    /// Adds a number that is known.
    pub(super) fn number(mut self, name: &'static str, value: Option<f64>) -> Finding {
        self.numbers.extend(value.filter(|value| value.is_finite()).map(|value| (name, value)));
        self
    }

    pub(super) fn name(mut self, name: &'static str, value: impl Into<Value>) -> Finding {
        self.names.insert(name, value.into());
        self
    }

    /// With a text that another module settles together with its numbers.
    pub(super) fn with_text(self, text: String) -> Finding {
        Finding { text, ..self }
    }
}

/// A next step that is a command.
pub fn step(command: &str, text: &str) -> NextStep {
    NextStep { command: Some(command.to_owned()), text: text.to_owned() }
}

/// A next step without a command.
pub fn words(text: &str) -> NextStep {
    NextStep { command: None, text: text.to_owned() }
}
