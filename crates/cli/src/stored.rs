//! Commands for stored results: list, report, export, import.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bytegauge_import::{FORMATS, ImportOptions};
use bytegauge_model::unit::counted;
use bytegauge_model::{Bytes, Cost, GroupId, Nanos, SessionId, SessionStatus, Spec};
use bytegauge_report::render::{self, TerminalStyle, csv, go_bench, junit};
use bytegauge_report::view::numbers::View;
use bytegauge_report::view::{over_time, rfc3339};
use bytegauge_report::words::paint::{Paint, wrap};
use bytegauge_report::words::table::{self, Column};
use bytegauge_report::{Report, SessionData, Settings};
use bytegauge_store::{SessionSummary, Store, StoreError};
use bytegauge_sys::new_file;
use clap::ArgMatches;

use crate::exit_code::{DONE, Failure, code_of, usage};
use crate::{args, history, page, terminal};

/// Where the results are.
pub fn store_path(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    match matches.get_one::<OsString>("store") {
        Some(path) => Ok(path.into()),
        None => bytegauge_store::default_path().ok_or_else(|| {
            Failure::usage(
                "neither XDG_DATA_HOME nor HOME is an absolute path: set the place of the results with --store PATH",
            )
        }),
    }
}

/// `bytegauge report list`.
pub fn sessions(matches: &ArgMatches) -> Result<u8, Failure> {
    let path = store_path(matches)?;
    let store = Store::open_existing(&path)?;
    let listed = listed(&store)?;
    terminal::print_styled(&style(&path), |style| session_list(&listed, style));
    Ok(DONE)
}

/// Every session. The store lists a session whose process was killed as running: it counts as such only while a process owns it.
fn listed(store: &Store) -> Result<Vec<SessionSummary>, StoreError> {
    let mut listed = store.sessions()?;
    for own in listed.iter_mut().filter(|own| own.status == SessionStatus::Running && !store.is_owned(own.id)) {
        own.status = SessionStatus::Incomplete;
    }
    Ok(listed)
}

/// `bytegauge report [ID…]`.
pub fn report(matches: &ArgMatches) -> Result<u8, Failure> {
    let path = store_path(matches)?;
    let store = Store::open_existing(&path)?;
    let sessions = sessions_named(matches, &store)?;
    let views: Vec<Report> = sessions.iter().map(|id| view(&store, *id, matches)).collect::<Result<_, _>>()?;
    match (matches.get_one::<PathBuf>("html"), views.as_slice()) {
        (Some(file), views) => page::write(views, &path, file)?,
        (None, [view]) => match args::text(matches, "format") {
            Some("go-bench") => {
                terminal::print_data(&go_bench::render(view, &SessionData::load(&store, view.session)?));
            }
            Some("junit") => terminal::print_data(&junit::render(view)),
            _ => {
                show(view, matches, &path)?;
                history::note(&store.session(view.session)?);
            }
        },
        (None, _) => {
            return usage("several sessions are shown on a page: add --html page.html, or name one session");
        }
    };
    let strict = matches.get_flag("strict");
    Ok(views.iter().map(|view| code_of(view, strict)).max().unwrap_or(DONE))
}

/// `bytegauge report export [ID]`.
pub fn export(matches: &ArgMatches) -> Result<u8, Failure> {
    let store = Store::open_existing(&store_path(matches)?)?;
    let session = numbered(matches.get_one("session"), &store)?;
    let redact = matches.get_flag("redact");
    let write = |out: &mut dyn Write| match args::text(matches, "format") {
        Some("csv") => store.export_csv(session, redact, out),
        _ => store.export_jsonl(session, redact, out),
    };
    match matches.get_one::<PathBuf>("output") {
        None => write(&mut BufWriter::new(terminal::StandardOutput))?,
        Some(path) => {
            let unwritten =
                |error| Failure::failed(format!("cannot write {}: {error}: choose another --output", path.display()));
            let exported = |file: &mut File| {
                let mut out = BufWriter::new(file);
                let exported = write(&mut out);
                out.flush()?;
                // An error of the store has a text of its own, and leaves no file.
                exported.map_err(io::Error::other)
            };
            new_file::replace(path, exported).map_err(|error| match error.downcast::<StoreError>() {
                Ok(StoreError::Export(error)) | Err(error) => unwritten(error),
                Ok(error) => error.into(),
            })?;
        }
    }
    Ok(DONE)
}

