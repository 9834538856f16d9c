//! Descriptions of a call's errors: which end, in which state, why, and whether bytes were lost.
//!
//! A pure function of the client's counts and of the cell's settings. Names no cause that these do not show: if two are possible,
//! both.

use bytegauge_model::{CallError, ErrorClass, ErrorPhase, Spec, Transport};

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

/// An error as a sentence. `listen_overflows` is how often a listener's queue was full meanwhile; `None` without a count of the server's
/// machine.
pub fn explain(error: &CallError, levels: &Spec, listen_overflows: Option<u64>) -> String {
    format!("{}; {}", cause(error, levels, listen_overflows), loss(error))
}

fn is_tcp(levels: &Spec) -> bool {
    levels.transport().is_some_and(Transport::is_tcp)
}

fn cause(error: &CallError, levels: &Spec, listen_overflows: Option<u64>) -> String {
    let state = state(error.phase);
    // A call is two datagrams, without a connection.
    let is_datagram = levels.transport().is_some_and(Transport::is_datagram);
    match error.class {
        ErrorClass::Refused if is_datagram => {
            "the server's address had no socket: the kernel reported this (ICMP port unreachable), or the name of the \
             Unix socket did not exist"
                .into()
        }
        ErrorClass::TimedOut if is_datagram && error.phase == ErrorPhase::Write => {
            "the request found no room within --timeout: the server's queue was full (net.unix.max_dgram_qlen)".into()
        }
        ErrorClass::TimedOut if is_datagram => {
            "no reply came within --timeout: the request or its reply was lost, or the server was slower than that".into()
        }
        ErrorClass::ShortReply if is_datagram => {
            "the reply was a shorter datagram than it should be: a server whose buffer is shorter than the request cuts \
             it off (MSG_TRUNC) and returns what is left"
                .into()
        }
        ErrorClass::LongReply if is_datagram => "the reply was a longer datagram than it should be".into(),
        ErrorClass::Reset => reset(error.phase, levels),
        ErrorClass::Refused if !is_tcp(levels) => {
            "the server's Unix socket had no listener: its server, or its name, was gone".into()
        }
        ErrorClass::Refused => {
            "the server's end refused the connection: it had no listener, or a filter refused it".into()
        }
        ErrorClass::BacklogFull => {
            format!("the server's backlog was full, which a Unix socket reports by EAGAIN (connect(2)); {LONGER_BACKLOG}")
        }
        ErrorClass::TimedOut if error.phase == ErrorPhase::Connect && is_tcp(levels) => unanswered(listen_overflows),
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
fn unanswered(listen_overflows: Option<u64>) -> String {
    let silence = "nothing answered the client's SYN within --timeout";
    match listen_overflows {
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
fn reset(phase: ErrorPhase, levels: &Spec) -> String {
    let state = state(phase);
    // How an external server closes is not known.
    let (linger_zero, is_external) = (levels.linger() == Some(0), levels.connect().is_some());
    if !is_tcp(levels) {
        return format!(
            "the server closed while the client was {state}: a Unix socket reports this by EPIPE after any close, and by \
             ECONNRESET where data lay unread (unix(7)) or the connection had not been accepted"
        );
    }
    let unread = if phase == ErrorPhase::Idle { "bytes" } else { "bytes of the request" };
    let how = match (linger_zero, is_external) {
        (true, _) => "with SO_LINGER 0, which sends RST even when all was read".to_owned(),
        (false, true) => format!("with {unread} unread, as a process that is killed may, or with SO_LINGER 0"),
        (false, false) => format!("with {unread} unread, as a process that is killed may"),
    };
    match phase {
        ErrorPhase::Connect => {
            let at_once = if linger_zero || is_external { "it was closed at once with SO_LINGER 0, " } else { "" };
            format!(
                "the connection was reset as soon as it came about: {at_once}the listener was closed while it waited to \
                 be accepted, or {ABORT_ON_OVERFLOW}"
            )
        }
        ErrorPhase::Idle => format!("the server closed a connection at rest {how}"),
        ErrorPhase::Write | ErrorPhase::FirstByte => {
            let race = match levels.connect_per_call() {
                Some(true) => "",
                _ => "; or it had closed the connection already when the request came (keep-alive race)",
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
    use bytegauge_model::{Level, Workload};

    use super::*;

    /// The transport and other levels of calls that have a connection each.
    fn levels(transport: &str, more: &[(&str, Level)]) -> Spec {
        let mut levels = Spec::of(Workload::Call);
        levels.set("transport", transport.into());
        levels.set("connect_per_call", Level::Switch(true));
        more.iter().for_each(|(name, level)| levels.set(name, level.clone()));
        levels
    }

    fn tcp() -> Spec {
        levels("tcp", &[])
    }

    fn abrupt() -> Spec {
        levels("tcp", &[("linger", Level::Number(0))])
    }

    fn external() -> Spec {
        levels("tcp", &[("connect", "127.0.0.1:80".into())])
    }

    fn error(class: ErrorClass, phase: ErrorPhase, lost: u64, missing: u64) -> CallError {
        CallError { class, phase, count: 1, request_bytes_lost: lost, reply_bytes_missing: missing }
    }

    fn unix() -> Spec {
        levels("unix", &[])
    }

    fn check(error: &CallError, of: &Spec, parts: &[&str]) {
        let text = explain(error, of, None);
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in {text}");
    }

    fn check_absent(error: &CallError, of: &Spec, parts: &[&str]) {
        let text = explain(error, of, None);
        assert!(!parts.iter().any(|part| text.contains(part)), "{parts:?} in {text}");
    }

    #[test]
    fn resets_name_their_end_and_their_cause() {
        let reset = |phase| error(ErrorClass::Reset, phase, 512, 100);
        check(
            &reset(ErrorPhase::FirstByte),
            &tcp(),
            &["closed with bytes of the request unread", "waiting for the reply"],
        );
        check(&reset(ErrorPhase::FirstByte), &tcp(), &["512 sent bytes of requests", "100 bytes of replies"]);
        check(&reset(ErrorPhase::Reply), &abrupt(), &["SO_LINGER 0", "even when all was read"]);
        check(&reset(ErrorPhase::Reply), &external(), &["request unread", "or with SO_LINGER 0"]);
    }

    #[test]
    fn idle_connections_are_closed_by_the_server() {
        let rested = error(ErrorClass::Reset, ErrorPhase::Idle, 0, 0);
        check(&rested, &tcp(), &["closed a connection at rest", "bytes unread", "killed"]);
        check_absent(&rested, &tcp(), &["SO_LINGER", "again", "request"]);
        check(&rested, &external(), &["unread", "killed", "or with SO_LINGER 0"]);
        let orderly = error(ErrorClass::ShortReply, ErrorPhase::Idle, 0, 0);
        check(&orderly, &tcp(), &["closed a connection at rest in an orderly way"]);
        check_absent(&orderly, &tcp(), &["too short"]);
    }

    #[test]
    fn request_may_follow_the_close_of_a_connection() {
        let persistent = levels("tcp", &[("connect_per_call", Level::Switch(false))]);
        for phase in [ErrorPhase::Write, ErrorPhase::FirstByte] {
            let reset = error(ErrorClass::Reset, phase, 0, 0);
            check(&reset, &persistent, &["already when the request came"]);
            check_absent(&reset, &tcp(), &["already"]);
        }
        check_absent(&error(ErrorClass::Reset, ErrorPhase::Reply, 0, 0), &persistent, &["already"]);
    }

    #[test]
    fn a_full_backlog_resets_early_and_never_refuses() {
        let sysctl = ["tcp_abort_on_overflow"];
        for phase in [ErrorPhase::Connect, ErrorPhase::Write, ErrorPhase::FirstByte] {
            check(&error(ErrorClass::Reset, phase, 0, 0), &tcp(), &sysctl);
        }
        for phase in [ErrorPhase::Reply, ErrorPhase::Idle] {
            check_absent(&error(ErrorClass::Reset, phase, 0, 0), &tcp(), &sysctl);
        }
        let refused = error(ErrorClass::Refused, ErrorPhase::Connect, 0, 0);
        check(&refused, &tcp(), &["had no listener"]);
        for of in [tcp(), unix(), external()] {
            check_absent(&refused, &of, &["backlog", "tcp_abort_on_overflow"]);
        }
        check(&refused, &unix(), &["Unix socket", "its name"]);
        check(&error(ErrorClass::BacklogFull, ErrorPhase::Connect, 0, 0), &unix(), &["backlog was full", "EAGAIN"]);
    }

    #[test]
    fn a_connection_is_reset_before_its_first_use() {
        let reset = error(ErrorClass::Reset, ErrorPhase::Connect, 0, 0);
        check(&reset, &tcp(), &["as soon as it came about", "listener was closed"]);
        check_absent(&reset, &tcp(), &["SO_LINGER"]);
        check(&reset, &abrupt(), &["at once with SO_LINGER 0"]);
    }

    #[test]
    fn a_unix_socket_tells_of_any_close() {
        for phase in [ErrorPhase::Write, ErrorPhase::FirstByte, ErrorPhase::Idle] {
            let reset = error(ErrorClass::Reset, phase, 0, 0);
            check(
                &reset,
                &unix(),
                &["the server closed while", "EPIPE after any close", "ECONNRESET where data lay unread"],
            );
            check_absent(&reset, &unix(), &["RST", "net.ipv4"]);
        }
    }

    #[test]
    fn a_backlog_was_full_where_it_was_counted() {
        let silence = error(ErrorClass::TimedOut, ErrorPhase::Connect, 0, 0);
        let counted = |overflows| explain(&silence, &tcp(), overflows);
        let check = |overflows, parts: &[&str]| {
            let text = counted(overflows);
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        check(Some(7), &["the server's backlog was full", "queue full 7 times", "a longer backlog"]);
        check(None, &["a full backlog of a machine that is not seen", "a filter", "a dead host"]);
        check(Some(0), &["no listener's queue was full here", "a filter"]);
        for uncounted in [None, Some(0)].map(counted) {
            assert!(!uncounted.contains("backlog was full") && !uncounted.contains("--backlog"), "{uncounted}");
        }
    }

    #[test]
    fn silence_leaves_the_state_of_the_connection_open() {
        check_absent(&error(ErrorClass::TimedOut, ErrorPhase::FirstByte, 0, 0), &tcp(), &["open"]);
        check_absent(&error(ErrorClass::TimedOut, ErrorPhase::Connect, 0, 0), &tcp(), &["1 s", "3 s"]);
    }

    #[test]
    fn a_reset_after_everything_arrived_loses_nothing() {
        let after = error(ErrorClass::Reset, ErrorPhase::Idle, 0, 0);
        check(&after, &abrupt(), &["SO_LINGER 0", "no byte was lost"]);
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
            check(&error(class, phase, 0, 0), &tcp(), &[part]);
        }
    }

    #[test]
    fn datagrams_are_lost_or_cut_off_never_reset() {
        let of = levels("udp", &[]);
        let check = |class, phase, part: &str| check(&error(class, phase, 0, 0), &of, &[part]);
        check(ErrorClass::TimedOut, ErrorPhase::FirstByte, "the request or its reply was lost");
        check(ErrorClass::TimedOut, ErrorPhase::Write, "queue was full");
        check(ErrorClass::Refused, ErrorPhase::FirstByte, "had no socket");
        check(ErrorClass::ShortReply, ErrorPhase::Reply, "MSG_TRUNC");
        check(ErrorClass::LongReply, ErrorPhase::Reply, "a longer datagram");
    }
}
