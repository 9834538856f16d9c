//! Two ends of a connection for tests.

use std::net::{TcpListener, TcpStream};

/// Both ends of a TCP connection over loopback: the one that connected, and the one that accepted.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}
