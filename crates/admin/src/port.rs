//! The port's connections: so many at most, and none that takes its time over the head of a request while others wait.
//! Whoever reaches the port may open some, without a token, and what they take is taken from callers: descriptors above
//! all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

/// A head has arrived within this time, the first as well as a further one of the same connection.
const HEAD: Duration = Duration::from_secs(10);
/// After a connection that could not be accepted.
const AGAIN: Duration = Duration::from_millis(50);

/// Serves connections until the future is dropped, and they with it: `most` at a time. Where all places are taken, the
/// connection goes that has been without a request for longest, so that nobody who merely holds some keeps others from
/// asking.
pub async fn serve(listener: TcpListener, router: Router, most: usize) {
    let places = Arc::new(Semaphore::new(most));
    let quiet = Arc::new(Quiet::default());
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                // It is never closed.
                let Some(place) = quiet.room(&places).await else { return };
                let seat = Seat::take(&quiet, place);
                drop(connections.spawn(converse(stream, peer, router.clone(), seat)));
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to the admin port could not be accepted");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// One connection, to its end. What it is made of goes before its seat does.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr, router: Router, seat: Seat) {
    let service = service_fn(|request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        let (busy, answering) = (seat.named.begin(), router.clone().oneshot(request));
        async move { answering.await.map(|response| response.map(|body| Telling { body, _busy: busy })) }
    });
    let mut http = http1::Builder::new();
    // Who has said all it has to say (`nc -N`) still reads; what a caller who left has asked for is done soon anyway.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).half_close(true);
    tokio::select! {
        biased;
        () = seat.named.leave.notified() => {}
        // How it ended is the peer's business: what it was told stands in its answer.
        _ = http.serve_connection(TokioIo::new(stream), service) => {}
    }
}

/// Connections without a request, the one that has been so for longest first.
#[derive(Default)]
struct Quiet {
    line: Mutex<Line>,
    /// Told when there is one more.
    one_more: Notify,
}

#[derive(Default)]
struct Line {
    next: u64,
    seats: BTreeMap<u64, Arc<Named>>,
}

impl Quiet {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, as soon as there is one.
    async fn room(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Some(place);
        }
        // Whoever came with a request just now has it read first.
        tokio::task::yield_now().await;
        loop {
            if let Ok(place) = places.clone().try_acquire_owned() {
                return Some(place);
            }
            let longest = self.line().seats.pop_first();
            if let Some((_, seat)) = longest {
                seat.leave.notify_one();
                return places.clone().acquire_owned().await.ok();
            }
            tokio::select! {
                place = places.clone().acquire_owned() => return place.ok(),
                () = self.one_more.notified() => {}
            }
        }
    }
}

/// A connection, as others know it.
struct Named {
    quiet: Arc<Quiet>,
    /// Told when it is to go for another one.
    leave: Notify,
    /// Where it stands in the line; of no meaning while it has a request.
    at: AtomicU64,
}

impl Named {
    fn line_up(self: &Arc<Self>) {
        let mut line = self.quiet.line();
        line.next += 1;
        let at = line.next;
        self.at.store(at, Ordering::Relaxed);
        line.seats.insert(at, self.clone());
        drop(line);
        self.quiet.one_more.notify_one();
    }

    fn step_out(&self) {
        self.quiet.line().seats.remove(&self.at.load(Ordering::Relaxed));
    }

    /// It has a request, until that is answered.
    fn begin(self: &Arc<Self>) -> Busy {
        self.step_out();
        Busy(self.clone())
    }
}

/// A connection's place, and its standing in the line.
struct Seat {
    named: Arc<Named>,
    _place: OwnedSemaphorePermit,
}

impl Seat {
    fn take(quiet: &Arc<Quiet>, place: OwnedSemaphorePermit) -> Self {
        let named = Arc::new(Named { quiet: quiet.clone(), leave: Notify::new(), at: AtomicU64::new(0) });
        named.line_up();
        Self { named, _place: place }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.named.step_out();
    }
}

