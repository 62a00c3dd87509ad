//! Listeners, and the acceptor that deals connections out to the workers.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gateway::worker::Desk;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;
/// Callers' connections at most, however many descriptors there are; further ones wait in the kernel.
pub const MOST_CONNECTIONS: usize = 20_000;

/// While connections cannot be accepted, the log says so this often.
const TOLD_AGAIN: Duration = Duration::from_secs(1);
/// While callers wait since as many are connected as may be, this often.
const FULL_AGAIN: Duration = Duration::from_secs(60);

/// What the log is told no more often than that.
struct Told {
    every: Duration,
    last: Option<Instant>,
}

impl Told {
    const fn every(every: Duration) -> Self {
        Self { every, last: None }
    }

    fn is_due(&mut self) -> bool {
        let now = base::Clock.now();
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= self.every);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// Opens a listener. A port that was in use a moment ago is taken over.
///
/// # Errors
/// The system's, e.g. when the port is in use.
pub fn open(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Deals on a thread of its own: whatever the control runtime is at, no connection waits for that.
///
/// # Errors
/// The system's, where it gives no thread.
pub fn keep_dealing(listener: std::net::TcpListener, desks: Vec<Desk>, most: usize) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _here = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let dealing = move || runtime.block_on(deal(listener, desks, most));
    std::thread::Builder::new().name("acceptor".to_owned()).spawn(dealing).map(drop)
}

/// Accepts for ever, and hands each connection to the worker that serves the fewest.
async fn deal(listener: TcpListener, desks: Vec<Desk>, most: usize) {
    let (mut failed, mut full) = (Told::every(TOLD_AGAIN), Told::every(FULL_AGAIN));
    loop {
        while desks.iter().map(Desk::open).sum::<usize>() >= most {
            if full.is_due() {
                tracing::warn!("{most} callers are connected, and more may not be: further ones wait until one leaves");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => place(stream, &desks).await,
            Err(error) => {
                // Out of descriptors, most likely: others will be closed in a moment.
                if failed.is_due() {
                    tracing::warn!(%error, "a connection could not be accepted");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Hands one connection to the least loaded worker that takes it. In a burst they may all be behind
/// for a moment: the connection waits then, and those after it in the kernel.
async fn place(mut stream: std::net::TcpStream, desks: &[Desk]) {
    loop {
        let mut order: Vec<&Desk> = desks.iter().collect();
        order.sort_unstable_by_key(|desk| desk.open());
        for desk in order {
            match desk.hand_over(stream) {
                Ok(()) => return,
                Err(back) => stream = back,
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn no_connection_of_a_burst_is_lost_while_the_workers_are_behind() {
        let listener = TcpListener::from_std(open(([127, 0, 0, 1], 0).into()).unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (desk, mut handed, _open) = gateway::worker::desk_of(2);
        let dealing = tokio::spawn(deal(listener, vec![desk], 20));
        let mut callers = Vec::new();
        for _ in 0..20 {
            callers.push(tokio::net::TcpStream::connect(addr).await.unwrap());
        }
        // The worker, late, greets each by closing.
        for _ in 0..20 {
            drop(handed.recv().await.unwrap());
        }
        for caller in &mut callers {
            assert_eq!(caller.read(&mut [0; 1]).await.unwrap(), 0);
        }
        dealing.abort();
    }

    #[tokio::test]
    async fn no_more_are_connected_than_may_be_and_one_that_leaves_makes_room() {
        let listener = TcpListener::from_std(open(([127, 0, 0, 1], 0).into()).unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (desk, mut handed, open) = gateway::worker::desk_of(4);
        let dealing = tokio::spawn(deal(listener, vec![desk], 2));
        let mut callers = Vec::new();
        for _ in 0..3 {
            callers.push(tokio::net::TcpStream::connect(addr).await.unwrap());
        }
        for _ in 0..2 {
            handed.recv().await.unwrap();
        }
        let third = tokio::time::timeout(Duration::from_millis(100), handed.recv()).await;
        assert!(third.is_err(), "it waits");
        open.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        assert!(handed.recv().await.is_some());
        dealing.abort();
    }

    #[test]
    fn connections_are_dealt_while_no_other_runtime_turns() {
        let listener = open(([127, 0, 0, 1], 0).into()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (desk, mut handed, _open) = gateway::worker::desk_of(2);
        keep_dealing(listener, vec![desk], 1).unwrap();
        let caller = std::net::TcpStream::connect(addr).unwrap();
        let stream = handed.blocking_recv().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), caller.local_addr().unwrap());
    }
}
