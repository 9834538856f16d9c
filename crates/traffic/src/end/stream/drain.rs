//! The bytes in flight when a reader's window is over.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::end::thread_group::Flags;
use crate::end_error::EndError;
use crate::stream::{Carried, ReaderWork, SinkFlow};
use crate::tls::session::Session;

/// Buffer for draining after the window: large, since draining is not measured.
pub(super) const DRAIN_SIZE: usize = 256 << 10;

/// How long a drain waits before it checks whether to continue.
const WAIT_NS: u64 = 50_000_000;

/// A flow returned by an engine, and its connection.
pub(super) type Read<E> = (Carried<SinkFlow<E>, false>, Option<OwnedFd>);

/// Reads all remaining bytes, so that sent and received bytes can be compared: of all flows of a thread together, since their
/// writer may have to send the rest of one flow before it ends another.
pub(super) fn drain<E: ReaderWork>(left: &mut [Read<E>], size: usize, flags: &Flags) -> Result<(), EndError> {
    let failed = |source| EndError::Io { doing: "draining bytes in flight".into(), source };
    let mut drained: Vec<(&mut Carried<SinkFlow<E>, false>, BorrowedFd<'_>)> = left
        .iter_mut()
        .filter(|(carried, _)| carried.ended.is_none() && !carried.refused)
        .filter_map(|(carried, fd)| Some((carried, fd.as_ref()?.as_fd())))
        .collect();
    let mut scratch = vec![0; size];
    // A thread with one flow waits in its reads: there may be thousands of them, and descriptors are few.
    let ready = if drained.len() > 1 { Some(Epoll::new().map_err(failed)?) } else { None };
    for (token, (_, fd)) in drained.iter().enumerate() {
        ready.iter().try_for_each(|ready| ready.add(*fd, Ready::READ, token as u64)).map_err(failed)?;
    }
    let (mut events, mut open) = (Events::with_room(drained.len()), drained.len());
    while open > 0 && !flags.abort.load(Ordering::Relaxed) {
        let found = match &ready {
            Some(ready) => ready.wait(&mut events, WAIT_NS),
            None => Ok(1),
        };
        for event in 0..found.or_else(|error| if is_passing(&error) { Ok(0) } else { Err(failed(error)) })? {
            let token = if ready.is_some() { events.at(event).0 as usize } else { 0 };
            let (carried, fd) = &mut drained[token];
            let goes_on = match sys_io::read(*fd, &mut scratch) {
                Ok(n) => {
                    carried.bytes += n as u64;
                    if !flags.limit.as_ref().is_none_or(|limit| limit.allows(n as u64, 0)) {
                        return Ok(());
                    }
                    n > 0 && carried.flow.received_late(&scratch[..n])
                }
                Err(error) if is_passing(&error) => {
                    // If an engine has made it non-blocking, more bytes may still arrive.
                    if ready.is_none() && error.kind() == io::ErrorKind::WouldBlock {
                        let _ = socket::wait(*fd, Until::Readable, WAIT_NS);
                    }
                    true
                }
                Err(error) => return Err(failed(error)),
            };
            if !goes_on {
                open -= 1;
                ready.iter().try_for_each(|ready| ready.remove(*fd)).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// The same of one encrypted flow.
pub(super) fn drain_session<E: ReaderWork>(
    left: &mut Read<E>,
    mut session: Session,
    flags: &Flags,
) -> Result<(), EndError> {
    let (carried, Some(fd)) = left else { return Ok(()) };
    let mut scratch = vec![0; DRAIN_SIZE];
    while carried.ended.is_none() && !carried.refused && !flags.abort.load(Ordering::Relaxed) {
        match session.receive(fd.as_fd(), &mut scratch) {
            Ok(0) => break,
            Ok(n) => {
                carried.bytes += n as u64;
                let allowed = flags.limit.as_ref().is_none_or(|limit| limit.allows(n as u64, 0));
                if !allowed || !carried.flow.received_late(&scratch[..n]) {
                    break;
                }
            }
            Err(error) if is_passing(&error) => {}
            Err(source) => return Err(EndError::Io { doing: "draining bytes in flight".into(), source }),
        }
    }
    Ok(())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::time::Duration;

    use bytegauge_model::Spec;

    use super::*;
    use crate::pace::Pace;
    use crate::setup::Setup;
    use crate::stream::Discard;
    use crate::transfer_limit::{Bound, TransferLimit};

    /// More than the kernel buffers for a reader that does not read.
    const MORE: usize = 4 << 20;

    fn flows(ours: impl IntoIterator<Item = UnixStream>) -> Vec<Read<Discard>> {
        let levels = Spec::from([("transport", "unix".into()), ("read_size", 64.into()), ("write_size", 64.into())]);
        let setup = Setup::of(&levels).unwrap();
        let carried = |index| Carried::new(SinkFlow::new(&setup, index, Discard), index, Pace::Free);
        ours.into_iter().enumerate().map(|(index, ours)| (carried(index), Some(ours.into()))).collect()
    }

    #[test]
    fn flows_of_a_thread_are_drained_together() {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
        // Most of the last one is still to be written, and the others end only after that.
        let writes = std::thread::spawn(move || {
            (&theirs[2]).write_all(&vec![0; MORE]).unwrap();
            (&theirs[0]).write_all(&[0; 10]).unwrap();
        });
        let (mut left, flags) = (flows(ours), Flags::default());
        let abort = Arc::clone(&flags.abort);
        let (done, waits) = std::sync::mpsc::channel::<()>();
        // Draining one flow after another would wait for ever.
        let watches = std::thread::spawn(move || {
            let is_over = waits.recv_timeout(Duration::from_secs(60)).is_ok();
            abort.store(!is_over, Ordering::Relaxed);
        });
        drain(&mut left, DRAIN_SIZE, &flags).unwrap();
        let _ = done.send(());
        watches.join().unwrap();
        assert_eq!(left.iter().map(|(carried, _)| carried.bytes).collect::<Vec<_>>(), [10, 0, MORE as u64]);
        drop(left);
        writes.join().unwrap();
    }

    #[test]
    fn drained_bytes_count_against_the_limit() {
        for count in [1, 2] {
            let (ours, theirs): (Vec<_>, Vec<_>) = (0..count).map(|_| UnixStream::pair().unwrap()).unzip();
            (&theirs[0]).write_all(&[0; 1000]).unwrap();
            let limit = Arc::new(TransferLimit::new(Bound { bytes: 1000, lasts_ns: u64::MAX }));
            let (mut left, flags) = (flows(ours), Flags { limit: Some(limit), ..Flags::default() });
            // The peers stay open, and it ends.
            drain(&mut left, DRAIN_SIZE, &flags).unwrap();
            assert!(flags.limit.unwrap().is_used_up());
            drop(theirs);
        }
    }
}
