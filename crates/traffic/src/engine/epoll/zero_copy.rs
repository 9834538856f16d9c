//! Writers of the epoll engine with `MSG_ZEROCOPY`. The socket's error queue announces that the kernel returned memory, as `EPOLLERR`.

use std::io;
use std::os::fd::AsFd;

use crate::end_error::EndError;
use crate::engine::epoll::EpollLoop;
use crate::engine::event_loop::{Then, WaitingFor};
use crate::engine::poller::Poller;
use crate::engine::unconnected;
use crate::engine::zero_copy::ZeroCopySend;
use crate::flow::Flow;
use crate::party::Party;

impl<P: Party, B: Poller> EpollLoop<'_, P, B> {
    /// As [`try_to_send`](Self::try_to_send), without copies.
    #[inline(never)]
    pub(super) fn try_to_send_in_place(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        if !slot.link.writable {
            self.rest(index, WaitingFor::Send)?;
            return Ok(Then::Rest);
        }
        let sends = slot.link.in_place.get_or_insert_default();
        match sends.send(fd.as_fd(), flow) {
            Ok(ZeroCopySend::Sent { moved, asked }) => {
                self.meter.count(moved, asked);
                slot.link.writable = moved == asked;
                flow.sent(moved, *now_ns);
                Ok(Then::Ask)
            }
            Ok(ZeroCopySend::Held) => {
                // Room in the socket is no news: only an error queue with notifications is.
                (slot.link.writable, slot.link.awaits_return) = (false, true);
                self.rest(index, WaitingFor::Send)?;
                Ok(Then::Rest)
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::WouldBlock {
                    // Notifications that wait would be announced again and again.
                    let _ = sends.reap(fd.as_fd());
                }
                self.not_sent(index, &error, now_ns)
            }
        }
    }
}
