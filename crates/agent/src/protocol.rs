//! The messages between this host and an agent. Each is sent in a [`NumberedMessage`], which numbers it.

use bytegauge_model::escape;
use bytegauge_model::relay::RELAY_METHODS;
use bytegauge_traffic::RemoteFacts;
use bytegauge_traffic::address::Address;
use bytegauge_traffic::message::{Command, Reply};
use bytegauge_traffic::path::Ticket;
use bytegauge_wire::{LineError, MESSAGE_MAX};
use serde::{Deserialize, Serialize};

/// The version of these messages and of the line. An agent of another version is not used.
pub const VERSION: u16 = 3;

/// Longest message that an agent accepts, bytes: a command with every CPU of a large machine.
pub(super) const COMMAND_MAX: usize = 64 << 10;

/// Longest first answer of an agent, bytes. It holds the facts of its machine, which every session stores: 2 KiB on a machine
/// with 2 CPUs, and a fifth of this on one with 1024.
pub(super) const WELCOME_MAX: usize = 1 << 20;

/// Longest later message of an agent, bytes; a longer report fails its trial.
pub(super) const REPLY_MAX: usize = MESSAGE_MAX;

/// Most commands of a trial after the one that opens it. A trial has three.
pub(super) const COMMANDS_MAX: usize = 8;

/// Most unread replies of an end. A trial has five.
pub(super) const REPLIES_MAX: usize = 16;

/// Longest reason or name accepted from the other side, bytes. Longer ones are cut.
pub(super) const TEXT_MAX: usize = 2 << 10;

/// Longest program version accepted from the other side, characters, all visible ASCII.
pub(super) const PROGRAM_MAX: usize = 40;

/// A text of the other side, cut to [`TEXT_MAX`].
fn cut(text: String) -> String {
    escape::cut(text, TEXT_MAX)
}

/// The other side's program version, made safe for a log.
pub(super) fn program(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(PROGRAM_MAX).collect()
}

/// A message with its number (from 1; 0 for messages that are not kept), and the last number received from the other side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NumberedMessage<T>(pub(super) u64, pub(super) u64, pub(super) T);

/// Messages to an agent. Ends are numbered, so that replies of one that was given up are ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToAgent {
    /// The first message: asks for a session.
    Ask(Ask),
    /// Starts an end; an older one leaves.
    Start(u64),
    /// Sends a command to an end.
    Tell(u64, Box<Command>),
    /// Lets an end leave.
    End(u64),
    /// Asks for the CPU time of the session's ends.
    Used,
}

/// A request for a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ask {
    /// The version of the program.
    pub(super) program: String,
    /// Its expected length, nanoseconds.
    pub(super) duration_ns: u64,
    /// The session to continue, whose line broke.
    #[serde(default)]
    pub(super) session: Option<Ticket>,
}

/// Messages from an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToHome {
    /// The session begins.
    Welcome(Box<Welcome>),
    /// The session is refused or over. The line ends.
    Refused(String),
    /// A reply of an end.
    Heard(u64, Box<Reply>),
    /// An end is gone, with the reason.
    Gone(u64, String),
    /// CPU time that the session's ends have used so far, nanoseconds.
    Used(u64),
}

/// An agent's description of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    #[serde(flatten)]
    pub(super) facts: RemoteFacts,
    /// The ticket by which the session continues after its line broke.
    pub(super) session: Ticket,
}

impl Welcome {
    /// The same within the caps.
    pub(super) fn within_caps(self) -> Welcome {
        let Welcome { mut facts, session } = self;
        facts.program = program(&facts.program);
        facts.missing_relays.retain(|method, _| RELAY_METHODS.iter().any(|row| row.name == method));
        facts.missing_relays.values_mut().for_each(|why| *why = cut(std::mem::take(why)));
        Welcome { facts, session }
    }
}

impl ToHome {
    /// The same within the caps.
    /// # Errors
    /// [`LineError::Garbled`] if an end listens at another address than an IP address: this host's ends would connect to a
    /// Unix socket of this host.
    pub(super) fn within_caps(self) -> Result<ToHome, LineError> {
        Ok(match self {
            ToHome::Welcome(welcome) => ToHome::Welcome(Box::new(welcome.within_caps())),
            ToHome::Refused(reason) => ToHome::Refused(cut(reason)),
            ToHome::Gone(end, how) => ToHome::Gone(end, cut(how)),
            ToHome::Heard(end, reply) => ToHome::Heard(
                end,
                Box::new(match *reply {
                    Reply::Listening(Address::Ip(at)) => Reply::Listening(Address::Ip(at)),
                    Reply::Listening(_) => {
                        return Err(LineError::Garbled("an end that does not listen at an IP address"));
                    }
                    Reply::Skipped(reason) => Reply::Skipped(cut(reason)),
                    Reply::Failed(reason, report) => Reply::Failed(cut(reason), report),
                    other => other,
                }),
            ),
            ToHome::Used(ns) => ToHome::Used(ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn received(word: Value) -> Result<ToHome, LineError> {
        serde_json::from_value::<ToHome>(word).unwrap().within_caps()
    }

    #[test]
    fn texts_of_an_agent_are_cut() {
        let long = "é".repeat(TEXT_MAX);
        for word in [
            json!({"refused": long}),
            json!({"gone": [1, long]}),
            json!({"heard": [1, {"skipped": long}]}),
            json!({"heard": [1, {"failed": [long, bytegauge_model::EndReport::default()]}]}),
        ] {
            let text = match received(word).unwrap() {
                ToHome::Refused(text) | ToHome::Gone(_, text) => text,
                ToHome::Heard(_, reply) => match *reply {
                    Reply::Skipped(text) | Reply::Failed(text, _) => text,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            assert_eq!(text, "é".repeat(TEXT_MAX / 2));
        }
    }

    #[test]
    fn welcome_keeps_known_methods_and_a_short_program() {
        let ticket = vec![7; 32];
        let missing = json!({"splice": "x".repeat(2 * TEXT_MAX), "no such method": "y"});
        let welcome =
            json!({"program": "1\u{1b}[2J".repeat(99), "machine": {}, "missing_relays": missing, "session": ticket});
        let Ok(ToHome::Welcome(welcome)) = received(json!({"welcome": welcome})) else { panic!() };
        assert_eq!(welcome.facts.program.len(), PROGRAM_MAX);
        assert!(!welcome.facts.program.contains('\u{1b}'));
        let kept: Vec<(&String, usize)> =
            welcome.facts.missing_relays.iter().map(|(name, why)| (name, why.len())).collect();
        assert_eq!(kept, [(&"splice".to_owned(), TEXT_MAX)]);
    }

    #[test]
    fn ends_of_an_agent_listen_at_ip_addresses() {
        let listening = |at: Value| received(json!({"heard": [1, {"listening": at}]}));
        assert!(listening(json!({"ip": "192.0.2.1:4711"})).is_ok());
        for at in
            [json!({"path": "/run/x"}), json!({"abstract": "x"}), json!({"ports": ["192.0.2.1:1"]}), json!("alone")]
        {
            assert!(matches!(listening(at.clone()), Err(LineError::Garbled(_))), "{at}");
        }
    }
}
