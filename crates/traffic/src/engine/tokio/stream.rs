//! Tokio's own sockets, of either family: the engine measures them as its users have them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::{Domain, SockRef};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A connection that Tokio's driver watches.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Registers a connection that does not block.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Stream> {
        match is_unix(fd.as_fd())? {
            true => UnixStream::from_std(fd.into()).map(Stream::Unix),
            false => TcpStream::from_std(fd.into()).map(Stream::Tcp),
        }
    }

    /// The connection alone, which the driver no longer watches.
    pub(crate) fn into_fd(self) -> io::Result<OwnedFd> {
        match self {
            Stream::Tcp(stream) => stream.into_std().map(OwnedFd::from),
            Stream::Unix(stream) => stream.into_std().map(OwnedFd::from),
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.writable().await,
            Stream::Unix(stream) => stream.writable().await,
        }
    }

    #[inline]
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(self.poll_fill(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    #[inline]
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    #[inline]
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A listener that Tokio's driver watches.
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    /// Registers a duplicate of a listener that does not block.
    pub(crate) fn new(listener: BorrowedFd<'_>) -> io::Result<Door> {
        let fd = listener.try_clone_to_owned()?;
        match is_unix(listener)? {
            true => UnixListener::from_std(fd.into()).map(Door::Unix),
            false => TcpListener::from_std(fd.into()).map(Door::Tcp),
        }
    }

    pub(crate) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        match self {
            Door::Tcp(door) => door.poll_accept(context).map_ok(|(stream, _)| Stream::Tcp(stream)),
            Door::Unix(door) => door.poll_accept(context).map_ok(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

fn is_unix(fd: BorrowedFd<'_>) -> io::Result<bool> {
    SockRef::from(&fd).domain().map(|domain| domain == Domain::UNIX)
}
