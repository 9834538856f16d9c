//! Messages of iperf3's control connection: the cookie, states of one byte, and JSON texts after their length.
//!
//! Never allocates more than a message may have: a length is compared with its limit before any room is made.

use bytegauge_model::end_report::at_most;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::STREAMS_MAX;

/// Bytes of a cookie: 36 characters and a zero.
pub const COOKIE_LEN: usize = 37;

/// The largest JSON text of results, bytes. A stream takes about 200, the server's own output on request some KiB.
pub const RESULTS_MAX: usize = 1 << 20;

/// Most results of data connections: those of both directions of a test.
const STREAM_RESULTS_MAX: usize = 2 * STREAMS_MAX;

/// The longest name that is kept, characters: of a version or a congestion control.
const NAME_MAX: usize = 512;

/// The longest reason of the JSON parser that is kept, characters.
const WHY_MAX: usize = 300;

/// Why a message is none of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A state of the protocol arrived where it has no meaning, or a byte that is no state: as a signed number, and the step at
    /// which it arrived.
    #[error("state {0} arrived while {1}: the peer is no iperf3 of versions 3.1 to 3.21, or the connection is damaged")]
    UnexpectedState(i8, &'static str),
    /// A JSON text is longer than its limit.
    #[error("a text of {length} bytes was announced, the limit is {limit}: the peer is no iperf3")]
    TooLong {
        /// The announced length, bytes.
        length: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// A JSON text cannot be read: the message that was expected, and the parser's reason.
    #[error("its {0} cannot be read ({1}): the peer is no iperf3 of versions 3.1 to 3.21")]
    Unreadable(&'static str, String),
    /// The server runs a test of another client.
    #[error(
        "the iperf3 server is busy: it serves one client at a time. Try again later, or start a second server with: iperf3 -s -p PORT"
    )]
    Busy,
    /// The server ended the test because of an error of its own.
    #[error("the iperf3 server ended the test: {} (error {code}, errno {errno})", meaning(*code))]
    ServerError {
        /// iperf3's number of the error.
        code: i32,
        /// The kernel's number of the error, or 0.
        errno: i32,
    },
    /// The server was stopped.
    #[error("the iperf3 server was stopped during the test: start it again with: iperf3 -s")]
    ServerStopped,
}

/// Numbers of errors that a server sends to its client, with the next step for the client's user. Observed with iperf 3.12.
const ERRORS: &[(i32, &str)] = &[
    (5, "the test is longer than it allows. Use a shorter --trial-time"),
    (6, "it allows fewer connections. Use fewer --flows"),
    (7, "it allows no blocks of this size. Use another --write-size"),
    (27, "its limit for the total rate was exceeded (--server-bitrate-limit). Use a lower --rate, or start it without"),
    (134, "it does not have the congestion control"),
    (
        142,
        "it asks for a user name and a password, which are not supported here. Start it without --rsa-private-key-path",
    ),
    (144, "it received no data for too long"),
];

fn meaning(code: i32) -> &'static str {
    let known = ERRORS.iter().find(|(known, _)| *known == code);
    known.map_or("its own output has the reason", |(_, meaning)| meaning)
}

/// The states of the control connection, a byte each.
pub(super) mod state {
    /// Server: all data connections are open.
    pub const TEST_START: u8 = 1;
    /// Server: data flows from now on.
    pub const TEST_RUNNING: u8 = 2;
    /// Client: the test is over.
    pub const TEST_END: u8 = 4;
    /// Server: the client sends its parameters next.
    pub const PARAM_EXCHANGE: u8 = 9;
    /// Server: the client opens the data connections next.
    pub const CREATE_STREAMS: u8 = 10;
    /// Server: it was stopped.
    pub const SERVER_TERMINATE: u8 = 11;
    /// Client: it was stopped.
    pub const CLIENT_TERMINATE: u8 = 12;
    /// Server: both exchange their results next, the client first.
    pub const EXCHANGE_RESULTS: u8 = 13;
    /// Server: it has the results, and shows them.
    pub const DISPLAY_RESULTS: u8 = 14;
    /// Client: it needs nothing more.
    pub const IPERF_DONE: u8 = 16;
    /// Server: it serves another client.
    pub const ACCESS_DENIED: u8 = (-1i8).cast_unsigned();
    /// Server: two numbers follow, of four bytes each.
    pub const SERVER_ERROR: u8 = (-2i8).cast_unsigned();
}

/// The name of a test: each of its connections begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie([u8; COOKIE_LEN]);

impl Cookie {
    /// A cookie of random bytes, written with the letters and digits that iperf3 uses.
    pub fn of_random(random: [u8; COOKIE_LEN - 1]) -> Cookie {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut cookie = [0; COOKIE_LEN];
        for (to, from) in cookie.iter_mut().zip(random) {
            *to = LETTERS[usize::from(from) % LETTERS.len()];
        }
        Cookie(cookie)
    }

