//! Whether an engine ran in the mode that was asked for: its own counters have to prove it.

use bytegauge_model::{Engine, EngineReport};

use crate::engine::uring;

/// What the report fails to prove, if anything: a mode that was asked for but did not run fails its cell.
pub fn unproven(engine: Engine, report: &EngineReport) -> Option<String> {
    match engine {
        Engine::Uring(mode) => uring::unproven(mode, report),
        Engine::Blocking | Engine::Null | Engine::Epoll(_) | Engine::Tokio => None,
        Engine::Plain | Engine::Mmsg | Engine::Gso => None,
    }
}
