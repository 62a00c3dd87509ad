//! TLS on both sides, and proxies on the way out.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertifiedKey, KeyPair};
use testkit::{Caller, End};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::process::{ADMIN, Dir, Gateway, chat, program, reload, run, soon, upstream, usual};

type Certified = CertifiedKey<KeyPair>;

fn certified(name: &str) -> Certified {
    rcgen::generate_simple_self_signed([name.to_owned()]).unwrap()
}

fn put(dir: &Dir, certified: &Certified) {
    dir.write("cert.pem", certified.cert.pem());
    dir.write("key.pem", certified.signing_key.serialize_pem());
}

/// Connects with TLS, trusting that certificate alone.
async fn connect(addr: SocketAddr, trusted: &Certified) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(addr).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

async fn serve_tls(config: &str, certified: &Certified) -> Gateway {
    let dir = Dir::new();
    put(&dir, certified);
    let path = dir.write("gateway.yaml", config);
    let mut command = program();
    command.arg("serve").arg("-c").arg(path).args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    Gateway::start_unasked(dir, &mut command).await
}

#[tokio::test]
async fn the_data_port_speaks_tls_and_takes_new_certificates() {
    let up = upstream("rules: [{ when: { stream: true }, reply: { say: [one, two, three], every: 300ms } }]").await;
    let (first, second) = (certified("localhost"), certified("localhost"));
    let config = format!("tls: {{ cert: cert.pem, key: key.pem }}\n{}", usual(&up.url()));
    let gateway = serve_tls(&config, &first).await;
    let mut caller = Caller::on(connect(gateway.data, &first).await.unwrap());
    assert_eq!(soon("an answer", caller.ask(&chat())).await.status, 200);

    // A stream goes on under the certificate with which it began.
    caller.begin(&chat().stream()).await;
    put(&gateway.dir, &second);
    gateway.reloads(1, 0).await;
    assert_eq!(soon("the stream", caller.answer()).await.unwrap().said(), "onetwothree");
    assert!(connect(gateway.data, &first).await.is_err(), "new connections get the new one");
    let mut caller = Caller::on(connect(gateway.data, &second).await.unwrap());
    assert_eq!(soon("an answer", caller.ask(&chat())).await.status, 200);

    // A key of another certificate changes nothing, and `check` says so too.
    gateway.dir.write("key.pem", first.signing_key.serialize_pem());
    gateway.reloads(1, 1).await;
    assert!(connect(gateway.data, &second).await.is_ok());
    let check = run(program().arg("check").arg("-c").arg(gateway.dir.path("gateway.yaml")));
    assert!(check.code == 1 && check.out.contains("tls"), "{}{}", check.out, check.err);
    gateway.dir.write("key.pem", "no key");
    let refused = gateway.ask_admin(&reload(ADMIN)).await;
    assert!(refused.status == 422 && refused.text().contains("tls.key"), "{}", refused.text());
    assert!(connect(gateway.data, &second).await.is_ok());
}

#[tokio::test]
async fn over_tls_too_a_caller_who_leaves_frees_the_upstream() {
    let up = upstream("rules: [{ reply: hang }]").await;
    let own = certified("localhost");
    let config = format!("tls: {{ cert: cert.pem, key: key.pem }}\n{}", usual(&up.url()));
    let gateway = serve_tls(&config, &own).await;
    let mut caller = Caller::on(connect(gateway.data, &own).await.unwrap());
    caller.begin(&chat()).await;
    soon("it reaches the upstream", up.log().until(|calls| calls.len() == 1)).await;
    drop(caller);
    let gone = up.log().until(|calls| calls[0].end == End::Gone);
    assert!(tokio::time::timeout(Duration::from_secs(2), gone).await.is_ok());

    // Plain HTTP is not answered there, and harms nobody.
    let mut plain = gateway.caller().await;
    plain.begin(&chat()).await;
    assert!(soon("the end", plain.answer()).await.is_err());
    let _silent = TcpStream::connect(gateway.data).await.unwrap();
    assert!(connect(gateway.data, &own).await.is_ok());
}

/// TLS with that certificate in front of a plain server.
async fn tls_before(target: SocketAddr, certified: &Certified) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(certified.cert.pem().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(certified.signing_key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut inner = TcpStream::connect(target).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
            });
        }
    });
    addr
}

/// The usual configuration with further words for its provider.
fn provider(url: &str, more: &str) -> String {
    usual(url).replace("protocol: openai,", &format!("protocol: openai, {more},"))
}

#[tokio::test]
async fn an_upstream_s_own_authority_is_trusted_and_no_other() {
    let up = upstream("").await;
    let (right, wrong, elsewhere) = (certified("localhost"), certified("localhost"), certified("elsewhere.example"));
    let door = tls_before(up.addr(), &right).await;
    let url = format!("https://localhost:{}", door.port());
    let dir = Dir::new();
    dir.write("right.pem", right.cert.pem());
    dir.write("wrong.pem", wrong.cert.pem());
    dir.write("elsewhere.pem", elsewhere.cert.pem());
    dir.write("gateway.yaml", provider(&url, "ca: right.pem"));
    let gateway = Gateway::serve_in(dir, "gateway.yaml").await;
    for ask in [chat(), chat().stream(), chat()] {
        assert_eq!(gateway.ask(&ask).await.status, 200);
    }
    let mismatched = format!("https://localhost:{}", tls_before(up.addr(), &elsewhere).await.port());
    let plain = format!("https://{}", up.addr());
    for (url, more) in [
        (&url, "ca: wrong.pem"),
        (&url, "headers: { x: y }"),
        (&mismatched, "ca: elsewhere.pem"),
        (&plain, "ca: right.pem"),
    ] {
        let before = up.log().total();
        gateway.rewrite(&provider(url, more));
        assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
        let answer = gateway.ask(&chat()).await;
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream_error")), "{url} {more}");
        assert!(!answer.text().contains("localhost") && !answer.text().contains("127.0.0.1"), "{}", answer.text());
        assert_eq!(up.log().total(), before, "not a byte of the call went there");

        // With another upstream behind it the caller sees nothing of it.
        let second = format!("  - {{ name: second, protocol: openai, base_url: \"{}/v1\" }}\nroutes:\n", up.url());
        let both = provider(url, more).replace("routes:\n", &second);
        gateway.rewrite(&both.replace("model: m }]", "model: m }, { provider: second, model: m }]"));
        assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
        assert_eq!(gateway.ask(&chat()).await.header("x-mai-upstream"), Some("second/m"));
    }
}