/// Notes of an import that are printed.
const WARNINGS_MAX: usize = 20;

/// `bytegauge report import FILE`.
pub fn import(matches: &ArgMatches) -> Result<u8, Failure> {
    let path = store_path(matches)?;
    let mut store = Store::open(&path)?;
    let file = matches.get_one::<PathBuf>("file").map_or(Path::new(""), PathBuf::as_path);
    let format =
        args::text(matches, "from").and_then(|name| FORMATS.iter().find(|row| row.name == name)).map(|row| row.value);
    let mut map = Vec::new();
    for list in args::texts(matches, "map") {
        for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (ours, theirs) = pair.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--map {pair}: write OURS=THEIRS, such as read_size=read_buffer_bytes"))
            })?;
            map.push((ours.trim().replace('-', "_"), theirs.trim().to_owned()));
        }
    }
    let name = args::text(matches, "name").map(str::to_owned);
    let options = ImportOptions { format, map, name };
    let imported = match file == Path::new("-") {
        true => bytegauge_import::import(&mut store, io::stdin().lock(), &options)?,
        false => bytegauge_import::import_file(&mut store, file, &options)?,
    };
    for warning in imported.warnings.iter().take(WARNINGS_MAX) {
        terminal::note(&format!("note: {warning}"));
    }
    if let Some(more @ 1..) = imported.warnings.len().checked_sub(WARNINGS_MAX) {
        terminal::note(&format!("note: {} like these", counted(more, "more note")));
    }
    terminal::print(&format!(
        "session {}: {} of {} from {}; show it with `{} report {}`\n",
        imported.session,
        counted(imported.trials, "trial"),
        counted(imported.cells, "option"),
        file.display(),
        called(&path),
        imported.session
    ));
    Ok(DONE)
}

/// The length of the intervals in which long trials are shown.
pub fn interval(matches: &ArgMatches) -> Result<Option<Nanos>, Failure> {
    let interval = args::parsed::<Nanos>(matches, "interval")?;
    if interval.is_some_and(|interval| interval < SHORTEST_INTERVAL) {
        return usage(format!("--interval: bins are a millisecond long, so {SHORTEST_INTERVAL} or more"));
    }
    Ok(interval)
}

/// Shorter ones would show the lengths of the bins.
const SHORTEST_INTERVAL: Nanos = Nanos(10_000_000);

/// The settled numbers of a session.
pub fn view(store: &Store, session: SessionId, matches: &ArgMatches) -> Result<Report, Failure> {
    let data = SessionData::load(store, session)?;
    check_objective(matches, &format!("session {session}"), data.groups.iter().map(|row| &row.group.factors))?;
    let settings = Settings { is_running: store.is_owned(session), ..settings(matches)? };
    let mut view = View::of(&data, &settings);
    if let Some(Nanos(interval_ns)) = interval(matches)? {
        over_time::add(&mut view, store, interval_ns)?;
    }
    // An older session that cannot be read is no reason to lose this one's report.
    let earlier = history::earlier(store, &data.record).ok().flatten();
    let before = earlier.and_then(|id| SessionData::load(store, id).ok()).map(|data| Report::of(&data, &settings));
    Ok(Report::new(view, before.as_ref()))
}

/// The user's settings for the analysis.
pub fn settings(matches: &ArgMatches) -> Result<Settings, Failure> {
    let fit_max = args::parsed::<Bytes>(matches, "fit-max")?.map(|bytes| bytes.0);
    if fit_max == Some(0) {
        return usage("--fit-max takes a size of 1 B or more: --fit-max 64K");
    }
    let objective = matches.try_get_one::<String>("objective").ok().flatten();
    let objective = objective.and_then(|name| serde_json::from_value(name.as_str().into()).ok());
    Ok(Settings { fit_max, objective, ..Settings::default() })
}

