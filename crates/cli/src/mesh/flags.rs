//! The flags of `bytegauge mesh`.
//!
//! Also `mesh print`, which prints a script or manifest that starts a mesh.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytegauge_mesh::launcher::{self, RankPlace};
use bytegauge_model::{Nanos, Place, Workload};
use bytegauge_traffic::address;
use clap::{Arg, ArgMatches, Command, value_parser};

use crate::command_line::measuring::factor_args;
use crate::command_line::option::{Details, ends, names, path, positional, quiet, seed, switch, valued, verify, words};
use crate::exit_code::{DONE, Failure, usage};
use crate::{args, terminal};

/// Flags of `stream` and `call` that a mesh refuses, and the reason. The factors among them would be flags otherwise.
const NOT_OF_A_MESH: &[(&str, &str)] = &[
    ("host", "the ranks are the hosts: start one on each host"),
    ("placement", "two hosts have no CPUs in common: use taskset"),
    ("link-delay link-loss link-rate", "a mesh measures the links of the hosts: emulate one by `stream` or `call`"),
    (
        "relay-host relay relay-threads relay-buffer relay-pipe relay-placement",
        "a relay needs a host of its own, and a test of a mesh has two: use `stream --host` with --relay-host",
    ),
    ("competing-flows", "competing clients run on one host: use --pattern incast:K"),
    ("slo max-loss", "a search takes many trials of each pair: give levels of --rate"),
    ("role compare", "a mesh compares all its options together: leave it out"),
    ("blocks time until analyses long-trials", "a mesh repeats its pattern instead: use --replicates and --trial-time"),
];

/// Why a mesh refuses a flag of `stream` or `call`.
pub fn refused(flag: &str) -> Option<&'static str> {
    NOT_OF_A_MESH.iter().find(|(names, _)| names.split(' ').any(|name| name == flag)).map(|(_, why)| *why)
}

/// The subcommand without its options.
pub fn command() -> Command {
    Command::new("mesh")
        .about("Measure many hosts, started by srun, mpirun or pdsh")
        .args_conflicts_with_subcommands(true)
        .subcommand(gather())
        .subcommand(print_command())
}

/// Adds the options of the subcommand.
pub fn options(command: Command) -> Command {
    let command = command.next_help_heading("Ranks").args(ranks()).next_help_heading("Schedule").args(schedule());
    let factors = factor_args(None).into_iter().filter(|arg| {
        let is_between_hosts = |name: &str| {
            let workloads = [Workload::Stream, Workload::Call];
            workloads.iter().any(|workload| bytegauge_model::factor::flags(*workload).iter().any(|flag| flag == name))
        };
        let name = arg.get_id().as_str();
        is_between_hosts(name) && refused(name).is_none()
    });
    factors.fold(command, Command::arg).next_help_heading("Output").args(output())
}

fn gather() -> Command {
    let dir = positional("dir", "DIR", "Directory of --out").required(true).value_parser(value_parser!(PathBuf));
    Command::new("gather").about("Merge the files of all ranks and show the result").arg(dir)
}

fn ranks() -> Vec<Arg> {
    let coordinator = valued("coordinator", "HOST:PORT", "Where rank 0 listens [default: by a file in --out]");
    let number = |name, value, help| valued(name, value, help).value_parser(value_parser!(u32));
    vec![
        number("rank", "R", "Number of this process, from 0 [default: of the launcher]")
            .details("from Open MPI, PMIx, PMI, Slurm or a Kubernetes Indexed Job"),
        number("size", "N", "Number of processes [default: of the launcher]"),
        coordinator.details("needed where --out is on no shared file system, except under Slurm"),
        valued("listen", "ADDRESS[:PORT]", "Where this host is measured [default: its address to rank 0]"),
        valued("rack", "NAME", "Rack of this host [default: by Slurm's topology]")
            .details("connections between racks are compared with those within"),
        valued("join-timeout", "TIME", "Time until a rank counts as absent").default_value("60s"),
        path("key-file", "FILE", "Key of all hosts, readable by its owner only"),
    ]
}

fn schedule() -> Vec<Arg> {
    let pattern = valued("pattern", "PATTERN", "Pairs: pairs, matchings:K, bisection, incast:K, one-to-all");
    vec![
        valued("workload", "KIND", "stream or call").value_parser(["stream", "call"]).default_value("stream"),
        pattern.default_value("pairs").details(
            "pairs: each pair of hosts; matchings:K: K random rounds of pairs; bisection: one half with the other; incast:K: K \
             clients to one host; one-to-all: one host to all",
        ),
        valued("replicates", "N", "Repetitions of the pattern [default: 3 up to 16 ranks, else 1]")
            .value_parser(value_parser!(u32).range(1..=1_000))
            .details("pairs that look slow are repeated after the pattern in any case"),
        valued("concurrent", "K", "Tests at the same time, or all").default_value("all"),
        seed(),
        valued("warmup", "TIME", "Warm-up of each trial").default_value("200ms"),
        valued("margin", "SHARE", "Difference from the typical rate that is acceptable").default_value("10%"),
        switch("no-follow-up", "Do not repeat pairs and hosts that look slow"),
        ends(),
        verify(),
        switch("resume", "Measure what is missing in --out"),
    ]
}

fn output() -> Vec<Arg> {
    vec![
        path("out", "DIR", "Directory for the files of all ranks"),
        switch("dry-run", "Print rounds, time, bytes and connections, and exit"),
        valued("max-time", "TIME", "Refuse a longer mesh without --yes [default: 1h]"),
        valued("max-bytes", "SIZE", "Refuse more bytes without --yes [default: 1 PiB]"),
        switch("yes", "Run beyond --max-time and --max-bytes"),
        quiet(),
    ]
}

