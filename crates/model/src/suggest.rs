//! The known name that an unknown one probably means: a synonym from the table, or the nearest by spelling.
//!
//! Options, keys of plans, levels and columns of tables use the same table. Nothing is accepted by it: it only makes the
//! advice of an error.

use crate::unit::TextError;

/// Words of other tools and of the field, with our names for the same: the first that is known where the word was found.
const SYNONYMS: &[(&str, &[&str])] = &[
    // Options.
    ("address", &["connect", "listen"]),
    ("affinity", &["placement"]),
    ("bandwidth", &["rate", "link-rate", "max-rate"]),
    ("bitrate", &["rate", "link-rate"]),
    ("block-size", &["write-size", "read-size"]),
    ("bs", &["write-size", "read-size"]),
    ("buffer", &["read-size", "relay-buffer"]),
    ("buffer-size", &["read-size", "relay-buffer"]),
    ("bursts", &["burst", "batch"]),
    ("cc", &["congestion"]),
    ("clients", &["flows", "max-flows"]),
    ("concurrency", &["flows"]),
    ("congestion-control", &["congestion"]),
    ("connections", &["flows", "max-flows"]),
    ("cores", &["placement"]),
    ("count", &["blocks"]),
    ("cpus", &["placement"]),
    ("database", &["store"]),
    ("db", &["store"]),
    ("delay", &["link-delay"]),
    ("iterations", &["blocks"]),
    ("json", &["format"]),
    ("latency", &["slo", "link-delay"]),
    ("len", &["read-size", "request"]),
    ("length", &["read-size", "request"]),
    ("limit", &["rate"]),
    ("loss", &["link-loss", "max-loss"]),
    ("message-size", &["request", "write-size"]),
    ("msg-size", &["request", "write-size"]),
    ("netem", &["link-delay"]),
    ("no-delay", &["nodelay"]),
    ("packet-size", &["write-size", "request"]),
    ("parallel", &["flows"]),
    ("payload", &["request", "write-size"]),
    ("pin", &["placement"]),
    ("pipeline", &["depth"]),
    ("protocol", &["transport"]),
    ("qps", &["rate"]),
    ("receive-buffer", &["rcvbuf"]),
    ("repeat", &["blocks"]),
    ("reverse", &["direction"]),
    ("round-trip", &["link-delay"]),
    ("rps", &["rate"]),
    ("rtt", &["link-delay"]),
    ("runs", &["blocks"]),
    ("runtime", &["time"]),
    ("send-buffer", &["sndbuf"]),
    ("sendfile", &["send-from", "sendfile"]),
    ("size", &["read-size", "request"]),
    ("so-rcvbuf", &["rcvbuf"]),
    ("so-sndbuf", &["sndbuf"]),
    ("socket", &["transport"]),
    ("ssl", &["tls"]),
    ("streams", &["flows"]),
    ("tcp-nodelay", &["nodelay"]),
    ("threads", &["server-threads", "relay-threads", "flows"]),
    ("verbose", &["full"]),
    ("window", &["rcvbuf"]),
    ("encryption", &["tls"]),
    ("https", &["tls"]),
    ("workers", &["server-threads", "flows"]),
    // Levels.
    ("af-unix", &["unix"]),
    ("default", &["auto", "none", "max"]),
    ("different-core", &["cross-core"]),
    ("io-uring", &["uring:plain", "io-uring"]),
    ("iouring", &["uring:plain", "io-uring"]),
    ("ipv6", &["tcp6", "udp6"]),
    ("kernel", &["auto"]),
    ("ktls", &["kernel"]),
    ("openssl", &["rustls"]),
    ("poll", &["epoll"]),
    ("proxy", &["relay"]),
    ("receiver", &["reader"]),
    ("recvmmsg", &["mmsg"]),
    ("same-core", &["same-cpu"]),
    ("select", &["epoll"]),
    ("seqpacket", &["unix-seqpacket"]),
    ("sender", &["writer"]),
    ("sendmmsg", &["mmsg"]),
    ("system", &["auto"]),
    ("uds", &["unix"]),
    ("unix-socket", &["unix"]),
    ("unlimited", &["max"]),
];

/// The known name that `given` probably means: by the table, else the nearest, if it differs by a slip of the finger.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let given = given.to_ascii_lowercase().replace('_', "-");
    let ours = SYNONYMS.iter().filter(|(word, _)| *word == given).flat_map(|(_, ours)| *ours);
    let dashed = |name: &str| name.replace('_', "-");
    if let Some(found) = ours.into_iter().find_map(|ours| known.iter().find(|name| dashed(name) == *ours)) {
        return Some(found);
    }
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &dashed(name)), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
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
        check("parallel", Some("flows"));
        check("msg-size", Some("write-size"));
    }

    #[test]
    fn each_word_is_in_the_table_once() {
        for (word, ours) in SYNONYMS {
            assert!(!ours.is_empty() && !word.contains('_'), "{word}");
            assert_eq!(SYNONYMS.iter().filter(|(other, _)| other == word).count(), 1, "{word}");
        }
    }
}
