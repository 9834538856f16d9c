//! Why a request gives no plan, with the next step.

use bytegauge_model::{LevelError, Workload};
use thiserror::Error;

/// Why a request gives no plan. Every case is wrong usage: nothing has run yet.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// A level that does not parse.
    #[error("--{flag}: {error}")]
    Level {
        /// The factor's flag.
        flag: String,
        /// The problem.
        error: LevelError,
    },
    /// A factor or key that does not exist.
    #[error("{place}: no factor or key is called `{name}`{hint}")]
    UnknownKey {
        /// The file or part.
        place: String,
        /// The name given.
        name: String,
        /// A similar name, as a hint.
        hint: String,
    },
    /// A factor that has no meaning in the plan's workload.
    #[error("--{flag} has no meaning in the workload {workload}: leave it out, or use the workload {other}")]
    NotInWorkload {
        /// The factor's flag.
        flag: String,
        /// The plan's workload.
        workload: Workload,
        /// The workload in which it has a meaning.
        other: Workload,
    },
    /// A transport that cannot carry the workload.
    #[error("--transport: {transport} does not carry the workload {workload}: use unix, tcp or tcp6")]
    TransportCarriesNot {
        /// The transport.
        transport: String,
        /// The plan's workload.
        workload: Workload,
    },
    /// An engine that does not carry a transport.
    #[error("--{flag}: {engine} does not carry {transport}: use one of {fitting}")]
    EngineSuitsNot {
        /// The factor's flag.
        flag: String,
        /// The engine.
        engine: String,
        /// The transport.
        transport: String,
        /// The engines that carry it.
        fitting: String,
    },
    /// A named factor without an effect with the levels of the other factors.
    #[error("--{flag} has no effect without {needs}")]
    Moot {
        /// The factor's flag.
        flag: String,
        /// The change that would give it an effect.
        needs: String,
    },
    /// A factor that the plan's user must give.
    #[error("the plan {plan} needs --{flag}: {summary}{}", next_step(.flag))]
    Wanted {
        /// The plan's name.
        plan: String,
        /// The factor's flag.
        flag: String,
        /// Its meaning.
        summary: &'static str,
    },
    /// More operations in a submission than any ring of the plan holds.
    #[error(
        "--submit-batch: {batch} operations do not fit a ring of {entries} --entries: use {entries} or fewer, or auto"
    )]
    BatchTooLarge {
        /// The batch.
        batch: u64,
        /// The largest ring.
        entries: u64,
    },
    /// Nothing but artefacts.
    #[error(
        "--implementation {name} is an artefact, only shown with others, in mode ceiling without user data, and never \
         measured alone: add liburing to --implementation"
    )]
    ArtefactAlone {
        /// The implementation.
        name: String,
    },
    /// A plan of a program without the program.
    #[error("the workload check needs a program: use bytegauge tune --values LIST -- CMD … {{value}} …")]
    NoTask,
    /// A program that cannot be run with these values.
    #[error("{0}")]
    ProgramTask(String),
    /// Two sides that cannot be compared with each other.
    #[error("{0}")]
    Versus(String),
    /// Comparison of bytes where none move.
    #[error("--verify checks bytes, and nothing here moves bytes: leave it out (for a ring, use --mode checked)")]
    NoBytes,
    /// A factor that does not apply to an external server.
    #[error("--{flag} does not work with --connect: {why}")]
    NotWithConnect {
        /// The factor's flag.
        flag: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A factor that has no meaning between two hosts.
    #[error("--{flag} does not work with --{with}: {why}")]
    OfFarHost {
        /// The factor's flag.
        flag: String,
        /// The flag that names the other host.
        with: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A profile that neither the product nor the plan defines.
    #[error("no profile is called `{name}`{hint}")]
    UnknownProfile {
        /// The name given.
        name: String,
        /// A similar name, as a hint.
        hint: String,
    },
    /// No ready plan and no file of that name.
    #[error("no plan is called `{name}`{hint} (or give a path that ends in .toml)")]
    UnknownPlan {
        /// The name given.
        name: String,
        /// A similar name, as a hint.
        hint: String,
    },
    /// The file is not TOML.
    #[error("{place} is not a plan: {error}")]
    NotToml {
        /// The file.
        place: String,
        /// The parser's message.
        error: String,
    },
    /// A plan file without a key.
    #[error("the plan {place} is empty: write at least its workload, such as workload = \"stream\"")]
    EmptyPlan {
        /// The file.
        place: String,
    },
    /// A key with a value of the wrong kind.
    #[error("{place}: `{key}` {expected}")]
    BadValue {
        /// The file or part.
        place: String,
        /// The key.
        key: String,
        /// The expected value.
        expected: String,
    },
    /// A factor that was asked for fits no transport of the plan.
    #[error("--{flag} fits none of the chosen transports ({transports}): {fits}")]
    FitsNothing {
        /// The factor's flag.
        flag: String,
        /// The transports chosen.
        transports: String,
        /// Where it would fit.
        fits: String,
    },
    /// A profile and a factor that it sets were both given.
    #[error("--{flag} is set by the profiles already: leave out --profile or --{flag}")]
    SetByProfile {
        /// The factor's flag.
        flag: String,
    },
    /// Transports that are to be compared, under conditions that differ.
    #[error("--compare transport: {transports} are measured under different conditions{differs}")]
    TransportsApart {
        /// The transports.
        transports: String,
        /// The difference, and the remedy.
        differs: String,
    },
    /// A factor whose default is a single level, where its list was asked for.
    #[error("--also {flag}: its default is a single level. Name the levels to measure: --{flag} LIST")]
    NoList {
        /// The factor's flag.
        flag: String,
    },
    /// Too many combinations.
    #[error(
        "{cells} cells are too many ({max} at most): use shorter lists or ranges, above all of --{flag}, which has {levels} \
         levels"
    )]
    TooManyCells {
        /// Their number; if it overflows, a lower limit.
        cells: u64,
        /// The bound.
        max: u64,
        /// The flag of the factor with the most levels.
        flag: String,
        /// How many they are.
        levels: usize,
    },
    /// Nothing that can be measured here remains.
    #[error("nothing of this plan can be measured here: {0}")]
    NothingLeft(String),
    /// More open files than the hard limit allows.
    #[error(
        "{flows} flows need {needed} open files, the hard limit is {limit}: use fewer --flows, or raise it \
         (ulimit -Hn, LimitNOFILE=)"
    )]
    OpenFiles {
        /// Flows of the largest cell.
        flows: u64,
        /// Descriptors they need.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The budget is too short for the smallest design.
    #[error("a budget of {budget} is too short for {cells} options in {of}: give --time {needed} or more{shorter}")]
    Budget {
        /// The budget given.
        budget: String,
        /// The cells planned.
        cells: usize,
        /// The groups of these cells.
        of: String,
        /// The time of the smallest design.
        needed: String,
        /// Other ways to make it fit.
        shorter: String,
    },
}
/// How to get the value of a flag that a plan needs.
fn next_step(flag: &str) -> &'static str {
    match flag {
        "host" => {
            ". Start it there: bytegauge agent --listen ADDRESS:4711 --key-file FILE. \
                   Then add here: --host ADDRESS:4711 --key-file FILE (docs/far-host.md)"
        }
        _ => "",
    }
}
