//! The port's connections: so many at most, and none that takes its time over the head of a request. Whoever reaches
//! the port may open some, without a token, and what they take is taken from callers: descriptors above all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

/// Connections at most; further ones wait in the kernel until one of these ends.
const MOST: usize = 128;
/// A head has arrived within this time, the first as well as a further one of the same connection.
const HEAD: Duration = Duration::from_secs(10);
/// After a connection that could not be accepted.
const AGAIN: Duration = Duration::from_millis(50);

/// Serves connections until the future is dropped, and they with it.
pub async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(MOST));
    let mut connections = JoinSet::new();
    loop {
        // It is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => drop(connections.spawn(converse(stream, peer, router.clone(), place))),
            Err(error) => {
                tracing::debug!(%error, "a connection to the admin port could not be accepted");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// One connection, to its end.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    router: Router,
    _place: OwnedSemaphorePermit,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // How it ended is the peer's business: what it was told stands in its answer.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::net::TcpStream;

    use super::*;

    async fn open() -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router));
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
            let router = Router::new().route("/", get(|| async { "" }));
            let began = base::Clock.now();
            let mut conversing = JoinSet::new();
            conversing.spawn(converse(stream, ([127, 0, 0, 1], 9).into(), router, place));
            peer.write_all("GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(whole).as_bytes()).await.unwrap();
            peer.write_all(b"GET /").await.unwrap();
            conversing.join_next().await;
            let took = base::Clock.now().duration_since(began);
            assert!((HEAD..2 * HEAD).contains(&took), "{took:?}");
        }
    }

    #[tokio::test]
    async fn half_heads_take_no_more_than_the_places_and_one_that_goes_makes_room() {
        let (at, _serving) = open().await;
        let mut halves = Vec::new();
        for _ in 0..MOST {
            let mut half = TcpStream::connect(at).await.unwrap();
            half.write_all(b"GET /").await.unwrap();
            halves.push(half);
        }
        let mut late = TcpStream::connect(at).await.unwrap();
        late.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let waited = tokio::time::timeout(Duration::from_millis(200), late.read_to_string(&mut answer)).await;
        assert!(waited.is_err(), "every place is taken: {answer}");
        drop(halves.pop());
        late.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
