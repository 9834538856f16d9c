//! The number that a command of the user prints: what a run, or a running program, did by its own account.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use bytegauge_model::PrintedNumber;
use bytegauge_model::task::by_shell;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::interface::HeldNetwork;

use super::program::{Program, ProgramEvent, StartedIn, attend};
use crate::end_error::EndError;

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A command whose number is asked for at both ends of a run.
pub(super) struct AskedNumber<'a> {
    means: PrintedNumber,
    command: &'a str,
    /// The total before the run, and when it was printed.
    before: Option<(f64, u64)>,
}

impl<'a> AskedNumber<'a> {
    /// Asks for the number before a run, if it is a total.
    pub(super) fn before(
        means: PrintedNumber,
        command: &'a str,
        network: Option<HeldNetwork>,
        stop_requested: BorrowedFd<'_>,
    ) -> Result<AskedNumber<'a>, EndError> {
        let mut asked = AskedNumber { means, command, before: None };
        if means == PrintedNumber::Total {
            asked.before = Some((asked.ask(network, stop_requested)?, monotonic_ns()));
        }
        Ok(asked)
    }

    /// The rate of the run, of which more is better.
    pub(super) fn rate(&self, network: Option<HeldNetwork>, stop_requested: BorrowedFd<'_>) -> Result<f64, EndError> {
        let number = self.ask(network, stop_requested)?;
        let rate = match (self.means, self.before) {
            (PrintedNumber::Time, _) => 1.0 / number,
            (_, Some((before, at_ns))) => (number - before) * 1e9 / (monotonic_ns() - at_ns).max(1) as f64,
            _ => number,
        };
        if rate > 0.0 && rate.is_finite() {
            return Ok(rate);
        }
        let grew = self.before.map_or_else(String::new, |(before, _)| format!(" after {before}"));
        let what = if self.before.is_some() { "does not grow" } else { "is no number above 0" };
        Err(EndError::Program(format!(
            "the command of --metric printed {number}{grew}, which {what}: give the program work, or correct `{}`",
            self.command
        )))
    }

    /// Runs the command, and reads the last number that it prints.
    fn ask(&self, network: Option<HeldNetwork>, stop_requested: BorrowedFd<'_>) -> Result<f64, EndError> {
        let what = "the command of --metric";
        let how = StartedIn { looks: true, filter: None, network };
        let mut program = Program::start_in(what, &by_shell(self.command), &[], how)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match attend(&mut [&mut program], stop_requested, until)? {
                ProgramEvent::Ended(..) => break,
                ProgramEvent::StopRequested => return Err(EndError::Program("it was stopped".into())),
                ProgramEvent::Nothing if Instant::now() < until => {}
                ProgramEvent::Nothing => {
                    let seconds = PATIENCE.as_secs();
                    return Err(EndError::Program(format!("{what} took longer than {seconds} s: `{}`", self.command)));
                }
            }
        }
        let (status, _) = program.leave()?;
        if !status.success() {
            return Err(EndError::Program(format!("{what} {}", program.how(status))));
        }
        let text = program.output();
        let finite = |word: &str| word.parse::<f64>().ok().filter(|number| number.is_finite());
        let number = text.split_whitespace().rev().find_map(finite);
        number.ok_or_else(|| EndError::Program(format!("{what} printed no number{}", program.last_words())))
    }
}
