//! The programs, their settings, and the test whose result applies to them.
//!
//! Only a list. In all texts `bytegauge tune` replaces `{value}`; the other words in braces are replaced before it
//! (`ProgramTests::fill`).

/// Sizes that every program is tried with.
pub const VALUES: &str = "4K,16K,64K,256K,1M";

/// A program with one setting, and the test for it.
pub struct ProgramCase {
    /// Its name on the command line: the program's file, and what else it is.
    pub name: &'static str,
    /// The setting as text.
    pub setting: &'static str,
    /// Its default, or a common choice.
    pub default: &'static str,
    /// The test, as `bytegauge stream` takes it.
    pub test: &'static str,
    /// Where the ends run, in the test and in the program; empty where there is one end.
    pub placement: &'static str,
    /// How a run is rated.
    pub metric: &'static str,
    /// The server that is started first, and the address at which it is ready.
    pub start: Option<(&'static str, &'static str)>,
    /// The measured command.
    pub load: &'static str,
}

impl ProgramCase {
    /// The program's file, looked for where programs are.
    pub fn program(&self) -> &'static str {
        self.name.split('-').next().unwrap_or_default()
    }
}

const AT_PORT: &str = "tcp:{port}";
const AT_PATH: &str = "unix:{dir}/socket";
const PRINTED: &str = "regex:([0-9]+) bytes/s";

/// Programs with one size at both ends.
const BOTH_ENDS: ProgramCase = ProgramCase {
    name: "",
    setting: "size of a read and a write",
    default: "8K",
    test: "--transport tcp --read-size {sizes} --write-size {sizes}",
    placement: "cross-core",
    metric: "bytes:128M",
    start: None,
    load: "",
};

/// Programs that read a pipe, from a peer that writes 64 KiB at a time: a common choice.
const FROM_PIPE: ProgramCase = ProgramCase {
    default: "10K",
    test: "--transport pipe --role reader --write-size 64K --read-size {sizes}",
    placement: "unpinned",
    ..BOTH_ENDS
};

/// Programs that write to a pipe, to a peer that reads 64 KiB at a time.
const TO_PIPE: ProgramCase = ProgramCase {
    test: "--transport pipe --role writer --read-size 64K --write-size {sizes}",
    metric: "bytes:64M",
    ..FROM_PIPE
};

/// Relays, between a source and a sink in C.
const RELAY: ProgramCase = ProgramCase {
    default: "16K",
    test: "--transport tcp --relay epoll --relay-buffer {sizes} --read-size 64K --write-size 64K",
    metric: PRINTED,
    load: "exec '{ends}' sink {port} 65536",
    ..FROM_PIPE
};

/// Servers that write to a sink in C.
const SOURCE: ProgramCase = ProgramCase {
    setting: "size of a write",
    default: "64K",
    test: "--transport tcp --role writer --read-size 64K --write-size {sizes}",
    metric: PRINTED,
    load: "exec '{ends}' sink {port} 65536",
    ..BOTH_ENDS
};

/// Programs that read from a source in C over TCP.
const SINK: ProgramCase = ProgramCase {
    setting: "size of a read",
    default: "64K",
    test: "--transport tcp --role reader --write-size 64K --read-size {sizes}",
    metric: PRINTED,
    start: Some(("exec '{ends}' source {port} 134217728 65536", AT_PORT)),
    ..BOTH_ENDS
};

/// The same over a Unix socket.
const UNIX_SINK: ProgramCase = ProgramCase {
    test: "--transport unix --role reader --write-size 64K --read-size {sizes}",
    start: Some(("exec '{ends}' source '{dir}/socket' 134217728 65536", AT_PATH)),
    ..SINK
};

