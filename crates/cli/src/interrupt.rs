//! SIGINT and SIGTERM: the first is a wish, the second an order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Failure, INTERRUPTED};

/// A flag that a first signal sets, for whoever goes on to end in order; a second one ends the program at once.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::failed(format!("cannot listen for interrupts: {error}")))?;
    }
    Ok(stop)
}
