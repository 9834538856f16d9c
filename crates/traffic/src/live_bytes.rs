//! Bytes that the measuring ends of this process have moved by now, for a listing that is printed while a trial runs.
//!
//! Off unless a listing was asked for. Each meter then stores its count once a lap in a place of its own, without a locked
//! instruction. Ends that are processes of their own have no place here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

static IS_ON: AtomicBool = AtomicBool::new(false);
static PLACES: Mutex<LivePlaces> = Mutex::new(LivePlaces { over: 0, places: Vec::new() });

struct LivePlaces {
    /// Bytes of meters that are gone.
    over: u64,
    places: Vec<Arc<AtomicU64>>,
}

/// Lets meters that are made from now on store their counts.
pub fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// A place for one meter's count. `None`: no listing was asked for.
pub(crate) fn place() -> Option<Arc<AtomicU64>> {
    if !IS_ON.load(Ordering::Relaxed) {
        return None;
    }
    let place = Arc::new(AtomicU64::new(0));
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).places.push(Arc::clone(&place));
    Some(place)
}

/// Bytes of all meters so far. It never falls.
pub fn total() -> u64 {
    let mut all = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let LivePlaces { over, places } = &mut *all;
    let count = |place: &Arc<AtomicU64>| place.load(Ordering::Relaxed);
    places.retain(|place| {
        // Only this list still has it: its meter is gone.
        let is_over = Arc::strong_count(place) == 1;
        *over += if is_over { count(place) } else { 0 };
        !is_over
    });
    *over + places.iter().map(count).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_meters_that_are_gone_stay() {
        switch_on();
        let before = total();
        let place = place().unwrap();
        place.store(5, Ordering::Relaxed);
        assert!(total() >= before + 5);
        drop(place);
        // Other tests of this process may count meanwhile.
        assert!(total() >= before + 5);
    }
}
