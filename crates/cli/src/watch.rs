//! `bytegauge watch [ID]`: the report page of a session that goes on, on loopback, until it ends.
//!
//! A process of its own, which reads the store: whatever a browser does, the session hears nothing of it. It works only for
//! somebody who looks, at most once every few seconds and a twentieth of the time, and where nobody else wants the CPU. What
//! it takes all the same the session sees as other programs' work, and says so. What is shown are whole trials: a trial is
//! one transaction.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_model::{SessionId, SessionStatus};
use bytegauge_report::{SessionData, Settings, View, render};
use bytegauge_store::Store;
use clap::ArgMatches;

use crate::exit::{DONE, Failure};
use crate::page_server::{PageContent, PageServer};
use crate::{interrupt, page, stored, terminal};

/// How often a page asks whether there is something new.
const ASK_MS: u64 = 3_000;

/// How often the store is asked how the session stands.
const LOOK: Duration = Duration::from_millis(500);

/// Pages are made no more often than this,
const PAUSE: Duration = Duration::from_secs(5);

/// and the making of them takes no more than one part of so many.
const SHARE: u32 = 20;

/// How long after the end the last page is there, for those who look.
const FAREWELL: Duration = Duration::from_secs(10);

/// Looks in a row that find a session without its process before it counts as cut off: between its first row and its lock
/// there is a moment.
const ALONE_MAX: u32 = 4;

/// Serves until the session ends, or until SIGINT or SIGTERM.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    // Where it cannot be had, the bounds above are what keeps us small.
    let _ = bytegauge_sys::process::run_when_idle();
    let path = stored::store_path(matches)?;
    let store = Store::open_existing(&path)?;
    let session = session(matches, &store, &stored::called(&path))?;
    let stop = interrupt::stop_on_signals()?;
    let port = matches.get_one::<u16>("port").copied().unwrap_or(0);
    let (mut made, first) = Made::of(&store, session)?;
    let server = PageServer::start((Ipv4Addr::LOCALHOST, port).into(), first)?;
    // Whoever does not listen may still look.
    terminal::print(&format!("session {session} is at {} until it ends; Ctrl-C leaves it\n", server.address()));
    if matches.get_flag("open") {
        page::show(server.address().as_ref()).map_err(|error| {
            Failure::failed(format!("cannot show it: {error}: open {} in a browser", server.address()))
        })?;
    }
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
        SessionStatus::Running => format!("was cut off: go on with --resume {session}"),
        SessionStatus::Incomplete => format!("was interrupted: go on with --resume {session}"),
        SessionStatus::Complete | SessionStatus::Imported => "is complete".to_owned(),
    };
    let called = stored::called(&path);
    terminal::print(&format!("session {session} {how}; its page: {called} report {session} --html page.html --open\n"));
    Ok(DONE)
}

/// The session that was named, or the latest that is being measured.
fn session(matches: &ArgMatches, store: &Store, called: &str) -> Result<SessionId, Failure> {
    let named = matches.get_one::<i64>("session").map(|id| SessionId(*id));
    if let Some(session) = named {
        let (status, _) = store.standing(session)?;
        return match status == SessionStatus::Running && store.is_owned(session) {
            true => Ok(session),
            false => Err(Failure::usage(format!(
                "session {session} is not being measured: see it with `{called} report {session} --html page.html --open`"
            ))),
        };
    }
    store.begun()?.into_iter().find(|session| store.is_owned(*session)).ok_or_else(|| {
        Failure::usage(format!(
            "no session of this store is being measured: start one, such as `{called} run buffer-size`, or see the latest \
             with `{called} report --html page.html --open`"
        ))
    })
}

/// When a page was made, of how many trials, and what it cost.
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
        let view = View::of(&SessionData::load(store, session)?, &settings);
        let views = std::slice::from_ref(&view);
        let served = PageContent {
            page: render::page::render_live(&view, ASK_MS),
            documents: render::page::documents(views),
            version: trials,
            over: false,
        };
        Ok((Made { trials, at: Instant::now(), took: began.elapsed() }, served))
    }

    fn is_due(&self) -> bool {
        self.at.elapsed() >= PAUSE.max(self.took * SHARE)
    }
}
