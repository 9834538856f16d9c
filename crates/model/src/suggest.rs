//! The known name that an unknown one probably means: a synonym from the table, or the nearest by spelling.
//!
//! Options, keys of plans, levels and columns of tables use the same table. Nothing is accepted by it: it only makes the
//! advice of an error.

use crate::unit::TextError;

/// Words of other tools and of the field, and our names for the same: the first that is known where the word was found.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    // Options.
    (&["address"], &["connect", "listen"]),
    (&["alignment", "buffer-alignment"], &["buffer-offset"]),
    (&["bandwidth", "bitrate"], &["rate", "link-rate", "max-rate"]),
    (&["block-size", "bs"], &["write-size", "read-size"]),
    (&["buffer", "buffer-size"], &["read-size", "relay-buffer"]),
    (&["bursts"], &["burst", "batch"]),
    (&["cc", "congestion-control"], &["congestion"]),
    (&["clients", "concurrency", "connections", "parallel", "streams"], &["flows", "max-flows"]),
    (&["affinity", "cores", "cpus", "pin"], &["placement"]),
    (&["count", "iterations", "repeat", "runs"], &["blocks"]),
    (&["database", "db"], &["store"]),
    (&["delay", "netem", "round-trip", "rtt"], &["link-delay"]),
    (&["grade", "responsiveness", "rpm"], &["load-flows"]),
    (&["gso", "udp-segment"], &["engine"]),
    (&["header"], &["response-header"]),
    (&["json"], &["format"]),
    (&["latency"], &["slo", "link-delay"]),
    (&["len", "length", "size"], &["read-size", "request"]),
    (&["limit", "qps", "rps"], &["rate"]),
    (&["loss"], &["link-loss", "max-loss"]),
    (&["message-size", "msg-size", "packet-size", "payload"], &["request", "write-size"]),
    (&["msg-more", "writev"], &["message-writes"]),
    (&["pipeline"], &["depth"]),
    (&["protocol", "socket"], &["transport"]),
    (&["receive-buffer", "window"], &["rcvbuf"]),
    (&["response-parts"], &["response-chunk"]),
    (&["reverse"], &["direction"]),
    (&["runtime"], &["time"]),
    (&["send-buffer"], &["sndbuf"]),
    (&["sendfile"], &["send-from", "message-writes", "sendfile"]),
    (&["encryption", "https", "ssl"], &["tls"]),
    (&["threads", "workers"], &["server-threads", "relay-threads", "flows"]),
    (&["verbose"], &["full"]),
    // Levels.
    (&["af-unix", "uds", "unix-socket"], &["unix"]),
    (&["default"], &["auto", "none", "max"]),
    (&["different-core"], &["cross-core"]),
    (&["io-uring", "iouring"], &["uring:plain", "io-uring"]),
    (&["ipv6"], &["tcp6", "udp6"]),
    (&["kernel", "system"], &["auto"]),
    (&["ktls"], &["kernel"]),
    (&["openssl"], &["rustls"]),
    (&["poll", "select"], &["epoll"]),
    (&["proxy"], &["relay"]),
    (&["receiver"], &["reader"]),
    (&["recvmmsg", "sendmmsg"], &["mmsg"]),
    (&["same-core"], &["same-cpu"]),
    (&["seqpacket"], &["unix-seqpacket"]),
    (&["sender"], &["writer"]),
    (&["unlimited"], &["max"]),
];

/// The known name that `given` probably means: by the table, else the nearest, if it differs by a slip of the finger.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let given = given.to_ascii_lowercase().replace('_', "-");
    let ours = SYNONYMS.iter().filter(|(words, _)| words.contains(&given.as_str())).flat_map(|(_, ours)| *ours);
    let dashed = |name: &str| name.replace('_', "-");
    if let Some(found) = ours.into_iter().find_map(|ours| known.iter().find(|name| dashed(name) == *ours)) {
        return Some(found);
    }
    // Options of sockets may be given by their names in C: SO_RCVLOWAT, TCP_INQ.
    let plain = given.strip_prefix("so-").or(given.strip_prefix("tcp-")).unwrap_or(&given);
    let distance = |name: &str| [&given, plain].map(|given| strsim::damerau_levenshtein(given, &dashed(name)));
    known
        .into_iter()
        .map(|name| (distance(name).into_iter().min(), name))
        .min()
        .filter(|(distance, name)| *distance <= Some(1 + name.len() / 5))
        .map(|(_, name)| name)
}

/// The error of a name that is in no table of its kind.
pub(crate) fn unknown<'a>(kind: &str, given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> TextError {
    TextError(format!("no {kind} is called `{given}`{}", hint(given, known)))
}

/// The tail of an error message: `: did you mean \`x\`?` or `: known are a, b, c`.
pub fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(name) => format!(": did you mean `{name}`?"),
        None => format!(": known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Option<&str>) {
        assert_eq!(nearest(given, ["read-size", "write-size", "flows"]), expected, "{given}");
    }

    #[test]
    fn near_names() {
        check("read-sise", Some("read-size"));
        check("reed_size", Some("read-size"));
        check("flwos", Some("flows"));
        check("colour", None);
    }

    #[test]
    fn synonyms_come_before_spelling() {
        assert_eq!(nearest("delay", ["nodelay", "link-delay"]), Some("link-delay"));
        assert_eq!(nearest("loss", ["slo", "link_loss"]), Some("link_loss"));
        assert_eq!(nearest("io_uring", ["epoll", "uring:plain"]), Some("uring:plain"));
        assert_eq!(nearest("SO_RCVLOWAT", ["rcvbuf", "rcvlowat"]), Some("rcvlowat"));
        assert_eq!(nearest("tcp-nodelay", ["nodelay", "inq"]), Some("nodelay"));
        check("parallel", Some("flows"));
        check("msg-size", Some("write-size"));
    }

    #[test]
    fn each_word_is_in_the_table_once() {
        assert!(SYNONYMS.iter().all(|(_, ours)| !ours.is_empty()));
        for word in SYNONYMS.iter().flat_map(|(words, _)| *words) {
            assert!(!word.contains('_'), "{word}");
            assert_eq!(SYNONYMS.iter().filter(|(words, _)| words.contains(word)).count(), 1, "{word}");
        }
    }
}
