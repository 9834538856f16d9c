//! `bytegauge report --watch [ID]`: the report page of a running session, on loopback, until it ends. `--watch` of a command that
//! measures starts it.
//!
//! A separate process, which reads the store, so a browser cannot disturb the session. It works only while a client
//! requests the page, at most once every few seconds and a twentieth of the time, and at the lowest priority. The session
//! counts its CPU time as that of other programs. Only whole trials are shown: a trial is
//! one transaction.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_model::{SessionId, SessionStatus};
use bytegauge_report::{Report, SessionData, Settings};
use bytegauge_store::Store;
use clap::ArgMatches;

use crate::exit_code::{DONE, Failure};
use crate::page_server::{PageContent, PageServer};
use crate::{interrupt, page, stored, terminal};

/// How often a page requests new data.
const ASK_MS: u64 = 3_000;

/// How often the store is checked for the status of the session.
const LOOK: Duration = Duration::from_millis(500);

/// Pages are made no more often than this,
const PAUSE: Duration = Duration::from_secs(5);

/// and making them takes at most 1/20 of the time.
const SHARE: u32 = 20;

/// How long after the end the last page is served.
const FAREWELL: Duration = Duration::from_secs(10);

/// Checks in a row that find a session without its process before it counts as cut off, since its first row comes shortly
/// before its lock.
const ALONE_MAX: u32 = 4;

/// Starts the process that shows a session of this program. It prints its lines to standard error.
///
/// # Errors
/// If it cannot be started.
pub fn start(store: &Path, session: SessionId) -> Result<Child, Failure> {
    let started = || {
        let output = io::stderr().as_fd().try_clone_to_owned()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["report", "--watch", &session.to_string(), "--store"]).arg(store);
        command.stdin(Stdio::null()).stdout(Stdio::from(output)).spawn()
    };
    started().map_err(|error| Failure::failed(format!("--watch: no process for the page: {error}: leave it out")))
}

/// Serves until the session ends, or until SIGINT or SIGTERM.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let path = stored::store_path(matches)?;
    let store = Store::open_existing(&path)?;
    let session = session(matches, &store, &stored::called(&path))?;
    let stop = interrupt::stop_on_signals()?;
    let port = matches.get_one::<u16>("port").copied().unwrap_or(0);
    let (mut made, first) = Made::of(&store, session)?;
    let server = PageServer::start((Ipv4Addr::LOCALHOST, port).into(), first)?;
    // If the reader closes standard output, browsers may still use the page.
    terminal::print(&format!(
        "session {session} is at {} until it ends; Ctrl-C stops only the page\n",
        server.address()
    ));
    // From now on, so that the address appears on a busy machine too. If the priority cannot be set, the limits above keep the load small.
    let _ = bytegauge_sys::process::run_when_idle();
    let unshown = |error| Failure::failed(format!("cannot show it: {error}: open {} in a browser", server.address()));
    // Kept as long as a browser may read it.
    let _shown = matches.get_flag("open").then(|| page::show_address(server.address()).map_err(unshown)).transpose()?;
    let mut alone = 0;
    let status = loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(DONE);
        }
        let (status, trials) = store.standing(session)?;
        alone = if store.is_owned(session) { 0 } else { alone + 1 };
        if status != SessionStatus::Running || alone >= ALONE_MAX {
            break status;
        }
        if trials != made.trials && made.is_due() && server.was_asked() {
            let next;
            (made, next) = Made::of(&store, session)?;
            server.serve(next);
        }
        thread::sleep(LOOK);
    };
    if server.is_looked_at(FAREWELL) {
        let (_, last) = Made::of(&store, session)?;
        server.serve(PageContent { over: true, ..last });
        let end = Instant::now() + FAREWELL;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
    let how = match status {
        SessionStatus::Running => format!("was cut off: continue with --resume {session}"),
        SessionStatus::Incomplete => format!("was interrupted: continue with --resume {session}"),
        SessionStatus::Complete | SessionStatus::Imported => "is complete".to_owned(),
    };
    let called = stored::called(&path);
    terminal::print(&format!("session {session} {how}; its page: {called} report {session} --html page.html --open\n"));
    Ok(DONE)
}

/// The named session, or the latest running one.
fn session(matches: &ArgMatches, store: &Store, called: &str) -> Result<SessionId, Failure> {
    let named = matches.get_one::<i64>("session").map(|id| SessionId(*id));
    if let Some(session) = named {
        let (status, _) = store.standing(session)?;
        return match status == SessionStatus::Running && store.is_owned(session) {
            true => Ok(session),
            false => Err(Failure::usage(format!(
                "session {session} is not running: show it with `{called} report {session} --html page.html --open`"
            ))),
        };
    }
    store.begun()?.into_iter().find(|session| store.is_owned(*session)).ok_or_else(|| {
        Failure::usage(format!(
            "no session of this store is running: start one, such as `{called} run buffer-size`, or show the latest \
             with `{called} report --html page.html --open`"
        ))
    })
}

/// When a page was made, of how many trials, and its cost.
struct Made {
    trials: u64,
    at: Instant,
    took: Duration,
}

impl Made {
    fn of(store: &Store, session: SessionId) -> Result<(Made, PageContent), Failure> {
        let began = Instant::now();
        let (_, trials) = store.standing(session)?;
        let settings = Settings { is_running: store.is_owned(session), ..Settings::default() };
        let view = Report::of(&SessionData::load(store, session)?, &settings);
        let views = std::slice::from_ref(&view);
        let served = PageContent {
            page: bytegauge_report::render::page::render_live(&view, ASK_MS),
            documents: bytegauge_report::render::page::documents(views),
            version: trials,
            over: false,
        };
        Ok((Made { trials, at: Instant::now(), took: began.elapsed() }, served))
    }

    fn is_due(&self) -> bool {
        self.at.elapsed() >= PAUSE.max(self.took * SHARE)
    }
}
