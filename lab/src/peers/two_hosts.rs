//! Two hosts that are joined by a cable: network namespaces in a user namespace of our own, and a veth pair between them. They need
//! no privilege where user namespaces are allowed, and end with the process that made them, however it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::arm::word;
use xtask::setup;

/// The far host's address.
pub const FAR: &str = "10.9.0.2";

/// Both hosts live as long as the script's standard input is open.
const SCRIPT: &str = r#"
set -e
exec 3<&0
ip link set lo up
unshare -n cat <&3 > /dev/null & far=$!
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add near0 type veth peer name far0 netns $far
ip addr add 10.9.0.1/24 dev near0
ip link set near0 up
nsenter -t $far -n sh -c 'ip link set lo up; ip addr add 10.9.0.2/24 dev far0; ip link set far0 up'
echo $$ $far
exec cat <&3 > /dev/null
"#;

/// The namespaces, as long as this is kept.
pub struct TwoHosts {
    /// Holds them open by its standard input.
    holder: Child,
    /// How they are entered.
    pub hosts: Hosts,
}

/// A process on each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    near: u32,
    far: u32,
}

/// Checks that such hosts can be made; the reason if they cannot.
pub fn prepare() -> Result<(), String> {
    for (program, package) in [("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")] {
        setup::on_path(program, Some(package))?;
    }
    TwoHosts::new().map(drop).map_err(|error| format!("{error:#}"))
}

impl TwoHosts {
    /// Makes them.
    ///
    /// # Errors
    /// Where namespaces are not allowed.
    pub fn new() -> Result<TwoHosts> {
        let mut command = Command::new("unshare");
        command.args(["-Urn", "sh", "-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().context("starting unshare")?;
        let output = holder.stdout.take().context("unshare has no output")?;
        let mut made = TwoHosts { holder, hosts: Hosts { near: 0, far: 0 } };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("reading the output of unshare")?;
        let ids: Vec<&str> = line.split_whitespace().collect();
        if ids.len() != 2 {
            bail!("network namespaces of a user's own cannot be made here (`unshare -Urn`, `ip link add … type veth`)");
        }
        made.hosts = Hosts::of(&ids, 0)?;
        Ok(made)
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        // Closing the input ends both hosts.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

impl Hosts {
    /// The hosts that two of an arm's words name.
    ///
    /// # Errors
    /// When they are no numbers.
    pub fn of(words: &[&str], at: usize) -> Result<Hosts> {
        let id = |at: usize| word(words, at)?.parse().context("a process on a host");
        Ok(Hosts { near: id(at)?, far: id(at + 1)? })
    }

    /// The words that [`Hosts::of`] reads.
    pub fn words(self) -> [String; 2] {
        [self.near.to_string(), self.far.to_string()]
    }

    /// The command prefix that runs a command on the near host.
    pub fn near(self) -> Vec<String> {
        enter(self.near)
    }

    /// The same on the far one.
    pub fn far(self) -> Vec<String> {
        enter(self.far)
    }
}

fn enter(process: u32) -> Vec<String> {
    ["nsenter", "--preserve-credentials", "-U", "-n", "-t", &process.to_string()].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hosts_reach_each_other_until_dropped() {
        let made = match TwoHosts::new() {
            Ok(made) => made,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let shows = |host: Vec<String>| {
            let output = Command::new(&host[0]).args(&host[1..]).args(["ip", "-o", "addr"]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(shows(made.hosts.near()).contains("10.9.0.1/24") && shows(made.hosts.far()).contains("10.9.0.2/24"));
        let words = made.hosts.words();
        assert_eq!(Hosts::of(&[&words[0], &words[1]], 0).unwrap(), made.hosts);
        let hosts = made.hosts;
        drop(made);
        assert_eq!(shows(hosts.near()), "");
    }
}
