//! Opening a socket to a provider: name, TCP, proxy, TLS, all within one connect timeout.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use base::{Fault, Kind};
use config::{Origin, Provider, Proxy};
use http::Uri;
use http::uri::PathAndQuery;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::shortage::{Shortage, unreachable};
use super::{Resolver, Roots};
use crate::caller::delayed_writes::{DelayedSocket, DelayedWrites};

/// Anything that HTTP can be spoken on.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open socket.
pub struct Dialed {
    /// The byte stream.
    pub io: Box<dyn Io>,
    /// Asks the kernel, without waiting, whether the connection is open and silent.
    pub probe: Box<dyn Fn() -> bool + Send + Sync>,
    /// Where it leads.
    pub peer: Option<IpAddr>,
}

impl std::fmt::Debug for Dialed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialed").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// What [`Connect::dial`] returns.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = Result<Dialed, Fault>> + Send + 'a>>;

/// The seam that story tests replace by a scripted network.
pub trait Connect: Send + Sync {
    /// Opens a socket to the provider. The caller bounds the wait.
    fn dial<'a>(&'a self, provider: &'a Provider) -> Dialing<'a>;
}

/// Real sockets.
#[derive(Debug)]
pub struct Dialer {
    resolver: Arc<Resolver>,
    roots: Arc<Roots>,
    delayed_writes: Option<DelayedWrites>,
}

impl Dialer {
    /// Real sockets by that resolver, trusting those roots.
    #[must_use]
    pub fn new(resolver: Arc<Resolver>, roots: Arc<Roots>) -> Self {
        Self { resolver, roots, delayed_writes: None }
    }

    /// The same for a worker, whose short writes wait for the end of its turn.
    #[must_use]
    pub fn through(self, delayed_writes: DelayedWrites) -> Self {
        Self { delayed_writes: Some(delayed_writes), ..self }
    }

    async fn open(&self, provider: &Provider) -> Result<Dialed, Fault> {
        let first_hop = provider.proxy.as_ref().map_or(&provider.origin, |proxy| &proxy.origin);
        let stream = self.tcp(first_hop, provider).await?;
        let peer = if provider.proxy.is_some() { None } else { stream.peer_addr().ok().map(|addr| addr.ip()) };
        let probe = probe_of(&stream).map_err(|error| unreachable(provider, &error))?;
        let mut io: Box<dyn Io> = match &self.delayed_writes {
            Some(delayed_writes) => Box::new(DelayedSocket::new(stream, delayed_writes.clone())),
            None => Box::new(stream),
        };
        if provider.origin.tls {
            if let Some(proxy) = &provider.proxy {
                tunnel(&mut io, &provider.origin, proxy).await?;
            }
            io = self.tls(io, &provider.origin, provider).await?;
        }
        Ok(Dialed { io, probe, peer })
    }

