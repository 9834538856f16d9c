//! Sentences about the recommendations of an earlier session, with the intervals of the table.

use bytegauge_model::unit::counted;

use super::super::check::has_value;
use super::super::document::{AdviceView, CheckView, OptionResult, OptionStatus, Test, TestState, View};
use super::outcome::is_slower;
use crate::interval_rounding::{ShareScale, percent};

/// The result, and, where both are known, the gain over the present value: predicted and measured.
pub fn text(view: &View, check: &CheckView, advice: &AdviceView) -> String {
    let AdviceView { session, value, question, .. } = advice;
    format!("{value} (session {session}, {question}) {}{}", outcome(view, check, advice), gain(check, advice))
}

/// Decides of each earlier recommendation whether it held.
pub fn settle(view: &mut View) {
    let advice = view.check.iter().flat_map(|check| &check.advice);
    let held: Vec<Option<bool>> = advice.map(|advice| held(view, advice)).collect();
    let advice = view.check.iter_mut().flat_map(|check| &mut check.advice);
    advice.zip(held).for_each(|(advice, held)| advice.held = held);
}

fn held(view: &View, advice: &AdviceView) -> Option<bool> {
    let test = test(view, advice)?;
    let own = option(view, test, advice)?;
    match own.status {
        _ if own.slower_lower? > test.margin => Some(false),
        // The better one of two shows nothing about the best of all.
        OptionStatus::Best if compared(test).count() != 2 => Some(true),
        _ => None,
    }
}

fn test<'a>(view: &'a View, advice: &AdviceView) -> Option<&'a Test> {
    view.tests.iter().find(|test| test.id == advice.group)
}

/// The option with the recommended value.
fn option<'a>(view: &View, test: &'a Test, advice: &AdviceView) -> Option<&'a OptionResult> {
    let is_own = |option: &&OptionResult| view.cell(&option.id).is_some_and(|cell| has_value(cell, &advice.value));
    test.options.iter().find(is_own)
}

fn compared(test: &Test) -> impl Iterator<Item = &OptionResult> {
    test.options.iter().filter(|option| option.slower_upper.is_some())
}

fn outcome(view: &View, check: &CheckView, advice: &AdviceView) -> String {
    let Some(test) = test(view, advice) else { return "was not tried".into() };
    let own = option(view, test, advice);
    let compared: Vec<&OptionResult> = compared(test).collect();
    let Some((own, lower, upper)) = own.and_then(|own| Some((own, own.slower_lower?, own.slower_upper?))) else {
        return match own {
            _ if test.state == TestState::Invalid => {
                "is undecided: the same value measured twice differs significantly".into()
            }
            Some(own) if own.trials > 0 => "is undecided: it was not confirmed in enough blocks".into(),
            _ => "was not measured".into(),
        };
    };
    let best = format!("the best of {} in {}", counted(compared.len(), "value"), check.program);
    let slower = is_slower(test.compares, view.scale, &view.scale.interval(lower, upper), &best);
    let within = percent(test.margin);
    match (advice.held, compared.iter().find(|option| option.id != own.id)) {
        (Some(false), _) => format!("did not hold: it {slower}"),
        (_, Some(other)) if compared.len() == 2 && upper <= test.margin => {
            format!("cannot be judged: it was compared with {} alone, so add --values", other.label)
        }
        (Some(true), _) => format!("held: within {within} of {best}"),
        _ if upper <= test.margin && test.control_upper.is_some_and(|upper| upper > test.margin) => {
            "is undecided: noise exceeds the margin".into()
        }
        _ if upper <= test.margin => format!("is undecided: within {within} of {best}, with a limitation (see Caveat)"),
        _ if own.status == OptionStatus::Slower => slower,
        _ => format!("is undecided: it {slower}"),
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
