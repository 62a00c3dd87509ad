//! Listeners, and the acceptor that deals connections out to the workers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use gateway::worker::Desk;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;
/// Callers' connections at most; further ones wait in the kernel.
const MOST_CONNECTIONS: usize = 20_000;

/// While connections cannot be accepted, the log says so this often.
const TOLD_AGAIN: Duration = Duration::from_secs(1);

/// Opens a listener. A port that was in use a moment ago is taken over.
///
/// # Errors
/// The system's, e.g. when the port is in use.
pub fn open(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts for ever, and hands each connection to the worker that serves the fewest.
pub async fn deal(listener: TcpListener, desks: Vec<Desk>) {
    let mut told_at = None;
    loop {
        while desks.iter().map(Desk::open).sum::<usize>() >= MOST_CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => {
                if let Some(desk) = desks.iter().min_by_key(|desk| desk.open()) {
                    // Full: the connection closes, and the caller may try again.
                    let _ = desk.hand_over(stream);
                }
            }
            Err(error) => {
                // Out of descriptors, most likely: others will be closed in a moment.
                let now = base::Clock.now();
                if told_at.is_none_or(|at| now.duration_since(at) >= TOLD_AGAIN) {
                    told_at = Some(now);
                    tracing::warn!(%error, "a connection could not be accepted");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
