//! Descriptions of a call's errors: which end, in which state, why, and whether bytes were lost.
//!
//! A pure function of the client's counts and of the cell's settings. Names no cause that these do not show: if two are possible,
//! both.

use bytegauge_model::{CallError, ErrorClass, ErrorPhase, Spec};

/// The settings of a cell that determine the cause of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The connections use TCP.
    pub tcp: bool,
    /// There are no connections: a call is two datagrams.
    pub datagrams: bool,
    /// The server closes with `SO_LINGER` 0.
    pub linger_zero: bool,
    /// Every call has a connection of its own.
    pub connect_per_call: bool,
    /// The server is external: how it closes its connections is unknown.
    pub external: bool,
    /// How often a listener's queue was full meanwhile; `None` without a count of the server's machine.
    pub listen_overflows: Option<u64>,
}

impl Circumstances {
    /// Those of a cell, with its trials' counts of full queues.
    pub fn of(levels: &Spec, listen_overflows: Option<u64>) -> Circumstances {
        Circumstances {
            tcp: levels.transport().is_some_and(bytegauge_model::Transport::is_tcp),
            datagrams: levels.transport().is_some_and(bytegauge_model::Transport::is_datagram),
            linger_zero: levels.linger() == Some(0),
            connect_per_call: levels.connect_per_call() == Some(true),
            external: levels.connect().is_some(),
            listen_overflows,
        }
    }
}

/// Advice to a user where nearly all calls have an error of this class.
pub fn remedy_of(class: ErrorClass) -> Option<&'static str> {
    Some(match class {
        ErrorClass::Refused => "start the server, or check its address",
        ErrorClass::Unreachable => "check the address of the server and the route to it",
        ErrorClass::TimedOut => "give a longer --timeout, or check that the server answers each request",
        ErrorClass::ShortReply | ErrorClass::LongReply => {
            "check that the server answers --request bytes with --response bytes"
        }
        ErrorClass::NoDescriptor => "raise the limit (ulimit -n), or use fewer --flows",
        _ => return None,
    })
}

/// An error as a sentence.
pub fn explain(error: &CallError, of: &Circumstances) -> String {
    format!("{}; {}", cause(error, of), loss(error))
}

fn cause(error: &CallError, of: &Circumstances) -> String {
    let state = state(error.phase);
    match error.class {
        ErrorClass::Refused if of.datagrams => {
            "the server's address had no socket: the kernel reported this (ICMP port unreachable), or the name of the \
             Unix socket did not exist"
                .into()
        }
        ErrorClass::TimedOut if of.datagrams && error.phase == ErrorPhase::Write => {
            "the request found no room within --timeout: the server's queue was full (net.unix.max_dgram_qlen)".into()
        }
        ErrorClass::TimedOut if of.datagrams => {
            "no reply came within --timeout: the request or its reply was lost, or the server was slower than that".into()
        }
        ErrorClass::ShortReply if of.datagrams => {
            "the reply was a shorter datagram than it should be: a server whose buffer is shorter than the request cuts \
             it off (MSG_TRUNC) and returns what is left"
                .into()
        }
        ErrorClass::LongReply if of.datagrams => "the reply was a longer datagram than it should be".into(),
        ErrorClass::Reset => reset(error.phase, of),
        ErrorClass::Refused if !of.tcp => {
            "the server's Unix socket had no listener: its server, or its name, was gone".into()
        }
        ErrorClass::Refused => {
            "the server's end refused the connection: it had no listener, or a filter refused it".into()
        }
        ErrorClass::BacklogFull => {
            format!("the server's backlog was full, which a Unix socket reports by EAGAIN (connect(2)); {LONGER_BACKLOG}")
        }
        ErrorClass::TimedOut if error.phase == ErrorPhase::Connect && of.tcp => unanswered(of),
        ErrorClass::TimedOut if error.phase == ErrorPhase::Connect => {
            "the server did not take the connection within --timeout".into()
        }
        ErrorClass::TimedOut => {
            format!("the server's end was silent: no answer within --timeout while the client was {state}")
        }
        ErrorClass::ShortReply if error.phase == ErrorPhase::Idle => {
            "the server closed a connection at rest in an orderly way (FIN)".into()
        }
        ErrorClass::ShortReply => {
            format!("the server closed in an orderly way (FIN) while the client was {state}: its reply is too short")
        }
        ErrorClass::LongReply => "the server sent more bytes than the reply has: it uses another protocol".into(),
        ErrorClass::Corrupt => "the reply holds other bytes than the server should send".into(),
        ErrorClass::NoPort => {
            "the client's end had no local port left (EADDRNOTAVAIL): closed connections keep theirs \
                               in TIME_WAIT for 60 s at the end that closed first"
                .into()
        }
        ErrorClass::NoDescriptor => "the client's end had no descriptor left (EMFILE): raise ulimit -n, or use fewer \
                                     flows"
            .into(),
        ErrorClass::Unreachable => "the server's host or network cannot be reached".into(),
        ErrorClass::Other(errno) => {
            format!("the client's end saw the error number {errno} (errno(3)) while it was {state}")
        }
    }
}

