//! Tests of iperf3's messages.

use proptest::prelude::*;

use super::*;

/// TestResults of a server of version 3.12.
const RESULTS_SEEN: &str = r#"{"cpu_util_total":0.0665,"cpu_util_user":0,"cpu_util_system":0.0665,"sender_has_retransmits":18446744073709551615,"streams":[{"id":1,"bytes":8000,"retransmits":18446744073709551615,"jitter":0.001714541990775615,"errors":0,"packets":8,"start_time":0,"end_time":1.002283}]}"#;

#[test]
fn results_take_bounded_memory() {
    let text = |count: usize| format!(r#"{{"streams":[{}]}}"#, vec!["{}"; count].join(","));
    let read = |count: usize| serde_json::from_str::<TestResults>(&text(count)).map(|results| results.streams.len());
    assert_eq!(read(2 * STREAMS_MAX).unwrap(), 256);
    assert!(read(2 * STREAMS_MAX + 1).unwrap_err().to_string().contains("257"));
    let long = format!(r#"{{"congestion_used":"{}"}}"#, "ä".repeat(100_000));
    let results: TestResults = serde_json::from_str(&long).unwrap();
    assert_eq!(results.congestion_used.unwrap().chars().count(), NAME_MAX);
    let wrong = format!(r#"{{"streams":"{}"}}"#, "x".repeat(100_000));
    let error = super::results(wrong.as_bytes()).unwrap_err().to_string();
    assert!(error.len() < 1000, "{}", error.len());
}

#[test]
fn observed_results_are_read() {
    let results: TestResults = serde_json::from_str(RESULTS_SEEN).unwrap();
    let stream = &results.streams[0];
    assert_eq!((stream.bytes, stream.packets, stream.retransmits), (8000, 8, NOT_COUNTED));
    assert!((stream.jitter - 0.001_714_5).abs() < 1e-6);
}

#[test]
fn odd_numbers_are_read() {
    let check = |text: &str, expected: u64| {
        let stream: StreamResult = serde_json::from_str(&format!(r#"{{"bytes":{text}}}"#)).unwrap();
        assert_eq!(stream.bytes, expected, "{text}");
    };
    check("1e+11", 100_000_000_000);
    check("-1", NOT_COUNTED);
    check("1e300", u64::MAX);
    check("true", 1);
    check("null", 0);
}

#[test]
fn stream_numbers_skip_two() {
    assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
}

proptest! {
    #[test]
    fn texts_follow_their_length(bytes: u64, packets: u64) {
        let streams = vec![StreamResult { bytes, packets, ..StreamResult::default() }];
        let sent = TestResults { streams, ..TestResults::default() };
        let bytes = framed(&sent).unwrap();
        let (length, text) = bytes.split_at(4);
        prop_assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, text.len());
        prop_assert_eq!(results(text), Ok(sent));
    }

    #[test]
    fn cookies_are_text_with_a_zero(random: [u8; COOKIE_LEN - 1]) {
        let cookie = Cookie::of_random(random);
        let (zero, text) = cookie.bytes().split_last().unwrap();
        prop_assert!(*zero == 0 && text.iter().all(u8::is_ascii_alphanumeric));
    }
}
