//! The mock on a TCP port.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::log::Log;
use crate::scenario::Scenario;
use crate::serve::Mock;

/// The most connections served at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 16 * 1024;

/// Connections that wait in the kernel's queue.
const BACKLOG: u32 = 1024;

/// A wait before another attempt at what the system denied.
const RETRY: Duration = Duration::from_millis(10);

/// A mock that listens. Dropping it, or [`Running::stop`], breaks off every connection.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    mock: Mock,
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Mock {
    /// Listens on `addr` (port 0 for any) and serves on the current runtime.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    pub async fn start(addr: SocketAddr, scenario: Scenario) -> io::Result<Running> {
        let listener = TcpListener::bind(addr).await?;
        Self::start_on(listener, scenario)
    }

    /// The same on a listener of the caller's own.
    ///
    /// # Errors
    /// Where the listener does not know its address.
    pub fn start_on(listener: TcpListener, scenario: Scenario) -> io::Result<Running> {
        let addr = listener.local_addr()?;
        let mock = Self::new(scenario);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(stand(listener, addr, mock.clone(), stopped));
        Ok(Running { addr, mock, task, stop })
    }
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://ADDR`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What reached it.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.mock.log()
    }

    /// The mock itself, for instance to play another scenario.
    #[must_use]
    pub fn mock(&self) -> &Mock {
        &self.mock
    }

    /// Stops listening and breaks off every connection.
    pub async fn stop(self) {
        drop(self.stop);
        drop(self.task.await);
    }
}

/// Listens, and while the scenario refuses connections does not. Ends when the sender is dropped.
async fn stand(listener: TcpListener, addr: SocketAddr, mock: Mock, mut stopped: oneshot::Receiver<()>) {
    let mut open = Some(listener);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            // Dropped when refusing begins: the port closes and what is open breaks off.
            () = mock.until_refusing(true) => {}
            () = accept(open.take(), addr, &mock) => {}
        }
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            listener = closed(addr, &mock) => open = listener,
        }
    }
}

/// Serves; never ends but where it cannot listen.
async fn accept(listener: Option<TcpListener>, addr: SocketAddr, mock: &Mock) {
    let Some(listener) = listener.or_else(|| reserve(addr)?.listen(BACKLOG).ok()) else {
        return tokio::time::sleep(RETRY).await;
    };
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = served.join_next() => {}
            accepted = listener.accept(), if served.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // Without it the kernel would glue the pieces together that a scenario keeps apart.
                    drop(stream.set_nodelay(true));
                    let mock = mock.clone();
                    served.spawn(async move { mock.serve(stream).await });
                }
                // Out of descriptors: let some connection end first.
                Err(_) => tokio::time::sleep(RETRY).await,
            },
        }
    }
}

/// The time in which nobody listens. The port is kept meanwhile, so that nobody else is given it:
/// a bound socket that does not listen refuses connections.
async fn closed(addr: SocketAddr, mock: &Mock) -> Option<TcpListener> {
    let reserved = reserve(addr);
    mock.until_refusing(false).await;
    reserved?.listen(BACKLOG).ok()
}

fn reserve(addr: SocketAddr) -> Option<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.ok()?;
    // Connections that were served before may linger on the port.
    socket.set_reuseaddr(true).ok()?;
    socket.bind(addr).ok()?;
    Some(socket)
}