/// A full backlog drops a SYN silently (listen(2)), as a filter does; only the server's kernel counts it.
fn unanswered(of: &Circumstances) -> String {
    let silence = "nothing answered the client's SYN within --timeout";
    match of.listen_overflows {
        Some(0) => format!(
            "{silence}, and no listener's queue was full here meanwhile: a filter, a dead host, or a full backlog of \
             another machine behind the address"
        ),
        Some(times) => format!(
            "the server's backlog was full: {silence}, and the kernel found a listener's queue full {times} times \
             meanwhile; {LONGER_BACKLOG}"
        ),
        None => format!("{silence}: a full backlog of a machine that is not seen from here, a filter, or a dead host"),
    }
}

/// The remedy of a full backlog.
const LONGER_BACKLOG: &str = "a longer backlog (listen(2), --backlog here) or a server that accepts faster avoids it";

/// A reset comes from the end that closed: close(2) sends RST instead of FIN if data is unread (RFC 2525, 2.17), and if
/// `SO_LINGER` is 0, even if all was read and delivered (socket(7), tcp(7)). Data that arrives after a close is answered with
/// RST too (RFC 9293, 3.10.7).
fn reset(phase: ErrorPhase, of: &Circumstances) -> String {
    let state = state(phase);
    if !of.tcp {
        return format!(
            "the server closed while the client was {state}: a Unix socket reports this by EPIPE after any close, and by \
             ECONNRESET where data lay unread (unix(7)) or the connection had not been accepted"
        );
    }
    let unread = if phase == ErrorPhase::Idle { "bytes" } else { "bytes of the request" };
    let how = match (of.linger_zero, of.external) {
        (true, _) => "with SO_LINGER 0, which sends RST even when all was read".to_owned(),
        (false, true) => format!("with {unread} unread, as a process that is killed may, or with SO_LINGER 0"),
        (false, false) => format!("with {unread} unread, as a process that is killed may"),
    };
    match phase {
        ErrorPhase::Connect => {
            let at_once = if of.linger_zero || of.external { "it was closed at once with SO_LINGER 0, " } else { "" };
            format!(
                "the connection was reset as soon as it came about: {at_once}the listener was closed while it waited to \
                 be accepted, or {ABORT_ON_OVERFLOW}"
            )
        }
        ErrorPhase::Idle => format!("the server closed a connection at rest {how}"),
        ErrorPhase::Write | ErrorPhase::FirstByte => {
            let race = match of.connect_per_call {
                true => "",
                false => "; or it had closed the connection already when the request came (keep-alive race)",
            };
            format!("the server closed {how}, while the client was {state}{race}; or {ABORT_ON_OVERFLOW}")
        }
        ErrorPhase::Reply => {
            format!("the server closed {how}, while the client was {state}: a reply on its way may be lost")
        }
    }
}

/// The handshake ends with an acknowledgement: its sender is connected before the listener finds no room for it.
const ABORT_ON_OVERFLOW: &str = "its backlog was full and net.ipv4.tcp_abort_on_overflow is set";

fn state(phase: ErrorPhase) -> &'static str {
    match phase {
        ErrorPhase::Connect => "connecting",
        ErrorPhase::Write => "sending the request",
        ErrorPhase::FirstByte => "waiting for the reply",
        ErrorPhase::Reply => "in the middle of the reply",
        ErrorPhase::Idle => "between two calls",
    }
}

