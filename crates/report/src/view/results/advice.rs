//! Sentences about the recommendations of an earlier session, with the intervals of the table.

use bytegauge_model::unit::counted;

use super::super::check::has_value;
use super::super::document::{AdviceView, CheckView, OptionResult, OptionStatus, TestState, View};
use super::outcome::is_slower;
use crate::interval_rounding::{ShareScale, percent};

/// The result, and, where both are known, the gain over the present value: predicted and measured.
pub fn text(view: &View, check: &CheckView, advice: &AdviceView) -> String {
    let AdviceView { session, value, question, .. } = advice;
    format!("{value} (session {session}, {question}) {}{}", outcome(view, check, advice).1, gain(check, advice))
}

/// Decides of each recommendation whether it held.
pub fn settle(view: &mut View) {
    let of_check = |check: &CheckView| -> Vec<Option<bool>> {
        check.advice.iter().map(|advice| outcome(view, check, advice).0).collect()
    };
    let held = view.check.as_ref().map(of_check);
    let advice = view.check.iter_mut().flat_map(|check| &mut check.advice);
    advice.zip(held.into_iter().flatten()).for_each(|(advice, held)| advice.held = held);
}

/// Whether a recommendation held, and the same as text.
fn outcome(view: &View, check: &CheckView, advice: &AdviceView) -> (Option<bool>, String) {
    let Some(test) = view.test(&advice.group) else { return (None, "was not tried".into()) };
    let is_own = |option: &&OptionResult| view.cell(&option.id).is_some_and(|cell| has_value(cell, &advice.value));
    let own = test.options.iter().find(is_own);
    let compared: Vec<&OptionResult> = test.options.iter().filter(|option| option.slower_upper.is_some()).collect();
    let Some((own, lower, upper)) = own.and_then(|own| Some((own, own.slower_lower?, own.slower_upper?))) else {
        let why = match own {
            _ if test.state == TestState::Invalid => {
                "is undecided: the same value measured twice differs significantly".into()
            }
            Some(own) if own.trials > 0 => "is undecided: it was not confirmed in enough blocks".into(),
            _ => "was not measured".into(),
        };
        return (None, why);
    };
    let best = format!("the best of {} in {}", counted(compared.len(), "value"), check.program);
    let slower = is_slower(test.compares, view.scale, &view.scale.interval(lower, upper), &best);
    let within = percent(test.margin);
    let other = compared.iter().find(|option| option.id != own.id).filter(|_| compared.len() == 2);
    match (own.status, other) {
        _ if lower > test.margin => (Some(false), format!("did not hold: it {slower}")),
        // The better one of two shows nothing about the best of all.
        (_, Some(other)) if upper <= test.margin => {
            (None, format!("cannot be judged: it was compared with {} alone, so add --values", other.label))
        }
        (OptionStatus::Best, _) => (Some(true), format!("held: within {within} of {best}")),
        _ if upper <= test.margin => (None, format!("is undecided: within {within} of {best}, but see Caveat")),
        (OptionStatus::Slower, _) => (None, slower),
        _ => (None, format!("is undecided: it {slower}")),
    }
}

/// The gain over the present value. A prediction is one of rates.
fn gain(check: &CheckView, advice: &AdviceView) -> String {
    let measured = advice.observed_lower.zip(advice.observed_upper).filter(|_| check.rates_by_time);
    let Some(((lower, upper), predicted)) = measured.zip(advice.predicted) else { return String::new() };
    let (predicted, lower, upper) = (predicted - 1.0, lower - 1.0, upper - 1.0);
    let scale = ShareScale::of([predicted, lower, upper]);
    let default = check.default.as_deref().unwrap_or("the present value");
    format!(
        "; compared with {default}, predicted {}, measured {}",
        scale.signed(predicted),
        scale.signed_interval(lower, upper)
    )
}