/// A request under way.
struct Busy(Arc<Named>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.line_up();
    }
}

/// An answer that is being told.
struct Telling {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for Telling {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::net::TcpStream;

    use super::*;

    const MOST: usize = 8;

    async fn open() -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, MOST));
        (at, serving)
    }

    async fn asked(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn whoever_asks_is_answered_and_known_by_the_address() {
        let (at, _serving) = open().await;
        let answer = asked(&mut TcpStream::connect(at).await.unwrap()).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("127.0.0.1"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_ends_its_connection_the_first_as_well_as_a_further_one() {
        for whole in [0, 1] {
            let (mut peer, stream) = duplex(1 << 16);
            let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
            let seat = Seat::take(&Arc::default(), place);
            let router = Router::new().route("/", get(|| async { "" }));
            let began = base::Clock.now();
            let mut conversing = JoinSet::new();
            conversing.spawn(converse(stream, ([127, 0, 0, 1], 9).into(), router, seat));
            peer.write_all("GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(whole).as_bytes()).await.unwrap();
            peer.write_all(b"GET /").await.unwrap();
            conversing.join_next().await;
            let took = base::Clock.now().duration_since(began);
            assert!((HEAD..2 * HEAD).contains(&took), "{took:?}");
        }
    }

    #[tokio::test]
    async fn whoever_only_stops_sending_is_answered_and_its_connection_ends() {
        let (mut peer, stream) = duplex(1 << 16);
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let seat = Seat::take(&Arc::default(), place);
        let (begun, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, waits) = (begun.clone(), goes_on.clone());
        let long = || async move {
            begins.notify_one();
            waits.notified().await;
            "done"
        };
        let mut conversing = JoinSet::new();
        let router = Router::new().route("/", get(long));
        conversing.spawn(converse(stream, ([127, 0, 0, 1], 9).into(), router, seat));
        peer.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        peer.shutdown().await.unwrap();
        begun.notified().await;
        // By now the end of what is sent has been seen.
        tokio::task::yield_now().await;
        goes_on.notify_one();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
        conversing.join_next().await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn connections_without_a_request_keep_nobody_from_asking_and_the_first_of_them_goes() {
        let (at, _serving) = open().await;
        let mut halves = Vec::new();
        for _ in 0..3 * MOST {
            let mut half = TcpStream::connect(at).await.unwrap();
            half.write_all(b"GET /").await.unwrap();
            halves.push(half);
        }
        let answer = asked(&mut TcpStream::connect(at).await.unwrap()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let ended = async |half: &mut TcpStream| {
            tokio::time::timeout(Duration::from_millis(50), half.read(&mut [0; 1])).await.is_ok()
        };
        let (mut gone, count) = (0, halves.len());
        for half in &mut halves {
            gone += usize::from(ended(half).await);
        }
        assert_eq!(gone, count - MOST + 1, "as many as must, and no more");
        assert!(ended(&mut halves[0]).await && !ended(&mut halves[count - 1]).await);
        let last = &mut halves[count - 1];
        last.write_all(b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        last.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[tokio::test]
    async fn a_request_under_way_is_not_let_go_for_another_and_makes_room_once_it_is_answered() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let goes_on = Arc::new(Semaphore::new(0));
        let waits = goes_on.clone();
        let long = || async move { waits.acquire().await.map_or("", |_| "done") };
        let router = Router::new().route("/long", get(long)).route("/", get(|| async { "short" }));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, 1));
        // It stays open, without a request, once it is answered.
        let mut first = TcpStream::connect(at).await.unwrap();
        first.write_all(b"GET /long HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut second = TcpStream::connect(at).await.unwrap();
        let mut asking = Box::pin(asked(&mut second));
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut asking).await.is_err(), "the place is taken");
        goes_on.add_permits(1);
        assert!(asking.await.ends_with("short"));
        let mut answer = String::new();
        first.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    }
}
