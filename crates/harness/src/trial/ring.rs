//! A trial of a ring: one end, no path. That what was submitted was completed the end has compared itself.

use std::sync::atomic::AtomicBool;

use bytegauge_model::{Implementation, Outcome};
use bytegauge_traffic::{Command, Pair, RingSetup};

use super::{Answer, Measured, PREPARE, ready, reply_or_stop};

/// Carries one trial. `None` if `stop` was set in the middle of a long one.
pub fn measure(pair: &mut Pair, setup: &RingSetup, stop: &AtomicBool) -> Option<Measured> {
    let end = &mut pair.sink;
    let opened = end.send(Command::OpenRing(Box::new(setup.clone()))).map_err(Into::into).and_then(|()| ready(end));
    if let Err(stopped) = opened {
        return Some(Measured::nothing(stopped.outcome));
    }
    if let Err(error) = end.send(Command::Go) {
        return Some(Measured::nothing(Outcome::Failed(error.to_string())));
    }
    let patience = std::time::Duration::from_nanos(setup.warmup_ns + setup.window_ns + setup.grace_ns) + PREPARE;
    let answer = Answer::of(reply_or_stop(end, patience, setup.window_ns, stop)?);
    let outcome = answer.trouble.clone().unwrap_or_else(|| judge(setup, &answer));
    Some(Measured { outcome, source: None, sink: answer.report, competing: None, pair_is_sound: answer.sound })
}

/// Whether anything was counted: completions, or the submissions of a loop that takes none.
fn judge(setup: &RingSetup, answer: &Answer) -> Outcome {
    let counted = answer.report.as_ref().and_then(|end| Some((end.window_ns, end.calls, end.ring?)));
    let Some((window_ns, completed, ring)) = counted else {
        return Outcome::Failed("the ring reported nothing".into());
    };
    let units = if setup.implementation == Implementation::LiburingUndrained { ring.submitted } else { completed };
    if units == 0 || window_ns == 0 {
        return Outcome::Failed(
            "nothing was completed within the window (the thread was kept from running): use a longer --duration"
                .into(),
        );
    }
    Outcome::Measured
}
