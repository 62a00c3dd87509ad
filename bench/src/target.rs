//! What is measured: the gateway and what stands beside it, each started on a free port in front of the same upstream.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::process::{self, Started};
use crate::wire::Connection;
use crate::workload;

/// How long a target may take until it answers.
const START: Duration = Duration::from_secs(15);

/// Short chats before a target counts as started; the idle memory is read after them.
const FIRST_CALLS: usize = 20;

/// One of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The upstream itself, nothing in between.
    Direct,
    Nginx,
    /// nginx with buffers so large that the largest answer stays in memory.
    Tuned,
    Relay,
    Gateway,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Direct, Self::Nginx, Self::Tuned, Self::Relay, Self::Gateway];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Tuned => "nginx-tuned",
            Self::Relay => "relay",
            Self::Gateway => "gateway",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A started target.
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    /// Nothing of its own for the direct way.
    process: Option<Started>,
    /// The upstream behind it.
    upstream_pids: Vec<u32>,
}

impl Target {
    /// Starts the scripted upstream.
    pub(crate) async fn upstream(dir: &Path) -> io::Result<Self> {
        let port = process::free_port()?;
        let process = Started::start(dir, "upstream", &ours(&["upstream", &port.to_string()])?, &[])?;
        Self { kind: Kind::Direct, port, process: Some(process), upstream_pids: Vec::new() }.once_it_answers(dir).await
    }

    /// Starts `kind` in front of the upstream and waits until it answers.
    pub(crate) async fn start(kind: Kind, upstream: &Self, gateway: &Path, dir: &Path) -> io::Result<Self> {
        let port = process::free_port()?;
        let upstream_port = upstream.port;
        let upstream_pids = upstream.pids().to_vec();
        let process = match kind {
            Kind::Direct => return Ok(Self { kind, port: upstream_port, process: None, upstream_pids }),
            Kind::Nginx | Kind::Tuned => {
                let config = dir.join(format!("{}.conf", kind.name()));
                let buffers = if kind == Kind::Tuned { LARGE_BUFFERS } else { "" };
                fs::write(&config, nginx_config(port, upstream_port, (dir, kind.name()), buffers))?;
                let words = ["nginx", "-e", "stderr", "-p", &text(dir), "-c", &text(&config)].map(String::from);
                Started::start(dir, kind.name(), &words, &[])?
            }
            Kind::Relay => {
                let words = ours(&["relay", &port.to_string(), &upstream_port.to_string()])?;
                Started::start(dir, kind.name(), &words, &[])?
            }
            Kind::Gateway => {
                let config = gateway_config((port, process::free_port()?, upstream_port));
                serve(kind.name(), &config, gateway, dir)?
            }
        };
        Self { kind, port, process: Some(process), upstream_pids }.once_it_answers(dir).await
    }

    /// Starts a gateway of that name with a configuration of its own, given its two ports, and waits until it answers.
    pub(crate) async fn gateway(
        name: &str,
        config: impl Fn(u16, u16) -> String,
        upstream: &Self,
        gateway: &Path,
        dir: &Path,
    ) -> io::Result<Self> {
        let port = process::free_port()?;
        let process = serve(name, &config(port, process::free_port()?), gateway, dir)?;
        let upstream_pids = upstream.pids().to_vec();
        Self { kind: Kind::Gateway, port, process: Some(process), upstream_pids }.once_it_answers(dir).await
    }

    pub(crate) fn cpu_ns(&self) -> u64 {
        self.process.as_ref().map_or(0, Started::cpu_ns)
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.process.as_ref().map_or(0, Started::resident_bytes)
    }

    pub(crate) fn pids(&self) -> &[u32] {
        self.process.as_ref().map_or(&[], Started::pids)
    }

    /// Every process that a call passes, the caller's left out.
    pub(crate) fn path_pids(&self) -> Vec<u32> {
        [self.pids(), &self.upstream_pids].concat()
    }

