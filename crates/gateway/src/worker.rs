//! A worker: one thread, one single-threaded runtime, its own connections to the upstreams.
//!
//! Callers' connections are dealt out to the workers by one acceptor, to the least loaded first, so
//! that few long-lived connections spread evenly; a request then never leaves its thread. Why so:
//! `docs/decisions/0002-runtime-layout.md`.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use base::Dice;
use hyper::service::Service;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::caller::delayed_writes::{DelayedSocket, DelayedWrites};
use crate::caller::head_timeout::HeadTimeout;
use crate::caller::socket::{CallerSocket, Presence};
use crate::live::Live;
use crate::live::per_worker::PerWorker;
use crate::net::Transport;
use crate::reply::Reply;
use crate::serve::{Connection, Gone, Serving, serve};

/// What serves connections.
#[derive(Debug)]
pub struct Worker {
    /// The process's state.
    pub live: Arc<Live>,
    /// This worker's way out.
    pub transport: Transport,
    /// Its own share of the process's state.
    pub per_worker: Arc<PerWorker>,
    /// Its own chance, for request ids.
    pub dice: Dice,
}

/// How long a TLS handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// A caller who takes nothing for so long is let go.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// Once the gateway waits no longer for answers to end, a caller has so long to take the last word of one.
const LAST_WORD: Duration = Duration::from_millis(500);
/// How long a connection may stay without the head of a request; longer than the 60 s and 75 s for
/// which common client pools and load balancers keep idle connections, so that they close first.
const HEAD_PATIENCE: Duration = Duration::from_secs(90);
/// Bytes of a request's head at most, and of one read.
const HEAD_BOUND: usize = 256 * 1024;
/// How often idle connections and names in use are looked at.
const SWEEP: Duration = Duration::from_secs(2);
/// Connections on their way from the acceptor to one worker.
const HANDED_OVER: usize = 1024;

/// TLS for the data port, swapped by reloads.
pub type TlsSwitch = Arc<arc_swap::ArcSwapOption<rustls::ServerConfig>>;

/// How the acceptor hands connections to one worker.
#[derive(Clone, Debug)]
pub struct Desk {
    door: mpsc::Sender<std::net::TcpStream>,
    open: Arc<AtomicUsize>,
}

impl Desk {
    /// Connections that this worker serves now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Hands a connection over.
    ///
    /// # Errors
    /// The connection, when the worker has not taken what it was handed before.
    pub fn hand_over(&self, stream: std::net::TcpStream) -> Result<(), std::net::TcpStream> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.door.try_send(stream).map_err(|refused| {
            self.open.fetch_sub(1, Ordering::Relaxed);
            refused.into_inner()
        })
    }
}

/// Where a worker is handed connections: the acceptor's side, the worker's, and how many it has open.
pub fn desk() -> (Desk, mpsc::Receiver<std::net::TcpStream>, Arc<AtomicUsize>) {
    desk_of(HANDED_OVER)
}

/// The same, with room for so many connections that are handed over and not taken yet.
#[must_use]
pub fn desk_of(bound: usize) -> (Desk, mpsc::Receiver<std::net::TcpStream>, Arc<AtomicUsize>) {
    let (door, handed) = mpsc::channel(bound);
    let open = Arc::new(AtomicUsize::new(0));
    (Desk { door, open: open.clone() }, handed, open)
}

impl Worker {
    /// A worker with state and dice of its own.
    #[must_use]
    pub fn new(live: Arc<Live>, transport: Transport) -> Self {
        Self { per_worker: live.add_worker(), dice: Dice::loaded(live.dice.bits()), live, transport }
    }

    /// Serves what is handed over, until every [`Desk`] is gone.
    pub async fn run(
        self: Arc<Self>,
        mut handed: mpsc::Receiver<std::net::TcpStream>,
        open: Arc<AtomicUsize>,
        tls: TlsSwitch,
        delayed_writes: DelayedWrites,
    ) {
        set_off(delayed_writes.clone().carry());
        let sweeping = self.clone();
        set_off(async move { sweeping.sweep().await });
        // Apart from the sweep: a resolver that does not answer must not hold that up.
        let renewing = self.clone();
        set_off(async move { renewing.renew_names().await });
        while let Some(stream) = handed.recv().await {
            let place = Place::take(&self.live, &open);
            let Ok(stream) = TcpStream::from_std(stream) else { continue };
            let _ = stream.set_nodelay(true);
            let worker = self.clone();
            let config = tls.load_full();
            let stream = DelayedSocket::new(stream, delayed_writes.clone());
            set_off(async move {
                match config {
                    None => worker.converse(stream).await,
                    Some(config) => {
                        // Boxed: its state is several times that of a connection without TLS.
                        Box::pin(worker.converse_tls(stream, config)).await;
                    }
                }
                drop(place);
            });
        }
    }

