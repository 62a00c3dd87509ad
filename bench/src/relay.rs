//! The bare hyper relay: what a proxy in hyper costs that knows nothing of what it carries.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::spread::spread;

/// Whatever ends one call; hyper closes the caller's connection then, which the load counts as a wrong answer.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Idle upstream connections that one thread keeps.
const MOST_IDLE: usize = 2048;

/// One thread's upstream connections that nobody uses; the one used last is taken first.
struct Pool {
    upstream: SocketAddr,
    idle: RefCell<Vec<client::SendRequest<Incoming>>>,
}

/// Serves for ever.
pub(crate) fn serve(port: u16, upstream_port: u16) -> io::Result<()> {
    spread(port, move || {
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream_port));
        let pool = Rc::new(Pool { upstream, idle: RefCell::default() });
        move |connection| {
            let pool = Rc::clone(&pool);
            async move {
                let service = hyper::service::service_fn(move |request| relay(Rc::clone(&pool), request));
                // A caller who leaves is part of the measures, not an error.
                let _ = server::Builder::new().serve_connection(TokioIo::new(connection), service).await;
            }
        }
    })
}

async fn relay(pool: Rc<Pool>, request: Request<Incoming>) -> Result<Response<Incoming>, Error> {
    let mut sender = match pool.take().await {
        Some(sender) => sender,
        None => pool.connect().await?,
    };
    let answer = sender.send_request(request).await?;
    pool.put(sender);
    Ok(answer)
}

impl Pool {
    /// An idle connection that is ready for a call now or as soon as its last answer has been taken off the wire.
    async fn take(&self) -> Option<client::SendRequest<Incoming>> {
        loop {
            let mut sender = {
                let mut idle = self.idle.borrow_mut();
                let Some(at) = idle.iter().rposition(client::SendRequest::is_ready) else {
                    idle.retain(|sender| !sender.is_closed());
                    return None;
                };
                idle.swap_remove(at)
            };
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn connect(&self) -> Result<client::SendRequest<Incoming>, Error> {
        let stream = TcpStream::connect(self.upstream).await?;
        // Without it a relayed chunk may wait for the one before to be acknowledged.
        stream.set_nodelay(true)?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        tokio::task::spawn_local(connection);
        Ok(sender)
    }

    fn put(&self, sender: client::SendRequest<Incoming>) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= MOST_IDLE {
            idle.retain(|sender| !sender.is_closed());
        }
        if idle.len() < MOST_IDLE {
            idle.push(sender);
        }
    }
}
