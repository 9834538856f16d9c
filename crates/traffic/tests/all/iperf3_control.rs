//! Target of the fuzzer (`fuzz/`), which includes this file: a server of iperf3 that sends any bytes on the control connection.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bytegauge_traffic::iperf3::client::ControlConnection;
use bytegauge_traffic::iperf3::message::{Cookie, TestResults};
use serde_json::Value;

/// Bytes of the answers to a peer that sends any bytes.
const ANSWERS_MAX: usize = 4096;

/// Steps a client whose server sends these bytes, as many as a socket takes, and then no more: what the client sent.
///
/// # Panics
/// If the client answers with more than the protocol has.
pub fn control(input: &[u8]) -> Vec<u8> {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    // While a duplicate is open, bytes that the client leaves do not reset the connection.
    let _open = ours.try_clone();
    theirs.set_nonblocking(true).expect("a socket can be made so");
    let _ = theirs.write(input);
    theirs.shutdown(std::net::Shutdown::Write).expect("an open socket");
    let (server, cookie) = (([127, 0, 0, 1], 5201).into(), Cookie::of_random([0; 36]));
    let greeted = ControlConnection::greeted(OwnedFd::from(ours).into(), server, cookie);
    if let Ok(mut control) = greeted {
        let begun =
            control.await_streams(&Value::Null).and_then(|()| control.await_data()).and_then(|()| control.end());
        let _ = begun.and_then(|()| control.exchange(&TestResults::default()));
    }
    let mut answers = Vec::new();
    let _no_more = theirs.read_to_end(&mut answers);
    assert!(answers.len() <= ANSWERS_MAX);
    answers
}

#[test]
fn kept_inputs_pass_the_fuzz_target() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/iperf3");
    let mut inputs = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        (0..=input.len()).for_each(|end| drop(control(&input[..end])));
        inputs += 1;
    }
    assert!(inputs > 0);
    // IPERF_DONE: the whole protocol was gone through.
    assert_eq!(control(include_bytes!("../../../../fuzz/corpus/iperf3/server")).last(), Some(&16));
}
