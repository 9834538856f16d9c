//! What the connections of a program wait for, each with the command that proves or refutes its cause. Pure.

use serde::Serialize;

use crate::check_command::tune_options;
use crate::observations::{EndView, Observed};

/// A possible cause of waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosed {
    /// The observation, and what it is consistent with.
    pub text: String,
    /// The command that shows whether it is the cause.
    pub proof: String,
}

/// The possible causes, by the end that moved most bytes.
pub(super) fn diagnosed(observed: &Observed, main: &EndView) -> Vec<Diagnosed> {
    let found = observed.connection_waits.diagnoses().into_iter();
    let proof = |option: Option<&str>| match (option, main.peers.first()) {
        (Some(option), _) => tune_options(observed, main, option),
        (None, Some(peer)) => format!("bytegauge observe --pid {}", peer.pid),
        (None, None) => "bytegauge observe --pid PEER, on its host".to_owned(),
    };
    found.map(|one| Diagnosed { text: one.text, proof: proof(one.option) }).collect()
}
