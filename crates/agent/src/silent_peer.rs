//! Detects a peer that disappears silently, by the kernel alone, so that no timer runs during a trial.
//!
//! Two timers of the kernel share the work (tcp(7)). While nothing is in flight, keepalive probes the peer. While data is in
//! flight, keepalive pauses, and `TCP_USER_TIMEOUT` counts from the first retransmission: data sent to a peer that died a
//! moment ago would restart that time. [`before_sending`] therefore subtracts the time since the peer was last heard from.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytegauge_sys::option;
use bytegauge_sys::tcp_info::tcp_info;
use bytegauge_traffic::EndError;
use socket2::{SockRef, TcpKeepalive};

/// How long a peer may be silent before it counts as gone, ms.
const SILENT_MS: u64 = 5_000;

/// Least time that data may stay unacknowledged, ms: enough to retransmit a lost segment.
const UNDER_WAY_MIN_MS: u64 = 1_000;

/// How long a session is kept after its line broke.
const KEPT: Duration = Duration::from_millis(4_500);

/// How long a session is kept after its peer was last heard from. Both sides promise to be free within 10 s.
const KEPT_AFTER_SILENCE: Duration = Duration::from_millis(9_500);

/// Enables detection of a dead host or network: after 2 s of silence the kernel probes every second, and gives up after
/// [`SILENT_MS`].
pub(super) fn watch(stream: &TcpStream) -> Result<(), EndError> {
    let socket = SockRef::from(stream);
    let second = Duration::from_secs(1);
    let probes = TcpKeepalive::new().with_time(2 * second).with_interval(second).with_retries(3);
    let patience = Some(Duration::from_millis(SILENT_MS));
    let watched = socket.set_tcp_keepalive(&probes).and_then(|()| socket.set_tcp_user_timeout(patience));
    watched.map_err(EndError::io("watching for a silent peer"))
}

/// Limits how long the next data may stay unacknowledged.
pub(super) fn before_sending(line: &impl AsFd) {
    let silent_ms = silence(line).as_millis().min(u128::from(SILENT_MS)) as u64;
    let left_ms = (SILENT_MS - silent_ms).max(UNDER_WAY_MIN_MS);
    // If it fails, a dead peer is detected later.
    let _ = option::set(line.as_fd(), &option::USER_TIMEOUT.to(left_ms));
}

/// When the peer of a line was last heard from; now, if the kernel does not report it.
pub(super) fn last_heard(line: &impl AsFd) -> Instant {
    let now = Instant::now();
    now.checked_sub(silence(line)).unwrap_or(now)
}

/// How long to keep a session whose line breaks now, given when its peer was last heard from.
pub(super) fn kept_until(last_heard: Instant) -> Instant {
    (Instant::now() + KEPT).min(last_heard + KEPT_AFTER_SILENCE)
}

fn silence(line: &impl AsFd) -> Duration {
    let last_ack_ms = tcp_info(line.as_fd()).ok().and_then(|info| info.last_ack_ms);
    Duration::from_millis(last_ack_ms.unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use bytegauge_sys::option::Value;

    use super::*;

    fn timeout_ms(stream: &TcpStream) -> u64 {
        match option::read(stream.as_fd(), option::USER_TIMEOUT) {
            Ok(Value::Number(ms)) => ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn silence_counts_against_data_under_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        watch(&stream).unwrap();
        assert_eq!(timeout_ms(&stream), SILENT_MS);
        // No message is sent meanwhile. The kernel counts in ticks of at most 10 ms.
        std::thread::sleep(Duration::from_millis(300));
        before_sending(&stream);
        let left_ms = timeout_ms(&stream);
        assert!((UNDER_WAY_MIN_MS..=SILENT_MS - 290).contains(&left_ms), "{left_ms}");
        assert!(last_heard(&stream) <= Instant::now() - Duration::from_millis(290));
    }

    #[test]
    fn silence_shortens_the_time_a_session_is_kept() {
        let now = Instant::now();
        let check = |silent_ms: u64, kept_ms: u64| {
            let until = kept_until(now.checked_sub(Duration::from_millis(silent_ms)).unwrap());
            let expected = now + Duration::from_millis(kept_ms);
            assert!(until >= expected && until < expected + Duration::from_secs(60), "{silent_ms}");
        };
        check(0, 4_500);
        check(5_000, 4_500);
        assert_eq!(kept_until(now - Duration::from_millis(6_500)), now + Duration::from_millis(3_000));
        assert!(kept_until(now - Duration::from_secs(20)) < now);
    }
}