    /// Speaks HTTP/1.1 on one connection until it ends.
    pub async fn converse<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self: Arc<Self>, stream: T) {
        let presence = Presence::default();
        self.talk(CallerSocket::new(stream, presence.clone(), WRITE_STALL), presence).await;
    }

    async fn converse_tls(self: Arc<Self>, stream: DelayedSocket, config: Arc<rustls::ServerConfig>) {
        let accepting = tokio_rustls::TlsAcceptor::from(config).accept(stream);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_PATIENCE, accepting).await else { return };
        let presence = Presence::default();
        let io = CallerSocket::new(stream, presence.clone(), WRITE_STALL).without_half_close();
        self.talk(io, presence).await;
    }

    async fn talk<T>(self: Arc<Self>, io: CallerSocket<T>, presence: Presence)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(io.counted(self.live.count_of_unwritten()));
        let mut patience = HeadTimeout::of(self.live.clock, HEAD_PATIENCE);
        let cut = self.per_worker.cut();
        let mut last = LastWord::of(cut.clone(), presence.clone());
        let quiet_waker = presence.quiet_waker.clone();
        let service = Talk(Arc::new(Connection { worker: self, presence, cut }));
        let conversation = hyper::server::conn::http1::Builder::new()
            .timer(patience.timer())
            .header_read_timeout(HEAD_PATIENCE)
            .max_buf_size(HEAD_BOUND)
            .serve_connection(io, service);
        let mut conversation = std::pin::pin!(conversation);
        // It ends with the caller's going, with a broken request, or in peace: nothing is left to do.
        std::future::poll_fn(|cx| {
            quiet_waker.through(cx, |cx| {
                if conversation.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if (patience.is_over(cx) | last.is_spoken(cx)) && conversation.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                // Nothing more can be told to who takes nothing. What its call used is written down with its end.
                if last.is_unheard(cx) { Poll::Ready(()) } else { Poll::Pending }
            })
        })
        .await;
    }

    async fn sweep(&self) {
        let mut tick = tokio::time::interval(SWEEP);
        loop {
            tick.tick().await;
            self.transport.sweep(&self.per_worker.running().snapshot.providers);
        }
    }

    async fn renew_names(&self) {
        let mut tick = tokio::time::interval(SWEEP);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let running = self.per_worker.running();
            self.transport.renew_names(&running.snapshot.providers).await;
        }
    }
}

/// Tells one connection, once, that the gateway waits no longer for answers to end. Kept by the
/// connection, so that its calls need not listen for it one by one.
struct LastWord {
    /// Only looked at.
    seen: watch::Receiver<bool>,
    presence: Presence,
    /// None once it has been spoken.
    spoken: Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_listening: bool,
    /// How long it may take to be heard.
    over: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl LastWord {
    fn of(cut: watch::Receiver<bool>, presence: Presence) -> Self {
        let mut spoken = cut.clone();
        let spoken = Box::pin(async move {
            // An error means that the process is gone, and this task with it.
            let _ = spoken.wait_for(|cut| *cut).await;
        });
        Self { seen: cut, presence, spoken: Some(spoken), is_listening: false, over: None }
    }

    /// Whether it has just been spoken, so that the connection is to be polled once more.
    fn is_spoken(&mut self, cx: &mut Context<'_>) -> bool {
        if std::mem::replace(&mut self.is_listening, true) && !self.seen.has_changed().unwrap_or(true) {
            return false;
        }
        let is_spoken = self.spoken.as_mut().is_some_and(|spoken| spoken.as_mut().poll(cx).is_ready());
        if is_spoken {
            self.spoken = None;
            self.presence.cut();
            self.over = Some(Box::pin(tokio::time::sleep(LAST_WORD)));
        }
        is_spoken
    }

    /// Whether it was spoken so long ago that the caller will not hear it.
    fn is_unheard(&mut self, cx: &mut Context<'_>) -> bool {
        self.over.as_mut().is_some_and(|over| over.as_mut().poll(cx).is_ready())
    }
}

/// One caller's connection, counted.
struct Place {
    live: Arc<Live>,
    open: Arc<AtomicUsize>,
}

impl Place {
    fn take(live: &Arc<Live>, open: &Arc<AtomicUsize>) -> Self {
        live.metrics.connections.inc();
        Self { live: live.clone(), open: open.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.live.metrics.connections.dec();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Hands each request of one connection to the story.
struct Talk(Arc<Connection>);

impl Service<Request<Incoming>> for Talk {
    type Response = Response<Reply>;
    /// Ends the connection.
    type Error = Gone;
    type Future = Serving;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.0.presence.reading(request.version());
        serve(self.0.clone(), request)
    }
}

/// Starts a task of this worker's own, for what is no one connection's: each of those who do has an end of its own.
pub(crate) fn set_off(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}