/// Refuses an `--objective` that no test of a plan or a session has.
pub fn check_objective<'a>(
    matches: &ArgMatches,
    whose: &str,
    mut tests: impl Iterator<Item = &'a Spec>,
) -> Result<(), Failure> {
    let Some(asked) = settings(matches)?.objective else { return Ok(()) };
    if tests.any(|spec| spec.has_cost(asked)) {
        return Ok(());
    }
    usage(match asked {
        Cost::GapP99 => {
            format!("--objective gap-p99: {whose} has no replies in parts (--response-chunk or --response-header)")
        }
        Cost::Latency => format!("--objective latency: {whose} has no calls; use time or cpu"),
        Cost::P99 => format!("--objective p99: {whose} has no calls; use time or cpu"),
        Cost::Urgent => format!("--objective urgent: {whose} has no urgent messages (--urgent)"),
        _ => format!("--objective cpu: {whose} has one kind of cost; leave it out"),
    })
}

/// Refuses a `--group` that a plan or a session does not have.
pub fn check_group<'a>(
    matches: &ArgMatches,
    whose: &str,
    ids: impl Iterator<Item = &'a GroupId> + Clone,
) -> Result<(), Failure> {
    match args::text(matches, "group").filter(|named| ids.clone().all(|id| id.0 != *named)) {
        None => Ok(()),
        Some(named) => {
            let known: Vec<String> = ids.map(ToString::to_string).collect();
            usage(format!("--group {named}: {whose} has {}", known.join(", ")))
        }
    }
}

/// Prints a view in the chosen format; as text the first screen, unless `--full` or `--group` is given.
///
/// # Errors
/// When there is no such group.
pub fn show(view: &Report, matches: &ArgMatches, store: &Path) -> Result<(), Failure> {
    let group = args::text(matches, "group");
    match args::text(matches, "format") {
        Some("json") => terminal::print_data(&render::json::render(view)),
        Some("csv") => terminal::print_data(&csv::render(view)),
        Some("markdown") => terminal::print_data(&render::markdown::render(view)),
        _ => {
            check_group(matches, &format!("session {}", view.session), view.groups.iter().map(|group| &group.id))?;
            let over_time = interval(matches)?.map_or_else(String::new, |_| render::over_time::render(view));
            let full = matches.get_flag("full");
            terminal::print_styled(&style(store), |style| {
                let text = match group {
                    Some(group) => render::full::one_test(view, group, style).unwrap_or_default(),
                    None if full => {
                        let of_changes = bytegauge_tune::screen::render(view, style, full).map(|text| text + "\n");
                        of_changes.unwrap_or_default() + &render::full::full(view, style)
                    }
                    None => bytegauge_tune::screen::render(view, style, full)
                        .unwrap_or_else(|| render::screen::render(view, style)),
                };
                text + &over_time
            });
        }
    }
    Ok(())
}

