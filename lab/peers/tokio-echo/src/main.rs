//! A plain Tokio echo server on one thread, which prints where it listens. It shares no code with bytegauge.
#![forbid(unsafe_code)]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        // As the C programs: accepted connections inherit it.
        socket2::SockRef::from(&listener).set_tcp_congestion(b"cubic")?;
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
