//! Tests of iperf3's messages.

use proptest::prelude::*;

use super::*;

/// The parameters of `iperf3 -c HOST -t 1 -b 64K -l 2K -P 2 -R`, version 3.12.
const SEEN: &str = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"reverse":true,"len":2048,"bandwidth":64000,"pacing_timer":1000,"client_version":"3.12"}"#;

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
    let mut input = ControlInput::default();
    let wrong = format!(r#"{{"streams":"{}"}}"#, "x".repeat(100_000));
    input.push(&framed(&serde_json::from_str::<Value>(&wrong).unwrap()).unwrap());
    let error = input.text::<TestResults>("results", RESULTS_MAX).unwrap_err().to_string();
    assert!(error.len() < 1000, "{}", error.len());
}

#[test]
fn parameters_are_written_as_observed() {
    let parameters = TestParameters {
        tcp: true,
        time: 1,
        parallel: 2,
        reverse: true,
        len: 2048,
        bandwidth: 64_000,
        pacing_timer: 1000,
        client_version: Some("3.12".into()),
        ..TestParameters::default()
    };
    assert_eq!(serde_json::to_value(&parameters).unwrap(), serde_json::from_str::<Value>(SEEN).unwrap());
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

#[test]
fn long_text_is_refused_before_it_arrives() {
    let mut inbox = ControlInput::default();
    inbox.push(&u32::MAX.to_be_bytes());
    let refused = inbox.text::<TestResults>("results", RESULTS_MAX).unwrap_err();
    assert_eq!(refused, ProtocolError::TooLong { length: u32::MAX as usize, limit: RESULTS_MAX });
}

proptest! {
    #[test]
    fn split_texts_are_joined(bytes: u64, packets: u64, cut in 0usize..600) {
        let streams = vec![StreamResult { bytes, packets, ..StreamResult::default() }];
        let results = TestResults { streams, ..TestResults::default() };
        let bytes = framed(&results).unwrap();
        let (first, rest) = bytes.split_at(cut.min(bytes.len()));
        let mut inbox = ControlInput::default();
        inbox.push(first);
        let early: Option<TestResults> = inbox.text("results", RESULTS_MAX).unwrap();
        prop_assert_eq!(early.is_some(), rest.is_empty());
        inbox.push(rest);
        let late = inbox.text("results", RESULTS_MAX).unwrap();
        prop_assert_eq!(early.or(late), Some(results));
    }

    #[test]
    fn cookies_are_text_with_a_zero(random: [u8; COOKIE_LEN - 1]) {
        let cookie = Cookie::of_random(random);
        let (zero, text) = cookie.bytes().split_last().unwrap();
        prop_assert!(*zero == 0 && text.iter().all(u8::is_ascii_alphanumeric));
    }
}