/// The named sessions, each once; the latest without a name.
pub fn sessions_named(matches: &ArgMatches, store: &Store) -> Result<Vec<SessionId>, Failure> {
    let given = matches.get_many("session").map_or_else(|| vec![None], |all| all.map(Some).collect());
    let mut ids: Vec<SessionId> = Vec::new();
    for id in given {
        let id = numbered(id, store)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The session of a number, or the latest.
fn numbered(id: Option<&i64>, store: &Store) -> Result<SessionId, Failure> {
    match id {
        Some(id) => Ok(SessionId(*id)),
        None => store
            .latest_session()?
            .ok_or_else(|| Failure::usage("the store is empty: run `bytegauge run buffer-size` first")),
    }
}

/// How to print on this terminal.
pub fn style(store: &Path) -> TerminalStyle {
    let (path, program) = (store.display().to_string(), called(store));
    let columns = terminal::width();
    // `anstream` removes colour again for NO_COLOR and dumb terminals.
    TerminalStyle { columns, colour: terminal::is_output_terminal(), store: Some(path), program }
}

/// The program as a shell finds it: by its name, or by the path that it was called by.
fn program() -> String {
    let words = std::env::args_os().next().and_then(|word| word.into_string().ok());
    let path = words.filter(|word| word.contains('/'));
    path.map_or_else(|| "bytegauge".into(), |path| shlex::try_quote(&path).unwrap_or(Cow::Borrowed(&path)).into_owned())
}

/// The program as it was called, with the option that finds these results.
pub fn called(store: &Path) -> String {
    match bytegauge_store::default_path().is_some_and(|default| default == store) {
        true => program(),
        // The command may be copied to another place.
        false => {
            let path = std::path::absolute(store).as_deref().unwrap_or(store).display().to_string();
            format!("{} --store {}", program(), shlex::try_quote(&path).unwrap_or(Cow::Borrowed(&path)))
        }
    }
}

/// A message whose commands find these results; commands with a store are left alone.
pub fn naming(message: &str, store: &Path) -> String {
    with_program(message, &called(store))
}

fn with_program(message: &str, called: &str) -> String {
    let plain = "`bytegauge ";
    let mut parts = message.split(plain);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.starts_with("--store ") {
            true => named.push_str(plain),
            false => named.extend(["`", called, " "]),
        }
        named.push_str(part);
    }
    named
}

/// The next steps in one line, the commands first.
pub fn next(view: &Report, store: &Path) -> String {
    let called = called(store);
    let steps = view.next.iter().map(|step| match step.typed(&called) {
        Some(command) => format!("{command}  ({})", step.text),
        None => step.text.clone(),
    });
    steps.collect::<Vec<_>>().join("; ")
}

/// The command that continues an interrupted session; else the next steps.
pub fn continuation(view: &Report, store: &Path) -> String {
    let resume = view.next.iter().find(|step| step.continues).and_then(|step| step.typed(&called(store)));
    resume.unwrap_or_else(|| next(view, store))
}

// The list of sessions in a store.

/// The status as it is shown.
fn status(session: &SessionSummary) -> String {
    let SessionSummary { status, has_result, imported, .. } = *session;
    let name = if status == SessionStatus::Complete && !has_result { "failed" } else { status.name() };
    let imported = imported && status != SessionStatus::Imported;
    format!("{name}{}", if imported { ", imported" } else { "" })
}

/// The time from the begin to the end.
fn took(session: &SessionSummary) -> String {
    let took = session.finished_unix_ns.and_then(|end| end.checked_sub(session.started_unix_ns));
    took.map_or_else(|| "–".into(), |ns| Nanos(ns).to_string())
}

/// A heading, whether its texts align right, and the text of a session.
type ListColumn = (&'static str, bool, fn(&SessionSummary) -> String);

const COLUMNS: [ListColumn; 10] = [
    ("ID", true, |own| own.id.to_string()),
    ("started (UTC)", false, |own| rfc3339(own.started_unix_ns).replace('T', " ").trim_end_matches('Z').to_owned()),
    ("took", true, took),
    ("status", false, status),
    ("plan", false, |own| own.plan_name.clone()),
    ("tests", true, |own| own.groups.to_string()),
    ("options", true, |own| own.cells.to_string()),
    ("trials", true, |own| own.trials.to_string()),
    (VERSION, false, |own| own.version.clone()),
    (SAVED, false, |own| own.saved.clone().unwrap_or_default()),
];

/// The columns that may be hidden.
const VERSION: &str = "version";
const SAVED: &str = "saved as";

/// One line per session, the newest first as in the store.
fn session_list(sessions: &[SessionSummary], style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    if sessions.is_empty() {
        return "no sessions yet: run `bytegauge run buffer-size`\n".into();
    }
    let mut columns = COLUMNS.map(|(heading, right, text)| Column::of(heading, right, sessions, text)).to_vec();
    // A column without any entry is left out, and that of versions where it has no room.
    columns.retain(|column| column.heading != SAVED || column.texts.iter().any(|text| !text.is_empty()));
    let width = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
    if width(&columns) > style.columns + 2 {
        columns.retain(|column| column.heading != VERSION);
    }
    let mut lines = table::lines(&columns);
    if let Some(head) = lines.first_mut() {
        *head = paint.dim(head);
    }
    lines.push(String::new());
    let legend = "took: from the begin to the end, with pauses of a resumed session; complete: the planned analysis is done, and --resume continues with the next one; failed: no option has a result";
    lines.extend(wrap(legend, style.columns.clamp(60, 100)).iter().map(|line| paint.dim(line)));
    lines.push(paint.dim(&format!("{} report ID prints one again", style.program)));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use bytegauge_model::SessionRecord;

    use super::*;

    #[test]
    fn a_command_of_a_message_names_one_store() {
        let check =
            |message: &str, named: &str| assert_eq!(with_program(message, "./bytegauge --store /tmp/r.db"), named);
        check("run `bytegauge report 1`, or leave", "run `./bytegauge --store /tmp/r.db report 1`, or leave");
        let saved = "see it with `bytegauge --store r.db.saved-1 report`";
        check(saved, saved);
        check(
            "`bytegauge --store x report`, `bytegauge doctor`",
            "`bytegauge --store x report`, `./bytegauge --store /tmp/r.db doctor`",
        );
        check("no command", "no command");
    }

    #[test]
    fn sessions_of_ended_processes_do_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("results.db")).unwrap();
        let begun = SessionRecord { plan_name: "stream".into(), workload: "stream".into(), ..SessionRecord::default() };
        let (owned, left) = (store.create_session(&begun).unwrap(), store.create_session(&begun).unwrap());
        let _owner = store.own(owned).unwrap();
        let statuses: Vec<_> = listed(&store).unwrap().into_iter().map(|row| (row.id, row.status)).collect();
        assert_eq!(statuses, [(left, SessionStatus::Incomplete), (owned, SessionStatus::Running)]);
    }
}

