//! A plain Tokio echo server on one thread. Usage: `tokio-echo PORT`. It shares no code with bytegauge.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse::<u16>().ok());
    let port = port.ok_or_else(|| std::io::Error::other("usage: tokio-echo PORT"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (connection, _) = listener.accept().await?;
            tokio::spawn(echo(connection));
        }
    })
}

/// Until the client closes, or the connection breaks: then there is nobody to tell.
async fn echo(mut connection: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(got @ 1..) = connection.read(&mut buffer).await {
        if connection.write_all(&buffer[..got]).await.is_err() {
            return;
        }
    }
}