/// All of them. On Debian they are in the packages buffer, coreutils, cpio, gcc, golang, haproxy, iperf, iperf3,
/// libarchive-tools, libnginx-mod-stream, mbuffer, nginx, nodejs, nuttcp, openssl, perl, php-cli, pv, python3, ruby, socat, tar and tcl.
pub const CASES: &[ProgramCase] = &[
    ProgramCase {
        name: "dd",
        setting: "`bs`, /dev/zero",
        default: "512",
        test: "--transport /dev/zero --read-size {sizes}",
        placement: "",
        metric: "bytes:1G",
        load: "exec dd if=/dev/zero of=/dev/null bs={value} count={1G/value} status=none",
        ..BOTH_ENDS
    },
    ProgramCase {
        name: "dd-pipe",
        setting: "`bs` of both, over a pipe",
        default: "4K",
        test: "--transport pipe --read-size {sizes} --write-size {sizes}",
        load: "dd if=/dev/zero bs={value} count={128M/value} status=none | dd of=/dev/null bs={value} status=none",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "socat-tcp",
        setting: "`-b` of both ends, TCP",
        start: Some((
            "exec socat -u -b {value} TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork OPEN:/dev/null",
            AT_PORT,
        )),
        load: "exec socat -u -b {value} OPEN:/dev/zero,readbytes=134217728 TCP:127.0.0.1:{port}",
        ..BOTH_ENDS
    },
    ProgramCase {
        name: "socat-unix",
        setting: "`-b` of both ends, Unix",
        test: "--transport unix --read-size {sizes} --write-size {sizes}",
        start: Some(("exec socat -u -b {value} UNIX-LISTEN:'{dir}/socket',unlink-early,fork OPEN:/dev/null", AT_PATH)),
        load: "exec socat -u -b {value} OPEN:/dev/zero,readbytes=134217728 UNIX-CONNECT:'{dir}/socket'",
        ..BOTH_ENDS
    },
    ProgramCase {
        name: "iperf",
        setting: "`-l`",
        default: "128K",
        metric: "regex:([0-9.]+) Mbits/sec",
        start: Some(("exec iperf -s -B 127.0.0.1 -p {port} -l {value}", AT_PORT)),
        load: "exec iperf -c 127.0.0.1 -p {port} -l {value} -n 256M -f m",
        ..BOTH_ENDS
    },
    ProgramCase {
        name: "iperf3",
        setting: "`-l`",
        default: "128K",
        metric: "regex:([0-9.]+) Gbits/sec +receiver",
        start: Some(("exec iperf3 -s -B 127.0.0.1 -p {port}", AT_PORT)),
        load: "exec iperf3 -c 127.0.0.1 -p {port} -l {value} -n 256M -f g",
        ..BOTH_ENDS
    },
    ProgramCase {
        name: "nuttcp",
        setting: "`-l`",
        default: "64K",
        metric: "regex:= +([0-9.]+) Mbps",
        start: Some(("exec nuttcp -S --nofork -P{port}", AT_PORT)),
        load: "exec nuttcp -t -l{value} -n256m -P{port} -p{back} 127.0.0.1",
        ..BOTH_ENDS
    },
    ProgramCase {
        name: "pv",
        setting: "`-B`, reads a pipe, without splice",
        default: "128K",
        load: "{zeros} | pv -q -C -B {value} > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "mbuffer",
        setting: "`-s`, reads a pipe",
        load: "{zeros} | mbuffer -q -s {value} -m 32M > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "buffer",
        setting: "`-s`, reads a pipe",
        load: "{zeros} | buffer -s {value} -m 16m > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "openssl",
        setting: "`enc -bufsize`, reads a pipe",
        default: "8K",
        load: "{zeros} | openssl enc -aes-128-ctr -K 0123456789abcdef0123456789abcdef -iv 00000000000000000000000000000000 \
               -nosalt -bufsize {value} > /dev/null",
        ..FROM_PIPE
    },
    ProgramCase {
        name: "tar",
        setting: "`--record-size`, writes to a pipe",
        load: "tar -cf - --record-size={value} -C '{dir}/files' zeros | {drain}",
        ..TO_PIPE
    },
    ProgramCase {
        name: "bsdtar",
        setting: "`-b`, writes to a pipe",
        load: "size={value}; bsdtar -cf - -b $((size / 512)) -C '{dir}/files' zeros | {drain}",
        ..TO_PIPE
    },
    ProgramCase {
        name: "cpio",
        setting: "`--io-size`, writes to a pipe",
        default: "512",
        load: "cd '{dir}/files' && echo zeros | cpio -o --quiet -H newc --io-size={value} | {drain}",
        ..TO_PIPE
    },
    ProgramCase {
        name: "socat-relay",
        setting: "`-b`, as a relay",
        default: "8K",
        start: Some((
            "exec '{ends}' source {back} 67108864 65536 socat -b {value} TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork \
             TCP:127.0.0.1:{back}",
            AT_PORT,
        )),
        ..RELAY
    },
    ProgramCase {
        name: "haproxy",
        setting: "`tune.bufsize`",
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/haproxy.cfg' > '{dir}/haproxy.run.cfg' && exec '{ends}' source {back} 67108864 \
             65536 '{program}' -db -f '{dir}/haproxy.run.cfg'",
            AT_PORT,
        )),
        ..RELAY
    },
    ProgramCase {
        name: "nginx-stream",
        setting: "`proxy_buffer_size` of a TCP relay",
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/nginx-stream.conf' > '{dir}/nginx-stream.run.conf' && exec '{ends}' source \
             {back} 67108864 65536 '{program}' -p '{dir}' -c nginx-stream.run.conf",
            AT_PORT,
        )),
        ..RELAY
    },
    ProgramCase {
        name: "nginx",
        setting: "`output_buffers`, without sendfile",
        default: "32K",
        start: Some((
            "sed s/@SIZE@/{value}/ '{dir}/nginx.conf' > '{dir}/nginx.run.conf' && exec '{program}' -p '{dir}' -c \
             nginx.run.conf",
            AT_PORT,
        )),
        load: "exec '{ends}' sink {port} 65536 /zeros",
        ..SOURCE
    },
    ProgramCase {
        name: "python3-source",
        start: Some(("exec '{program}' '{sources}/source.py' {port} 134217728 {value}", AT_PORT)),
        ..SOURCE
    },
    ProgramCase {
        name: "perl-source",
        start: Some(("exec '{program}' '{sources}/source.pl' {port} 134217728 {value}", AT_PORT)),
        ..SOURCE
    },
    ProgramCase {
        name: "node-source",
        start: Some(("exec '{program}' '{sources}/source.mjs' {port} 134217728 {value}", AT_PORT)),
        ..SOURCE
    },
    ProgramCase { name: "cc-tcp", load: "exec '{ends}' sink {port} {value}", ..SINK },
    ProgramCase { name: "cc-unix", load: "exec '{ends}' sink '{dir}/socket' {value}", ..UNIX_SINK },
    ProgramCase { name: "go-tcp", load: "exec '{go}' {port} {value}", ..SINK },
    ProgramCase { name: "node-tcp", load: "exec '{program}' '{sinks}/sink.mjs' {port} {value}", ..SINK },
    ProgramCase { name: "perl-tcp", load: "exec '{program}' '{sinks}/sink.pl' {port} {value}", ..SINK },
    ProgramCase { name: "perl-unix", load: "exec '{program}' '{sinks}/sink.pl' '{dir}/socket' {value}", ..UNIX_SINK },
    ProgramCase { name: "php-tcp", load: "exec '{program}' '{sinks}/sink.php' {port} {value}", ..SINK },
    ProgramCase { name: "python3-tcp", load: "exec '{program}' '{sinks}/sink.py' {port} {value}", ..SINK },
    ProgramCase {
        name: "python3-unix",
        load: "exec '{program}' '{sinks}/sink.py' '{dir}/socket' {value}",
        ..UNIX_SINK
    },
    ProgramCase { name: "python3-asyncio", load: "exec '{program}' '{sinks}/asyncio_sink.py' {port} {value}", ..SINK },
    ProgramCase { name: "ruby-tcp", load: "exec '{program}' '{sinks}/sink.rb' {port} {value}", ..SINK },
    ProgramCase { name: "tclsh-tcp", load: "exec '{program}' '{sinks}/sink.tcl' {port} {value}", ..SINK },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_place_for_its_value() {
        let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        for case in CASES {
            let texts = [Some(case.load), case.start.map(|(start, _)| start)];
            assert!(texts.iter().flatten().any(|text| text.contains("{value}")), "{}", case.name);
            assert!(case.test.contains("{sizes}"), "{}: has no size", case.name);
            assert!(!case.load.is_empty(), "{}", case.name);
        }
    }
}
