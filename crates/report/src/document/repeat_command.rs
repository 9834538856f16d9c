//! The commands that continue a session, or ask the same once more with other flags.

use crate::view::numbers::View;

/// Flags for the length of a session: another budget replaces them.
const LENGTHS: [&str; 4] = ["--time", "--until", "--max-time", "--blocks"];
/// Flags without a value that change what is shown, not what is measured.
const OF_DISPLAY: [&str; 3] = ["-q", "--quiet", "--no-page"];

/// The command that continues a session. It needs no flags: the store has the plan.
pub fn resume(view: &View) -> String {
    let is_built_in = |plan: &String| !plan.starts_with('-') && !plan.contains(['/', '.']);
    let command = match view.plan.asked.as_deref().unwrap_or(&[]) {
        _ if view.versus.is_some() => "ab".to_owned(),
        [run, plan, ..] if run == "run" && is_built_in(plan) => format!("run {plan}"),
        // A plan in a file is named by its session alone.
        [command, ..] => command.clone(),
        // A part of a survey was asked by no words of its own; `run` takes any.
        [] => "run".to_owned(),
    };
    format!("bytegauge {command} --resume {}", view.session)
}

/// The command that asks the same in a new session, with another budget where one is given, `None` where it is not known;
/// and with further flags.
pub fn again_with(view: &View, budget: Option<&str>, further: &[String]) -> Option<String> {
    let time = budget.iter().flat_map(|budget| ["--time".to_owned(), (*budget).to_owned()]);
    let further: Vec<String> = further.iter().cloned().chain(time).collect();
    again_instead(view, if budget.is_some() { &LENGTHS } else { &[] }, &further)
}

/// The command that asks the same without these flags and their values, and with others; `None` where it is not known.
pub fn again_instead(view: &View, replaced: &[&str], further: &[String]) -> Option<String> {
    let asked = view.plan.asked.as_deref()?;
    // The words behind -- are the command of a program.
    let flags = asked.iter().position(|word| word == "--").unwrap_or(asked.len());
    let (own, program) = asked.split_at(flags);
    let mut words: Vec<&str> = vec!["bytegauge"];
    let mut skip = false;
    for word in own {
        let name = word.split('=').next().unwrap_or(word);
        let is_replaced = replaced.contains(&name);
        if !std::mem::take(&mut skip) && !is_replaced && !OF_DISPLAY.contains(&name) {
            words.push(word);
        }
        skip |= is_replaced && name == word;
    }
    words.extend(further.iter().map(String::as_str));
    words.extend(program.iter().map(String::as_str));
    Some(words.into_iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// The same options with a search by the first of these flags, in place of all of them.
pub fn again_searching(view: &View, flags: &[&str], limit: &str) -> Option<String> {
    again_instead(view, &[&LENGTHS, flags].concat(), &[flags[0].to_owned(), limit.to_owned()])
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:,=@%+-".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