    /// The bytes of the cookie, its zero included.
    pub fn bytes(&self) -> &[u8; COOKIE_LEN] {
        &self.0
    }
}

/// The results of one side of a test. Keys that are absent here are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestResults {
    /// CPU time of the process over the test's duration, percent.
    #[serde(deserialize_with = "fraction")]
    pub cpu_util_total: f64,
    /// The same in user mode, percent.
    #[serde(deserialize_with = "fraction")]
    pub cpu_util_user: f64,
    /// The same in the kernel, percent.
    #[serde(deserialize_with = "fraction")]
    pub cpu_util_system: f64,
    /// 1 if this side wrote and counts retransmissions, 0 if it cannot, the largest number if it only read.
    #[serde(deserialize_with = "count")]
    pub sender_has_retransmits: u64,
    /// The congestion control that was in use.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub congestion_used: Option<String>,
    /// Each data connection.
    #[serde(deserialize_with = "at_most::<STREAM_RESULTS_MAX, _, _>")]
    pub streams: Vec<StreamResult>,
}

/// The results of one data connection at one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamResult {
    /// Its number ([`stream_id`]).
    #[serde(deserialize_with = "count")]
    pub id: u64,
    /// Bytes that this side wrote or read.
    #[serde(deserialize_with = "count")]
    pub bytes: u64,
    /// Segments that were sent again; the largest number where that is not counted.
    #[serde(deserialize_with = "count")]
    pub retransmits: u64,
    /// Jitter of datagrams at the reader (RFC 3550), seconds.
    #[serde(deserialize_with = "fraction")]
    pub jitter: f64,
    /// Datagrams that the reader misses.
    #[serde(deserialize_with = "count")]
    pub errors: u64,
    /// The same during the warm-up.
    #[serde(deserialize_with = "count")]
    pub omitted_errors: u64,
    /// Datagrams sent, or at the reader the highest number that came.
    #[serde(deserialize_with = "count")]
    pub packets: u64,
    /// The same during the warm-up.
    #[serde(deserialize_with = "count")]
    pub omitted_packets: u64,
    /// When the counting began, seconds.
    #[serde(deserialize_with = "fraction")]
    pub start_time: f64,
    /// When the counting ended, seconds.
    #[serde(deserialize_with = "fraction")]
    pub end_time: f64,
}

/// The number that iperf3 shows for a value that is not counted: -1 as an unsigned number.
pub const NOT_COUNTED: u64 = u64::MAX;

/// The number of a data connection by its place: iperf3 counts 1, 3, 4, 5 and so on.
pub fn stream_id(index: usize) -> u64 {
    if index == 0 { 1 } else { index as u64 + 2 }
}

/// A JSON text after its length in four bytes, the highest first.
///
/// # Errors
/// [`ProtocolError::Unreadable`] if the value has no JSON text; both kinds of message here have one.
pub fn framed(value: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    let unreadable = |why: String| ProtocolError::Unreadable("message", why);
    let text = serde_json::to_vec(value).map_err(|error| unreadable(error.to_string()))?;
    let length = u32::try_from(text.len()).map_err(|error| unreadable(error.to_string()))?;
    Ok([&length.to_be_bytes()[..], &text].concat())
}

/// The client's first datagram on each UDP socket, as versions since 3.11 send it. Older ones send other bytes.
pub const UDP_GREETING: [u8; 4] = *b"9876";

/// The server's answer to it.
pub const UDP_ANSWER: [u8; 4] = *b"6789";

/// Reads the text of a server's results.
///
/// # Errors
/// [`ProtocolError::Unreadable`] if they are none.
pub fn results(text: &[u8]) -> Result<TestResults, ProtocolError> {
    serde_json::from_slice(text).map_err(|error| {
        // The parser repeats a text that it did not expect.
        let why = error.to_string().chars().take(WHY_MAX).collect();
        ProtocolError::Unreadable("results", why)
    })
}

/// A count as iperf3 writes it: cJSON has only floating-point numbers, some versions write negative ones or switches.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => count,
            (None, Some(negative)) if negative < 0.0 => NOT_COUNTED,
            // Rust's conversion saturates.
            (None, other) => other.unwrap_or(0.0) as u64,
        },
        Value::Bool(on) => on.into(),
        _ => 0,
    })
}

/// A name of the peer, as far as [`NAME_MAX`].
fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.map(|name| name.chars().take(NAME_MAX).collect()))
}

fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(value.as_f64().filter(|number| number.is_finite()).unwrap_or(0.0))
}

#[cfg(test)]
mod tests;