    async fn tcp(&self, origin: &Origin, provider: &Provider) -> Result<TcpStream, Fault> {
        let addresses =
            self.resolver.lookup(&origin.host).await.map_err(|error| match Shortage::of_lookup(&error) {
                Some(shortage) => shortage.fault(provider),
                None => Fault::upstream(
                    Kind::Connect,
                    format!("the name of provider `{}` does not resolve: {error}", provider.name),
                ),
            })?;
        let (mut last, mut lacking) = (None, None);
        // An address that does not answer must not eat the time of the ones behind it.
        let share = provider.pool.connect_timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        for address in addresses.iter() {
            let to = SocketAddr::new(*address, origin.port);
            match tokio::time::timeout(share, TcpStream::connect(to)).await {
                Ok(Ok(stream)) => {
                    let keepalive = TcpKeepalive::new()
                        .with_time(provider.pool.tcp_keepalive)
                        .with_interval(provider.pool.tcp_keepalive);
                    // Neither option can fail on a fresh TCP socket in a way that matters to the call.
                    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => match Shortage::of(&error, Some(to)) {
                    Some(shortage) => lacking = Some(shortage),
                    None => last = Some(error),
                },
                Err(_elapsed) => last = Some(io::Error::from(io::ErrorKind::TimedOut)),
            }
        }
        // What one of its addresses had to say was the upstream's.
        Err(match (last, lacking) {
            (Some(error), _) => unreachable(provider, &error),
            (None, Some(shortage)) => shortage.fault(provider),
            (None, None) => {
                Fault::upstream(Kind::Connect, format!("no connection to provider `{}`: no address", provider.name))
            }
        })
    }

    async fn tls(&self, io: Box<dyn Io>, origin: &Origin, provider: &Provider) -> Result<Box<dyn Io>, Fault> {
        let failed =
            |why: String| Fault::upstream(Kind::Connect, format!("TLS with provider `{}`: {why}", provider.name));
        let config = self.roots.client_config(provider.ca.as_ref()).map_err(failed)?;
        let name = rustls::pki_types::ServerName::try_from(origin.host.clone())
            .map_err(|_| failed("its host is no valid server name".to_owned()))?;
        let stream =
            tokio_rustls::TlsConnector::from(config).connect(name, io).await.map_err(|error| failed(told(&error)))?;
        Ok(Box::new(stream))
    }
}

impl Connect for Dialer {
    fn dial<'a>(&'a self, provider: &'a Provider) -> Dialing<'a> {
        Box::pin(self.open(provider))
    }
}

/// The target of a request's line: a plain-HTTP proxy wants the whole address (RFC 9112, section
/// 3.2.2), everyone else the path.
///
/// # Errors
/// Never in practice: both parts have been checked.
pub fn request_target(provider: &Provider, path: PathAndQuery) -> Result<Uri, Fault> {
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path);
    if provider.proxy.is_some() && !provider.origin.tls {
        parts.scheme = Some(http::uri::Scheme::HTTP);
        parts.authority = provider.origin.authority().parse().ok();
    }
    Uri::from_parts(parts).map_err(|error| Fault::upstream(Kind::Connect, error.to_string()))
}

/// Why TLS failed, without the names in the certificate: callers read it too.
fn told(error: &io::Error) -> String {
    use rustls::{CertificateError, Error};
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => {
            tracing::debug!(%error, "TLS failed");
            "its certificate is for another name".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Asks for a tunnel to `origin` (RFC 9110, section 9.3.6).
async fn tunnel(io: &mut Box<dyn Io>, origin: &Origin, proxy: &Proxy) -> Result<(), Fault> {
    let failed = |why: String| Fault::upstream(Kind::Connect, format!("the proxy opened no tunnel: {why}"));
    let host = if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
    let mut ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n", port = origin.port).into_bytes();
    if let Some(authorization) = &proxy.authorization {
        ask.extend_from_slice(b"proxy-authorization: ");
        ask.extend_from_slice(authorization.as_bytes());
        ask.extend_from_slice(b"\r\n");
    }
    ask.extend_from_slice(b"\r\n");
    io.write_all(&ask).await.map_err(|error| failed(error.to_string()))?;
    let mut head = Vec::with_capacity(256);
    // Byte by byte, so that nothing behind the head is taken from TLS; it is at most 4 KiB, once a connection.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= 4096 {
            return Err(failed("its answer has no end".to_owned()));
        }
        let byte = io.read_u8().await.map_err(|error| failed(error.to_string()))?;
        head.push(byte);
    }
    let status = head.split(|byte| *byte == b' ').nth(1).and_then(|code| std::str::from_utf8(code).ok());
    match status {
        Some(code) if code.starts_with('2') => Ok(()),
        other => Err(failed(format!("status {}", other.unwrap_or("unreadable")))),
    }
}

/// A look at the socket that takes nothing from it. It works on a duplicate of the descriptor, so
/// that it sees below TLS and needs no share in the stream.
fn probe_of(stream: &TcpStream) -> io::Result<Box<dyn Fn() -> bool + Send + Sync>> {
    let twin = SockRef::from(stream).try_clone()?;
    Ok(Box::new(move || {
        let mut byte = [MaybeUninit::<u8>::uninit(); 1];
        matches!(twin.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }))
}