#[tokio::test]
async fn commands_speak_to_an_admin_port_behind_tls_and_trust_its_authority_alone() {
    let gateway = Gateway::serve(&usual("http://127.0.0.1:1")).await;
    let (right, wrong) = (certified("localhost"), certified("localhost"));
    let door = tls_before(gateway.admin, &right).await;
    gateway.dir.write("right.pem", right.cert.pem());
    gateway.dir.write("wrong.pem", wrong.cert.pem());
    for (ca, code, told) in
        [("right.pem", 0, "memory"), ("wrong.pem", 1, "certificate"), ("gateway.yaml", 2, "no certificate in it")]
    {
        let mut command = program();
        command.args(["cache", "stats", "--admin", &format!("https://localhost:{}", door.port())]);
        command.arg("--ca").arg(gateway.dir.path(ca)).env("MAI_ADMIN_TOKEN", ADMIN);
        let ran = tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap();
        let said = format!("{}{}", ran.out, ran.err);
        assert!(ran.code == code && said.contains(told), "{ca}: {} {said}", ran.code);
    }
}

/// A proxy that notes each head and does as it is told; `None` refuses.
async fn proxy(target: Option<SocketAddr>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, noted) = (listener.local_addr().unwrap(), heads.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let noted = noted.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                let text = String::from_utf8(head.clone()).unwrap();
                let tunnels = text.starts_with("CONNECT ");
                noted.lock().unwrap().push(text);
                let Some(target) = target else {
                    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
                    let _ = stream.write_all(refusal.as_bytes()).await;
                    return;
                };
                let mut inner = TcpStream::connect(target).await.unwrap();
                if tunnels {
                    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                } else {
                    inner.write_all(&head).await.unwrap();
                }
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
            });
        }
    });
    (addr, heads)
}

/// `user:pa55word` as Basic credentials.
const BASIC: &str = "proxy-authorization: Basic dXNlcjpwYTU1d29yZA==";

#[tokio::test]
async fn a_proxy_is_used_as_http_says() {
    let up = upstream("").await;
    let (addr, heads) = proxy(Some(up.addr())).await;
    let config = provider("http://models.invalid:8000", &format!("proxy: \"http://user:pa55word@{addr}\""));
    let gateway = Gateway::serve(&config).await;
    for ask in [chat(), chat().stream()] {
        let answer = gateway.ask(&ask).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let first = heads.lock().unwrap()[0].clone();
    assert!(first.starts_with("POST http://models.invalid:8000/v1/chat/completions HTTP/1.1\r\n"), "{first}");
    assert!(first.contains("host: models.invalid:8000\r\n") && first.contains(BASIC), "{first}");

    let own = certified("localhost");
    let door = tls_before(up.addr(), &own).await;
    let (addr, heads) = proxy(Some(door)).await;
    gateway.dir.write("ca.pem", own.cert.pem());
    let more = format!("ca: ca.pem, proxy: \"http://user:pa55word@{addr}\"");
    gateway.rewrite(&provider("https://localhost:8443", &more));
    assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
    up.log().reset();
    for ask in [chat(), chat().stream()] {
        assert_eq!(gateway.ask(&ask).await.status, 200);
    }
    let first = heads.lock().unwrap()[0].clone();
    assert!(first.starts_with("CONNECT localhost:8443 HTTP/1.1\r\n") && first.contains(BASIC), "{first}");
    for call in up.log().calls() {
        assert_eq!(call.request.header("proxy-authorization"), None, "that is for the proxy alone");
        assert_eq!(call.request.header("host"), Some("localhost:8443"));
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_is_an_upstream_that_fails() {
    let up = upstream("").await;
    let (addr, _) = proxy(None).await;
    for (url, more) in [("https://localhost:8443", ""), ("http://models.invalid", "")] {
        let config = provider(url, &format!("proxy: \"http://user:pa55word@{addr}\"{more}"));
        let second = format!("  - {{ name: second, protocol: openai, base_url: \"{}/v1\" }}\nroutes:\n", up.url());
        let gateway = Gateway::serve(&config).await;
        let answer = gateway.ask(&chat()).await;
        assert_eq!(answer.status, 502, "{url}: {}", answer.text());
        assert!(!answer.text().contains("pa55word") && !answer.text().contains(&addr.to_string()));
        let both = config.replace("routes:\n", &second);
        gateway.rewrite(&both.replace("model: m }]", "model: m }, { provider: second, model: m }]"));
        assert_eq!(gateway.ask_admin(&reload(ADMIN)).await.status, 200);
        assert_eq!(gateway.ask(&chat()).await.header("x-mai-upstream"), Some("second/m"));
        assert!(!gateway.process.err.has("pa55word") && !gateway.process.err.has("dXNlcjpwYTU1d29yZA"));
    }
}