fn loss(error: &CallError) -> String {
    match (error.request_bytes_lost, error.reply_bytes_missing) {
        (0, 0) => "no byte was lost".into(),
        (0, missing) => format!("{missing} bytes of replies did not arrive"),
        (lost, 0) => format!("{lost} sent bytes of requests were lost"),
        (lost, missing) => {
            format!("{lost} sent bytes of requests were lost and {missing} bytes of replies did not arrive")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Circumstances = Circumstances {
        tcp: true,
        datagrams: false,
        linger_zero: false,
        connect_per_call: true,
        external: false,
        listen_overflows: None,
    };

    fn error(class: ErrorClass, phase: ErrorPhase, lost: u64, missing: u64) -> CallError {
        CallError { class, phase, count: 1, request_bytes_lost: lost, reply_bytes_missing: missing }
    }

    const UNIX: Circumstances = Circumstances { tcp: false, ..PLAIN };

    fn check(error: &CallError, of: &Circumstances, parts: &[&str]) {
        let text = explain(error, of);
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in {text}");
    }

    fn check_absent(error: &CallError, of: &Circumstances, parts: &[&str]) {
        let text = explain(error, of);
        assert!(!parts.iter().any(|part| text.contains(part)), "{parts:?} in {text}");
    }

    #[test]
    fn resets_name_their_end_and_their_cause() {
        let reset = |phase| error(ErrorClass::Reset, phase, 512, 100);
        check(
            &reset(ErrorPhase::FirstByte),
            &PLAIN,
            &["closed with bytes of the request unread", "waiting for the reply"],
        );
        check(&reset(ErrorPhase::FirstByte), &PLAIN, &["512 sent bytes of requests", "100 bytes of replies"]);
        let abrupt = Circumstances { linger_zero: true, ..PLAIN };
        check(&reset(ErrorPhase::Reply), &abrupt, &["SO_LINGER 0", "even when all was read"]);
        let external = Circumstances { external: true, ..PLAIN };
        check(&reset(ErrorPhase::Reply), &external, &["request unread", "or with SO_LINGER 0"]);
    }

    #[test]
    fn idle_connections_are_closed_by_the_server() {
        let rested = error(ErrorClass::Reset, ErrorPhase::Idle, 0, 0);
        check(&rested, &PLAIN, &["closed a connection at rest", "bytes unread", "killed"]);
        check_absent(&rested, &PLAIN, &["SO_LINGER", "again", "request"]);
        check(&rested, &Circumstances { external: true, ..PLAIN }, &["unread", "killed", "or with SO_LINGER 0"]);
        let orderly = error(ErrorClass::ShortReply, ErrorPhase::Idle, 0, 0);
        check(&orderly, &PLAIN, &["closed a connection at rest in an orderly way"]);
        check_absent(&orderly, &PLAIN, &["too short"]);
    }

    #[test]
    fn request_may_follow_the_close_of_a_connection() {
        let persistent = Circumstances { connect_per_call: false, ..PLAIN };
        for phase in [ErrorPhase::Write, ErrorPhase::FirstByte] {
            let reset = error(ErrorClass::Reset, phase, 0, 0);
            check(&reset, &persistent, &["already when the request came"]);
            check_absent(&reset, &PLAIN, &["already"]);
        }
        check_absent(&error(ErrorClass::Reset, ErrorPhase::Reply, 0, 0), &persistent, &["already"]);
    }

    #[test]
    fn a_full_backlog_resets_early_and_never_refuses() {
        let sysctl = ["tcp_abort_on_overflow"];
        for phase in [ErrorPhase::Connect, ErrorPhase::Write, ErrorPhase::FirstByte] {
            check(&error(ErrorClass::Reset, phase, 0, 0), &PLAIN, &sysctl);
        }
        for phase in [ErrorPhase::Reply, ErrorPhase::Idle] {
            check_absent(&error(ErrorClass::Reset, phase, 0, 0), &PLAIN, &sysctl);
        }
        let refused = error(ErrorClass::Refused, ErrorPhase::Connect, 0, 0);
        check(&refused, &PLAIN, &["had no listener"]);
        for of in [PLAIN, UNIX, Circumstances { external: true, ..PLAIN }] {
            check_absent(&refused, &of, &["backlog", "tcp_abort_on_overflow"]);
        }
        check(&refused, &UNIX, &["Unix socket", "its name"]);
        check(&error(ErrorClass::BacklogFull, ErrorPhase::Connect, 0, 0), &UNIX, &["backlog was full", "EAGAIN"]);
    }

    #[test]
    fn a_connection_is_reset_before_its_first_use() {
        let reset = error(ErrorClass::Reset, ErrorPhase::Connect, 0, 0);
        check(&reset, &PLAIN, &["as soon as it came about", "listener was closed"]);
        check_absent(&reset, &PLAIN, &["SO_LINGER"]);
        check(&reset, &Circumstances { linger_zero: true, ..PLAIN }, &["at once with SO_LINGER 0"]);
    }

    #[test]
    fn a_unix_socket_tells_of_any_close() {
        for phase in [ErrorPhase::Write, ErrorPhase::FirstByte, ErrorPhase::Idle] {
            let reset = error(ErrorClass::Reset, phase, 0, 0);
            check(
                &reset,
                &UNIX,
                &["the server closed while", "EPIPE after any close", "ECONNRESET where data lay unread"],
            );
            check_absent(&reset, &UNIX, &["RST", "net.ipv4"]);
        }
    }

    #[test]
    fn a_backlog_was_full_where_it_was_counted() {
        let silence = error(ErrorClass::TimedOut, ErrorPhase::Connect, 0, 0);
        let counted = |listen_overflows| Circumstances { listen_overflows, ..PLAIN };
        check(
            &silence,
            &counted(Some(7)),
            &["the server's backlog was full", "queue full 7 times", "a longer backlog"],
        );
        check(&silence, &counted(None), &["a full backlog of a machine that is not seen", "a filter", "a dead host"]);
        check(&silence, &counted(Some(0)), &["no listener's queue was full here", "a filter"]);
        for uncounted in [counted(None), counted(Some(0))] {
            check_absent(&silence, &uncounted, &["backlog was full", "--backlog"]);
        }
    }

    #[test]
    fn silence_leaves_the_state_of_the_connection_open() {
        check_absent(&error(ErrorClass::TimedOut, ErrorPhase::FirstByte, 0, 0), &PLAIN, &["open"]);
        check_absent(&error(ErrorClass::TimedOut, ErrorPhase::Connect, 0, 0), &PLAIN, &["1 s", "3 s"]);
    }

    #[test]
    fn a_reset_after_everything_arrived_loses_nothing() {
        let after = error(ErrorClass::Reset, ErrorPhase::Idle, 0, 0);
        check(&after, &Circumstances { linger_zero: true, ..PLAIN }, &["SO_LINGER 0", "no byte was lost"]);
    }

    #[test]
    fn every_class_names_an_end() {
        let classes = [
            (ErrorClass::Refused, ErrorPhase::Connect, "the server's end refused"),
            (ErrorClass::TimedOut, ErrorPhase::Connect, "nothing answered the client's SYN"),
            (ErrorClass::TimedOut, ErrorPhase::FirstByte, "the server's end was silent"),
            (ErrorClass::ShortReply, ErrorPhase::Reply, "the server closed in an orderly way"),
            (ErrorClass::LongReply, ErrorPhase::Reply, "the server sent more bytes"),
            (ErrorClass::Corrupt, ErrorPhase::Reply, "the server should send"),
            (ErrorClass::NoPort, ErrorPhase::Connect, "the client's end had no local port"),
            (ErrorClass::NoDescriptor, ErrorPhase::Connect, "the client's end had no descriptor"),
            (ErrorClass::Unreachable, ErrorPhase::Connect, "the server's host"),
            (ErrorClass::Other(71), ErrorPhase::Write, "the client's end saw the error number 71"),
        ];
        for (class, phase, part) in classes {
            check(&error(class, phase, 0, 0), &PLAIN, &[part]);
        }
    }

    #[test]
    fn datagrams_are_lost_or_cut_off_never_reset() {
        let of = Circumstances { tcp: false, datagrams: true, ..PLAIN };
        let check = |class, phase, part: &str| check(&error(class, phase, 0, 0), &of, &[part]);
        check(ErrorClass::TimedOut, ErrorPhase::FirstByte, "the request or its reply was lost");
        check(ErrorClass::TimedOut, ErrorPhase::Write, "queue was full");
        check(ErrorClass::Refused, ErrorPhase::FirstByte, "had no socket");
        check(ErrorClass::ShortReply, ErrorPhase::Reply, "MSG_TRUNC");
        check(ErrorClass::LongReply, ErrorPhase::Reply, "a longer datagram");
    }
}
