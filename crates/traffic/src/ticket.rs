//! The first bytes of a data connection between two hosts, before anything of it counts or is answered.
//!
//! A ticket is valid for one trial. It is sent over the encrypted line, and shown in the clear: it excludes third parties that
//! find an open port, but not those that read the traffic, who could take over the connection as well.

use std::fmt;

use bytegauge_wire::random;
use serde::{Deserialize, Serialize};

use crate::end_error::EndError;

/// Bytes of a ticket.
pub const LEN: usize = 32;

/// Bytes that a connection shows: the ticket, and the number of its flow (u32, little-endian).
pub const SHOWN: usize = LEN + 4;

/// The bytes that are shown.
pub type Shown = [u8; SHOWN];

/// Random bytes that only the two ends of a trial know.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket([u8; LEN]);

impl Ticket {
    /// A new one.
    ///
    /// # Errors
    /// [`EndError::Missing`] where the system gives no random bytes.
    pub fn fresh() -> Result<Ticket, EndError> {
        random().map(Ticket).map_err(|error| EndError::Missing(error.to_string()))
    }

    /// The bytes that a flow's connection shows.
    pub fn shown_by(&self, flow: usize) -> Shown {
        let mut shown = [0; SHOWN];
        shown[..LEN].copy_from_slice(&self.0);
        shown[LEN..].copy_from_slice(&(flow as u32).to_le_bytes());
        shown
    }

    /// The answer of a datagram server to a valid ticket: shorter than the ticket.
    pub(crate) fn answer(&self) -> [u8; LEN] {
        self.0
    }

    /// The flow of these bytes, if the ticket is this one. Takes the same time wherever they differ.
    pub fn admits(&self, shown: &Shown) -> Option<usize> {
        let (ticket, flow) = shown.split_at(LEN);
        let differ = ticket.iter().zip(self.0).fold(0, |differ, (theirs, ours)| differ | (theirs ^ ours));
        let flow = u32::from_le_bytes([flow[0], flow[1], flow[2], flow[3]]);
        // A ticket that was never filled in admits no connection.
        (differ == 0 && *self != Ticket::default()).then_some(flow as usize)
    }
}

/// A ticket is never printed.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ticket_itself_is_admitted() {
        let ticket = Ticket::fresh().unwrap();
        assert_eq!(ticket.admits(&ticket.shown_by(70_000)), Some(70_000));
        for at in 0..LEN {
            let mut shown = ticket.shown_by(0);
            shown[at] ^= 1;
            assert_eq!(ticket.admits(&shown), None);
        }
        let unfilled = Ticket::default();
        assert_eq!(unfilled.admits(&unfilled.shown_by(0)), None);
    }
}
