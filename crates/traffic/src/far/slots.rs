//! Who may measure: so many at a time, one unless the agent was told otherwise, since two disturb each other.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytegauge_model::Nanos;

/// The places of an agent.
#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    taken: Mutex<Vec<Holder>>,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    peer: IpAddr,
    until: Instant,
}

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    slots: Arc<Slots>,
}

impl Slots {
    pub(super) fn new(max: usize) -> Arc<Slots> {
        Arc::new(Slots { max, taken: Mutex::new(Vec::new()) })
    }

    /// Takes a place for so long.
    ///
    /// # Errors
    /// Who measures, and for how long still.
    pub(super) fn take(self: &Arc<Slots>, number: u64, peer: IpAddr, lasts: Duration) -> Result<Slot, String> {
        let now = Instant::now();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() < self.max {
            taken.push(Holder { number, peer, until: now + lasts });
            return Ok(Slot { number, slots: Arc::clone(self) });
        }
        let soonest = taken.iter().min_by_key(|holder| holder.until);
        Err(soonest.map_or_else(
            || "the agent lets nobody measure".into(),
            |holder| {
                // In whole seconds: nobody knows it better.
                let left = holder.until.saturating_duration_since(now).as_secs() + 1;
                format!(
                    "the agent is busy until {} from now, with a session of {}: two would disturb each other; try again \
                     then, or start the agent with --max-sessions 2",
                    Nanos(left * 1_000_000_000),
                    holder.peer
                )
            },
        ))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|holder| holder.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_at_a_time_and_comes_back() {
        let slots = Slots::new(1);
        let peer: IpAddr = [192, 0, 2, 7].into();
        let minute = Duration::from_secs(60);
        let first = slots.take(1, peer, minute).unwrap();
        let busy = slots.take(2, peer, minute).unwrap_err();
        assert!(busy.contains("busy until") && busy.contains("192.0.2.7"), "{busy}");
        drop(first);
        let _second = slots.take(3, peer, minute).unwrap();
        assert!(Slots::new(0).take(4, peer, minute).is_err());
    }
}
