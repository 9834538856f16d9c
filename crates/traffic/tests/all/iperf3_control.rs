//! Target of the fuzzer (`fuzz/`), which includes this file: a server of iperf3 that sends any bytes on the control connection.

use bytegauge_traffic::iperf3::client::{ClientEvent, ControlClient};
use bytegauge_traffic::iperf3::message::{Cookie, RESULTS_MAX, TestParameters, TestResults};

/// Bytes of the answers to a peer that sends any bytes.
const ANSWERS_MAX: usize = 4096;

/// Steps a client over the input, the first byte of which cuts it into pieces.
///
/// # Panics
/// If the client answers with more than the protocol has, or asks for more room than a message may take.
pub fn control(input: &[u8]) {
    let Some((piece, bytes)) = input.split_first() else { return };
    let mut client = ControlClient::new(&Cookie::of_random([0; 36]), TestParameters::default());
    for piece in bytes.chunks(usize::from(*piece).max(1)) {
        client.received(piece);
        while let Ok(Some(event)) = client.next_event() {
            match event {
                ClientEvent::Running => client.end(),
                ClientEvent::ResultsWanted => {
                    client.results(&TestResults::default()).expect("numbers have a text");
                }
                ClientEvent::OpenStreams | ClientEvent::Results(_) => {}
            }
        }
        assert!(client.room() <= RESULTS_MAX + 4);
    }
    assert!(client.take_output().len() <= ANSWERS_MAX);
}

#[test]
fn kept_inputs_pass_the_fuzz_target() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/iperf3");
    let mut inputs = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        (0..=input.len()).for_each(|end| control(&input[..end]));
        inputs += 1;
    }
    assert!(inputs > 0);
}
