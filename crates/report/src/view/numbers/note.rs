//! A note of a session: a text, and what other code needs to know about it.

use std::borrow::Borrow;
use std::ops::Deref;

use bytegauge_model::GroupId;
use bytegauge_model::session::{self, NoteKind};
use serde::Serialize;

/// A note of a session. The document has its text alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Note {
    /// The group that it is about; `None` for the session.
    pub group: Option<GroupId>,
    /// Its subject.
    pub kind: NoteKind,
    /// The text, after the name of the group.
    text: String,
    /// Where the own text begins, in bytes.
    own_at: usize,
}

impl Note {
    /// A note that the session stored.
    pub fn stored(text: &str) -> Note {
        Note { group: None, kind: session::kind_of_note(text), text: text.to_owned(), own_at: 0 }
    }

    /// A note about the session.
    pub fn of_session(text: String) -> Note {
        Note { group: None, kind: NoteKind::Other, text, own_at: 0 }
    }

    /// A note about a group.
    pub fn of_group(group: &GroupId, own: &str) -> Note {
        let own_at = group.0.len() + ": ".len();
        Note { group: Some(group.clone()), kind: NoteKind::Other, text: format!("{group}: {own}"), own_at }
    }

    /// The text without the name of the group.
    pub fn own(&self) -> &str {
        &self.text[self.own_at..]
    }
}

impl From<Note> for String {
    fn from(note: Note) -> String {
        note.text
    }
}

impl Deref for Note {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Borrow<str> for Note {
    fn borrow(&self) -> &str {
        &self.text
    }
}
