//! `run survey`: runs the built-in plans at a small scale, one after another, and prints each result at once.

use std::sync::atomic::Ordering;

use bytegauge_harness::stages::{Observer, Silent};
use bytegauge_harness::{Ended, RunOptions};
use bytegauge_plan::built_in::{STEPS, SURVEY_NS, SurveyStep};
use bytegauge_plan::{Plan, PlanError, resolve};
use bytegauge_report::render::screen;
use bytegauge_report::{Report, SessionData, Settings};
use bytegauge_store::Store;
use clap::{ArgMatches, Id};

use crate::exit_code::{DONE, FAILED, Failure, INTERRUPTED, usage, verdict_code};
use crate::progress::Display;
use crate::{args, interrupt, measure, page, stored, terminal};

/// The arguments of `run` that a survey has.
const OPTIONS: [&str; 9] = ["plan", "store", "only", "time", "seed", "half-load", "dry-run", "quiet", "no-page"];

/// Lines of a result, so that all of them and the end fit a screen; most need fewer.
const LINES_MAX: usize = 4;

/// Wider lines are hard to read.
const COLUMNS: std::ops::RangeInclusive<usize> = 60..=100;

/// The name of all built-in plans together.
pub const SURVEY: &str = "survey";

/// `bytegauge run survey`.
pub fn survey(matches: &ArgMatches) -> Result<u8, Failure> {
    if let Some(other) = matches.ids().map(Id::as_str).find(|id| args::is_given(matches, id) && !OPTIONS.contains(id)) {
        return usage(format!("--{other} does not work with run survey: leave it out, or run one plan"));
    }
    let budget_ns = args::time_ns(matches, "time")?.unwrap_or(SURVEY_NS);
    let steps = steps(matches)?;
    if matches.get_flag("dry-run") {
        terminal::print(&forecast(&steps, budget_ns));
        return Ok(DONE);
    }
    let seed = args::seed(matches);
    let is_gentle = matches.get_flag("half-load");
    let planned = |step: &SurveyStep| planned(step, &steps, budget_ns, seed, is_gentle);
    let planned = steps.iter().map(planned).collect::<Result<Vec<_>, _>>()?;
    if let Some(Err(why)) = planned.first().filter(|_| planned.iter().all(Result::is_err)) {
        return usage(format!("nothing of the survey can be measured: {}: {why}", steps[0].plan));
    }
    let path = stored::store_path(matches)?;
    let mut store = Store::open(&path)?;
    let style = stored::style(&path);
    // Text that is cut for a screen must be complete in a file or for a program.
    let width = match terminal::is_output_terminal() {
        true => style.columns.clamp(*COLUMNS.start(), *COLUMNS.end()),
        false => usize::MAX,
    };
    let stop = interrupt::stop_on_signals()?;
    let program = measure::own_program()?;
    measure::remove_leftovers(!measure::talks(matches));
    let mut views = Vec::new();
    let mut interrupted = false;
    for (at, (step, plan)) in steps.iter().zip(planned).enumerate() {
        if stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
        let title = format!("{}/{} {}: {}", at + 1, steps.len(), step.plan, step.asks);
        // A plan that this machine or the time does not allow is reported, and the rest continues.
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => {
                terminal::print(&format!("{title}\n  - {why}\n"));
                continue;
            }
        };
        let options = RunOptions {
            program: program.clone(),
            start_network: Some(bytegauge_emulated_link::start_network),
            ..RunOptions::default()
        };
        let observer: Box<dyn Observer> =
            if measure::talks(matches) { Box::new(Display::new()) } else { Box::new(Silent) };
        let (session, ended) = measure::execute(plan, None, &mut store, options, &stop, observer)?;
        let view = Report::of(&SessionData::load(&store, session)?, &Settings::default());
        let lines = screen::brief(&view, LINES_MAX, width, &style.program).join("\n");
        terminal::print(&format!("{title} (session {session})\n{lines}\n"));
        views.push(view);
        if ended == Ended::Interrupted {
            interrupted = true;
            break;
        }
    }
    let ids: Vec<String> = views.iter().map(|view: &Report| view.session.to_string()).collect();
    let called = &style.program;
    terminal::print(&match ids.first() {
        None => "\nnothing was measured\n".to_owned(),
        Some(first) => format!(
            "\nAll details: {called} report {first}\nPage:        {called} report {} --html survey.html\nNoise:       {called} doctor\n",
            ids.join(" ")
        ),
    });
    if interrupted {
        terminal::note("interrupted: everything measured is kept");
    }
    if measure::talks(matches) && !matches.get_flag("no-page") {
        page::keep(&views, &path);
    }
    let has_failed = !interrupted && views.iter().all(|view| verdict_code(view, false) == FAILED);
    Ok(if interrupted {
        INTERRUPTED
    } else if has_failed {
        FAILED
    } else {
        DONE
    })
}

/// The plan of a step, or why this machine or the time does not allow it.
fn planned(
    step: &SurveyStep,
    steps: &[SurveyStep],
    budget_ns: u64,
    seed: u64,
    is_gentle: bool,
) -> Result<Result<Plan, String>, Failure> {
    let mut spec = step.spec(steps, budget_ns)?;
    spec.gentle = is_gentle;
    match resolve(&spec, &measure::catalog(&spec), seed) {
        Ok(plan) if plan.budget_ns <= step.budget_ns(steps, budget_ns) => Ok(Ok(plan)),
        Ok(_) | Err(PlanError::Budget(_)) => {
            Ok(Err("its part of the time is too short: give a longer --time, or fewer --only".into()))
        }
        Err(error @ PlanError::NothingLeft(_)) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The named steps, or all.
fn steps(matches: &ArgMatches) -> Result<Vec<SurveyStep>, Failure> {
    let Some(only) = args::text(matches, "only") else { return Ok(STEPS.to_vec()) };
    let named: Vec<&str> = only.split(',').map(str::trim).collect();
    if let Some(unknown) = named.iter().find(|name| STEPS.iter().all(|step| step.plan != **name)) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.plan).collect();
        return usage(format!("--only: `{unknown}` is not a part of the survey: use {}", known.join(", ")));
    }
    Ok(STEPS.iter().copied().filter(|step| named.contains(&step.plan)).collect())
}

fn forecast(steps: &[SurveyStep], budget_ns: u64) -> String {
    let seconds = |step: &SurveyStep| step.budget_ns(steps, budget_ns) / 1_000_000_000;
    let lines = steps.iter().map(|step| format!("{:>5} s  {}: {}\n", seconds(step), step.plan, step.asks));
    lines.collect::<String>() + "each is a session of its own, as `bytegauge run NAME` measures it in full\n"
}
