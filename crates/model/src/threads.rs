//! The number of flows and threads of a cell, by its levels.

use crate::{Engine, Spec, Transport, Workload};

/// Threads of the connecting end, and of the other one.
pub fn threads(levels: &Spec) -> [u64; 2] {
    match levels.workload() {
        Workload::Call => [
            threads_of_calls(levels, levels.client_engine(), levels.client_threads(), 0),
            threads_of_calls(
                levels,
                levels.server_engine(),
                levels.server_threads(),
                levels.competing_flows().unwrap_or(0),
            ),
        ],
        Workload::Stream => [threads_of_stream(levels); 2],
        _ => [1; 2],
    }
}

/// One per active connection in a blocking engine: a server has those of competing clients too.
fn threads_of_calls(levels: &Spec, engine: Option<Engine>, threads: Option<u64>, competing: u64) -> u64 {
    match engine {
        Some(engine) if engine.has_thread_a_flow() => flows(levels).saturating_add(competing),
        _ => threads.unwrap_or(1).max(1),
    }
}

/// One per flow, or one per direction if the engine has many connections per thread.
fn threads_of_stream(levels: &Spec) -> u64 {
    let lossy = levels.transport().is_some_and(Transport::is_datagram);
    match levels.engine() {
        Some(engine) if !lossy && engine != Engine::Null && !engine.has_thread_a_flow() => ways(levels),
        _ => flows(levels),
    }
}

/// Threads of the measuring end: the factor from its window to its thread time.
pub fn lanes(levels: &Spec) -> u64 {
    let [near, far] = threads(levels);
    if levels.workload() == Workload::Call { near } else { far }
}

/// Parallel flows of a cell, in each direction.
pub fn flows(levels: &Spec) -> u64 {
    levels.flows().unwrap_or(1).max(1).saturating_mul(ways(levels))
}

/// The number of directions at once.
pub fn ways(levels: &Spec) -> u64 {
    if levels.goes_both_ways() { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn ends_have_the_threads_of_their_engines() {
        let check = |pairs: &[(&str, &str)], expected: [u64; 2]| {
            let level = |text: &str| match text.parse() {
                Ok(number) => Level::Number(number),
                Err(_) => Level::Name(text.to_owned()),
            };
            let levels: Spec = pairs.iter().map(|(name, text)| (*name, level(text))).collect();
            assert_eq!(threads(&levels), expected, "{pairs:?}");
        };
        let stream =
            |transport, engine| [("transport", transport), ("engine", engine), ("flows", "50"), ("read_size", "4096")];
        check(&stream("tcp", "blocking"), [50, 50]);
        check(&stream("tcp", "epoll"), [1, 1]);
        check(&stream("tcp", "null"), [50, 50]);
        check(&stream("udp", "uring"), [50, 50]);
        let call = [("request", "1"), ("client_engine", "epoll"), ("flows", "50"), ("competing_flows", "20")];
        check(&[&call[..], &[("server_engine", "blocking")]].concat(), [1, 70]);
        check(&[&call[..], &[("server_engine", "epoll"), ("server_threads", "2")]].concat(), [1, 2]);
    }
}