/// The flags of one rank, as typed values.
#[derive(Clone, Debug)]
pub struct MeshFlags {
    /// The place of this process.
    pub place: RankPlace,
    /// Where rank 0 listens, if it was given.
    pub coordinator: Option<String>,
    /// The node and port of rank 0 by the list of nodes of the launcher, unless `coordinator` was given.
    pub node_of_zero: Option<(String, u16)>,
    /// The address at which this host is measured; port 0: any.
    pub listen: Option<SocketAddr>,
    /// The rack of this host.
    pub rack: Option<String>,
    /// Time until a rank counts as absent.
    pub join: Duration,
    /// The directory of the files.
    pub out: PathBuf,
    /// Whether earlier results are continued.
    pub resume: bool,
    /// The external server that all hosts call.
    pub server: Option<Place>,
    /// Whether only errors are printed.
    pub quiet: bool,
}

impl MeshFlags {
    /// Reads the flags.
    ///
    /// # Errors
    /// [`Failure`] of wrong usage, with the next step.
    pub fn read(matches: &ArgMatches) -> Result<MeshFlags, Failure> {
        let number = |name: &str| matches.get_one::<u32>(name).copied();
        let variable = |name: &str| std::env::var(name).ok();
        let place = launcher::place(number("rank"), number("size"), variable).map_err(Failure::usage)?;
        let out = matches.get_one::<PathBuf>("out").cloned().ok_or_else(|| {
            Failure::usage("mesh needs --out DIR, the directory for the files of all ranks, on a shared file system if there is one")
        })?;
        let coordinator = args::text(matches, "coordinator").map(str::to_owned);
        let Nanos(join_ns) = args::needed(matches, "join-timeout")?;
        Ok(MeshFlags {
            listen: listen(matches)?,
            node_of_zero: launcher::slurm_coordinator(variable).filter(|_| coordinator.is_none()),
            coordinator,
            rack: args::text(matches, "rack").map(str::to_owned).or_else(|| launcher::slurm_rack(variable)),
            join: Duration::from_nanos(join_ns.max(1_000_000_000)),
            out,
            resume: matches.get_flag("resume"),
            server: server(matches)?,
            quiet: matches.get_flag("quiet"),
            place,
        })
    }
}

/// The external server, as its name is resolved on this host.
fn server(matches: &ArgMatches) -> Result<Option<Place>, Failure> {
    let Some(text) = args::text(matches, "connect").filter(|text| *text != "auto") else { return Ok(None) };
    let place = text.parse::<Place>().map_err(args::wrong("connect"))?;
    let found = address::resolved(&place).map_err(args::wrong("connect"))?;
    if !matches!(found, Place::Ip(_)) {
        return usage(format!("--connect: {text:?} is not one server for all hosts: give one HOST:PORT"));
    }
    Ok(Some(found))
}

fn listen(matches: &ArgMatches) -> Result<Option<SocketAddr>, Failure> {
    let Some(text) = args::text(matches, "listen") else { return Ok(None) };
    let place = text.parse::<SocketAddr>().or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, 0)));
    place.map(Some).map_err(|_| {
        Failure::usage(format!("--listen: {text:?} is no address: give ADDRESS or ADDRESS:PORT of this host"))
    })
}

// `bytegauge mesh print LAUNCHER`: prints a script or a manifest that starts a mesh. Nothing is started.

/// The launchers with their templates: `@SIZE@` is the number of hosts, `@FLAGS@` the flags of the mesh, `@LIST@` the same as a list of YAML.
const TEMPLATES: &[(&str, &str)] = &[
    ("slurm", include_str!("print/slurm.sh")),
    ("kubernetes", include_str!("print/kubernetes.yaml")),
    ("mpirun", include_str!("print/mpirun.sh")),
    ("pdsh", include_str!("print/pdsh.sh")),
];

/// The subcommand.
fn print_command() -> Command {
    Command::new("print")
        .about("Print a script or manifest that starts a mesh")
        .arg(
            positional("launcher", "LAUNCHER", "Launcher that is used")
                .required(true)
                .value_parser(names(TEMPLATES.iter().map(|(name, _)| *name))),
        )
        .arg(valued("size", "N", "Number of hosts").value_parser(value_parser!(u32)).default_value("16"))
        .arg(words("flags", "FLAG", "Flags of the mesh, such as --pattern matchings:5"))
}

/// Prints the template of a launcher.
pub fn print(matches: &ArgMatches) -> Result<u8, Failure> {
    let name = matches.get_one::<String>("launcher").map_or("", String::as_str);
    let size = matches.get_one::<u32>("size").copied().unwrap_or(16);
    let flags: Vec<&str> = args::texts(matches, "flags").collect();
    let template = TEMPLATES.iter().find(|(known, _)| *known == name).map_or("", |(_, template)| *template);
    terminal::print_data(&filled(template, size, &flags));
    Ok(DONE)
}

fn filled(template: &str, size: u32, flags: &[&str]) -> String {
    let quoted: Vec<String> =
        flags.iter().map(|flag| shlex::try_quote(flag).map_or_else(|_| (*flag).to_owned(), Into::into)).collect();
    let words: String = quoted.iter().map(|flag| format!(" {flag}")).collect();
    // Every JSON string is one of YAML.
    let list: String = flags.iter().map(|flag| format!(", {}", serde_json::Value::from(*flag))).collect();
    template.replace("@SIZE@", &size.to_string()).replace("@FLAGS@", &words).replace("@LIST@", &list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        for (name, template) in TEMPLATES {
            let text = filled(template, 8, &["--pattern", "matchings:5", "--rack", "a b"]);
            assert!(!text.contains('@') && text.contains("matchings:5") && text.contains('8'), "{name}: {text}");
        }
    }
}