#[cfg(test)]
mod session_list_tests {
    use bytegauge_model::SessionId;

    use super::*;

    #[test]
    fn sessions_are_listed() {
        let summary = SessionSummary {
            id: SessionId(3),
            started_unix_ns: 1_763_756_269_000_000_000,
            finished_unix_ns: Some(1_763_756_330_500_000_000),
            status: SessionStatus::Complete,
            plan_name: "buffer-size".into(),
            workload: "stream".into(),
            version: "0.1.0".into(),
            imported: false,
            saved: None,
            groups: 6,
            cells: 132,
            trials: 2400,
            has_result: true,
        };
        let style = TerminalStyle::default();
        let text = session_list(std::slice::from_ref(&summary), &style);
        assert!(text.contains(" 3  2025-11-21 20:17:49  61.5 s  complete  buffer-size"), "{text}");
        assert!(!text.contains("saved as"), "{text}");
        let saved = SessionSummary { saved: Some("before-1.2".into()), ..summary.clone() };
        let wide = TerminalStyle { columns: 120, ..TerminalStyle::default() };
        let text = session_list(&[summary.clone(), saved], &wide);
        assert!(text.contains("saved as") && text.contains("0.1.0    before-1.2"), "{text}");
        let narrow = TerminalStyle { columns: 80, ..TerminalStyle::default() };
        let text = session_list(std::slice::from_ref(&summary), &narrow);
        assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains("0.1.0"), "{text}");
        let text = session_list(&[SessionSummary { has_result: false, ..summary }], &style);
        assert!(text.contains("61.5 s  failed") && !text.contains("s  complete"), "{text}");
        assert_eq!(session_list(&[], &style), "no sessions yet: run `bytegauge run buffer-size`\n");
    }
}
