//! How long something took, for people: `12.3 s`, `4 min 5 s`.

use std::time::Duration;

/// The duration as text.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 59.95 { format!("{seconds:.1} s") } else { show_minutes(seconds.round() as u64) }
}

fn show_minutes(seconds: u64) -> String {
    format!("{} min {} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(millis: u64, expected: &str) {
        assert_eq!(show(Duration::from_millis(millis)), expected);
    }

    #[test]
    fn durations() {
        check(40, "0.0 s");
        check(12_340, "12.3 s");
        check(59_990, "1 min 0 s");
        check(245_000, "4 min 5 s");
    }
}
