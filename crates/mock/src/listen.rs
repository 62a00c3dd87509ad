//! The mock on a TCP port.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::log::Log;
use crate::scenario::Scenario;
use crate::serve::Mock;

/// The most connections served at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 16 * 1024;

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
        let task = tokio::spawn(accept(listener, mock.clone(), stopped));
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

/// Ends when the sender is dropped.
async fn accept(listener: TcpListener, mock: Mock, mut stopped: oneshot::Receiver<()>) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            Some(_) = served.join_next() => {}
            accepted = listener.accept(), if served.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    // Without it the kernel would glue the pieces together that a scenario keeps apart.
                    drop(stream.set_nodelay(true));
                    let mock = mock.clone();
                    served.spawn(async move { mock.serve(stream).await });
                }
                // Out of descriptors: let some connection end first.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
        }
    }
}