    async fn once_it_answers(mut self, dir: &Path) -> io::Result<Self> {
        let name = if self.kind == Kind::Direct { "upstream" } else { self.kind.name() };
        let answered = tokio::time::timeout(START, async {
            loop {
                if self.process.as_mut().is_some_and(Started::ended) {
                    return Err(io::Error::other("it ended"));
                }
                match Connection::open(self.port).await {
                    Ok(connection) => return first_calls(connection).await,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        let outcome = answered.await.unwrap_or_else(|_| Err(io::Error::other("it did not answer in time")));
        if let Err(error) = outcome {
            let said = fs::read_to_string(dir.join(format!("{name}.err"))).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().take(8).collect();
            let last = last.into_iter().rev().collect::<Vec<_>>().join("\n  ");
            return Err(io::Error::other(format!("{name} does not serve: {error}\n  {last}")));
        }
        if let Some(process) = &mut self.process {
            process.learn_family();
        }
        Ok(self)
    }
}

async fn first_calls(mut connection: Connection) -> io::Result<()> {
    let call = workload::short_chat();
    for _ in 0..FIRST_CALLS {
        let (status, bytes) = connection.call(&call.bytes).await?;
        if status != 200 || call.answer_bytes != Some(bytes) {
            return Err(io::Error::other(format!("its first answers have status {status} and {bytes} bytes")));
        }
    }
    Ok(())
}

/// Starts a gateway with this configuration and a data folder of its own.
fn serve(name: &str, config: &str, gateway: &Path, dir: &Path) -> io::Result<Started> {
    let (file, data) = (dir.join(format!("{name}.yaml")), dir.join(format!("{name}-data")));
    fs::write(&file, config)?;
    fs::create_dir_all(&data)?;
    let words = [&text(gateway), "serve", "--config", &text(&file)].map(String::from);
    Started::start(dir, name, &words, &[("MAI_DATA_DIR", text(&data))])
}

fn ours(words: &[&str]) -> io::Result<Vec<String>> {
    let program = text(&std::env::current_exe()?);
    Ok(std::iter::once(program).chain(words.iter().map(|word| (*word).to_owned())).collect())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What keeps an answer of 411 KB in nginx's memory; its own defaults pass it on in pieces of 4 KiB.
const LARGE_BUFFERS: &str = "proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k;";

/// A plain reverse proxy: two workers, kept connections both ways, requests in memory, no log; answers
/// are buffered as nginx does by default, unless `buffers` says otherwise.
fn nginx_config(port: u16, upstream_port: u16, (dir, name): (&Path, &str), buffers: &str) -> String {
    let dir = text(dir);
    format!(
        r#"worker_processes 2;
worker_rlimit_nofile 16384;
daemon off;
pid {dir}/{name}.pid;
error_log stderr error;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {dir}/{name}-body;
    proxy_temp_path {dir}/{name}-proxy;
    fastcgi_temp_path {dir}/{name}-fastcgi;
    uwsgi_temp_path {dir}/{name}-uwsgi;
    scgi_temp_path {dir}/{name}-scgi;
    client_max_body_size 16m;
    client_body_buffer_size 512k;
    keepalive_timeout 300s;
    keepalive_requests 100000000;
    tcp_nodelay on;
    upstream bench {{
        server 127.0.0.1:{upstream_port};
        keepalive 256;
        keepalive_requests 100000000;
        keepalive_timeout 300s;
    }}
    map_hash_bucket_size 256;
    map $http_authorization $known {{ default 0; "Bearer {key}" 1; }}
    server {{
        listen 127.0.0.1:{port} reuseport backlog=4096;
        if ($known = 0) {{ return 401; }}
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location /v1/chat/ {{
            proxy_pass http://bench;
            proxy_buffering off;
        }}
        location / {{
            proxy_pass http://bench;
            {buffers}
            proxy_max_temp_file_size 0;
        }}
    }}
}}
"#,
        key = workload::CLIENT_KEY
    )
}

/// What the configuration of a gateway begins with, given its two ports and the upstream's: the ports, and the upstream as
/// provider `scripted`. Its pool is large, since 1,000 streams take as many connections.
pub(crate) fn begins((port, admin, upstream): (u16, u16, u16)) -> String {
    format!(
        r#"listen: "127.0.0.1:{port}"
admin: {{ listen: "127.0.0.1:{admin}" }}
providers:
  - name: scripted
    base_url: "http://127.0.0.1:{upstream}/v1"
    api_key: "sk-upstream-bench"
    pool: {{ max_connections: 4096 }}"#
    )
}

/// Everything by default: identity, metrics, and the access log, which goes to a file by way of stdout.
fn gateway_config(ports: (u16, u16, u16)) -> String {
    let begins = begins(ports);
    format!(
        r#"{begins}
routes:
  - name: chat
    match: {{ path: /v1/chat/completions }}
    upstreams: [{{ provider: scripted, model: bench-chat }}]
  - name: embedding
    match: {{ path: /v1/embeddings }}
    upstreams: [{{ provider: scripted, model: bench-embedding }}]
clients:
  - name: bench
    keys: ["{key}"]
    routes: ["*"]
"#,
        key = workload::CLIENT_KEY
    )
}
