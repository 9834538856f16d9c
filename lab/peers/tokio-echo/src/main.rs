//! A plain Tokio echo server on one thread, which prints where it listens. It shares no code with bytegauge.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        // As the C programs: accepted connections inherit it.
        socket2::SockRef::from(&socket).set_tcp_congestion(b"cubic")?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        // As the C programs: `TcpListener::bind` has room for 128, and a client that connects 500 times would wait for a second.
        let listener = socket.listen(4096)?;
        println!("listening on {}", listener.local_addr()?);
        loop {
            let (connection, _) = listener.accept().await?;
            tokio::spawn(echo(connection));
        }
    })
}

/// Echoes until the client closes, or the connection breaks. Errors are not reported.
async fn echo(mut connection: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(got @ 1..) = connection.read(&mut buffer).await {
        if connection.write_all(&buffer[..got]).await.is_err() {
            return;
        }
    }
}
