//! Why a run cannot continue, with the next step.

use bytegauge_model::SessionId;
use bytegauge_store::StoreError;
use bytegauge_traffic::EndError;
use bytegauge_traffic::end::ChannelError;
use thiserror::Error;

/// Why a run cannot continue. Everything recorded before is in the store.
#[derive(Debug, Error)]
pub enum RunError {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A cell does not resolve: a bug in planning.
    #[error(transparent)]
    EndError(#[from] EndError),
    /// The ends cannot be started.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The stored plan cannot be read.
    #[error(
        "session {0} was begun by an older version of bytegauge and cannot be resumed: run it again without --resume"
    )]
    OldPlan(SessionId),
    /// All its analyses are complete.
    #[error(
        "session {session} is over (analyses: {looks} of {looks}): its number of analyses was fixed at the start, since further \
 ones could find a significant result by chance. Show it with `bytegauge report {session}`, or measure \
 a new session without --resume"
    )]
    Over {
        /// The session.
        session: SessionId,
        /// Its number of analyses.
        looks: u64,
    },
    /// The machine was restarted since, or is another one.
    #[error(
        "session {session} cannot be resumed: it was begun {place}, and its results hold for one machine in \
 one boot: show it with `bytegauge report {session}`, or run it again without --resume"
    )]
    Elsewhere {
        /// The session.
        session: SessionId,
        /// Where it was begun.
        place: &'static str,
    },
}
