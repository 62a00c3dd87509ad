//! Two single-thread runtimes and an acceptor that deals connections out in turn: the same layout for the upstream and the relay,
//! and an even one, which a hash of ports would not be.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::LocalSet;

/// Threads that serve.
const WORKERS: usize = 2;

/// Connections that may wait for a worker to take them.
const WAITING: usize = 4096;

/// Accepts on `port` for ever and gives each connection to the next worker, which runs `serve` on it.
pub(crate) fn spread<S, F>(port: u16, worker: impl Fn() -> S + Send + Clone + 'static) -> io::Result<()>
where
    S: Fn(tokio::net::TcpStream) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut workers = Vec::with_capacity(WORKERS);
    for _ in 0..WORKERS {
        let (sender, receiver) = channel::<TcpStream>(WAITING);
        let worker = worker.clone();
        std::thread::spawn(move || work(receiver, &worker()));
        workers.push(sender);
    }
    for worker in workers.iter().cycle() {
        let (connection, _) = listener.accept()?;
        connection.set_nonblocking(true)?;
        connection.set_nodelay(true)?;
        worker.blocking_send(connection).map_err(io::Error::other)?;
    }
    Ok(())
}

fn work<F: Future<Output = ()> + 'static>(
    mut connections: Receiver<TcpStream>,
    serve: &dyn Fn(tokio::net::TcpStream) -> F,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        while let Some(connection) = connections.recv().await {
            if let Ok(connection) = tokio::net::TcpStream::from_std(connection) {
                tokio::task::spawn_local(serve(connection));
            }
        }
    });
    Ok(())
}
