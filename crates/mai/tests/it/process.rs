//! One gateway as a process: started with a configuration, stopped when dropped.

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mock::{Mock, Running, Scenario};
use serde_json::Value;
use testkit::{Answer, Ask, Caller};
use tokio::net::TcpStream;

/// The client key of the usual configuration.
pub const KEY: &str = "sk-client-4f9a1c7e2b";
/// Its provider's key.
pub const PROVIDER_KEY: &str = "sk-provider-77d0e3a95c";
/// Its admin tokens.
pub const ADMIN: &str = "adm-token-5be1f08d";
pub const VIEWER: &str = "view-token-91c2aa70";

/// Nothing here takes longer than this, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "never so: {what}");
}

/// What comes within patience.
pub async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, coming).await {
        Ok(came) => came,
        Err(_) => panic!("never came: {what}"),
    }
}

/// A folder of a test's own.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary with nothing of the surrounding environment.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mai-gateway"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// What a command that ends by itself came to.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn run(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8 on a terminal");
    Ran {
        code: output.status.code().expect("an exit, not a signal"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Text that grows while a process writes.
#[derive(Clone, Default)]
pub struct Growing(Arc<Mutex<String>>);

impl Growing {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let growing = Self::default();
        let text = growing.0.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        growing
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    pub fn has(&self, part: &str) -> bool {
        self.0.lock().unwrap().contains(part)
    }
}

/// A running process, ended when dropped.
pub struct Program {
    child: Child,
    pub out: Growing,
    pub err: Growing,
    unread: Option<std::process::ChildStdout>,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = Growing::of(child.stdout.take().unwrap());
        let err = Growing::of(child.stderr.take().unwrap());
        Self { child, out, err, unread: None }
    }

    /// Closes the reading end of its standard output, or leaves it unread.
    pub fn start_unheard(command: &mut Command, is_closed: bool) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let unread = child.stdout.take().filter(|_| !is_closed);
        let err = Growing::of(child.stderr.take().unwrap());
        Self { child, out: Growing::default(), err, unread }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit code, once it has ended. `None` for a signal.
    pub async fn exit(&mut self) -> Option<i32> {
        let mut status = None;
        until("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.unread.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway that serves.
pub struct Gateway {
    pub process: Program,
    pub data: SocketAddr,
    pub admin: SocketAddr,
    pub dir: Dir,
}

impl Gateway {
    /// Serves this configuration from `gateway.yaml` in a folder of its own.
    pub async fn serve(config: &str) -> Self {
        let dir = Dir::new();
        dir.write("gateway.yaml", config);
        Self::serve_in(dir, "gateway.yaml").await
    }

    /// Serves the file or folder of that name.
    pub async fn serve_in(dir: Dir, name: &str) -> Self {
        let mut command = program();
        command.arg("serve").arg("--config").arg(dir.path(name)).current_dir(dir.path("."));
        Self::start(dir, command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "2"]))
            .await
    }

    /// Waits until it serves. It must log at level info, at least.
    pub async fn start(dir: Dir, command: &mut Command) -> Self {
        let gateway = Self::start_unasked(dir, command).await;
        assert_eq!(gateway.ask(&testkit::get("/readyz")).await.status, 200);
        gateway
    }

    /// The same for a gateway that is not asked in plain HTTP.
    pub async fn start_unasked(dir: Dir, command: &mut Command) -> Self {
        // Wherever its data goes, it is the test's own.
        if !command.get_envs().any(|(name, _)| name == "MAI_DATA_DIR") {
            command.env("MAI_DATA_DIR", dir.path("data"));
        }
        Self::of(dir, Program::start(command)).await
    }

    /// Waits until this process serves.
    pub async fn of(dir: Dir, mut process: Program) -> Self {
        let mut ports = None;
        until("the gateway serves", || {
            if let Some(status) = process.child.try_wait().unwrap() {
                panic!("it ended with {status}: {}", process.err.text());
            }
            ports = serving(&process.err.text());
            ports.is_some()
        })
        .await;
        let (data, admin) = ports.unwrap();
        Self { process, data, admin, dir }
    }

    pub async fn caller(&self) -> Caller<TcpStream> {
        Caller::on(TcpStream::connect(self.data).await.unwrap())
    }

    /// One call on a connection of its own.
    pub async fn ask(&self, ask: &Ask) -> Answer {
        soon("an answer", async { self.caller().await.ask(ask).await }).await
    }

    /// The same on the admin port.
    pub async fn ask_admin(&self, ask: &Ask) -> Answer {
        soon("an answer of the admin port", async {
            Caller::on(TcpStream::connect(self.admin).await.unwrap()).ask(ask).await
        })
        .await
    }

    /// The sum of the series of that name whose labels hold this text.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let text = self.ask_admin(&testkit::get("/metrics")).await.text();
        let of_it = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(labels)
        };
        text.lines().filter(of_it).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Waits until that metric has that value.
    pub async fn metric_is(&self, name: &str, labels: &str, value: f64) {
        let mut last = f64::NAN;
        let waiting = async {
            loop {
                last = self.metric(name, labels).await;
                if (last - value).abs() < 1e-9 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(came.is_ok(), "{name}{{{labels}}} never became {value}, last {last}: {}", self.process.err.text());
    }

    pub async fn reloads(&self, ok: u32, rejected: u32) {
        self.metric_is("mai_config_reloads_total", "\"ok\"", ok.into()).await;
        self.metric_is("mai_config_reloads_total", "\"rejected\"", rejected.into()).await;
    }

    /// The access log's lines, once there are so many.
    pub async fn lines(&self, count: usize) -> Vec<Value> {
        until("so many lines in the access log", || self.process.out.text().matches('\n').count() >= count).await;
        self.log()
    }

    /// The access log so far.
    pub fn log(&self) -> Vec<Value> {
        self.process.out.text().lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// Puts another configuration in its place at once: on a busy disk a file that is written in place may stand empty
    /// for longer than a change must be still.
    pub fn rewrite(&self, config: &str) {
        let beside = self.dir.write("rewritten.tmp", config);
        std::fs::rename(beside, self.dir.path("gateway.yaml")).unwrap();
    }
}

fn serving(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line = log.lines().find(|line| line.contains("serving version="))?;
    let value = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.parse().ok());
    Some((value("data=")?, value("admin=")?))
}

/// A scripted upstream on a port of its own.
pub async fn upstream(scenario: &str) -> Running {
    let scenario = if scenario.is_empty() { Scenario::default() } else { Scenario::read(scenario).unwrap() };
    Mock::start(([127, 0, 0, 1], 0).into(), scenario).await.unwrap()
}

/// Routes `chat`, `embedding` and `rerank` over one upstream, one client, three tokens.
pub fn usual(url: &str) -> String {
    format!(
        r#"
admin:
  tokens:
    - {{ name: root, role: admin, token: {ADMIN} }}
    - {{ name: eye, role: viewer, token: {VIEWER} }}
providers:
  - {{ name: up, protocol: openai, base_url: "{url}/v1", api_key: {PROVIDER_KEY} }}
routes:
  - {{ name: chat, match: {{ path: /v1/chat/completions }}, upstreams: [{{ provider: up, model: m }}], retry: {{ server_error: [10ms, 20ms] }} }}
  - {{ name: embedding, match: {{ path: /v1/embeddings }}, upstreams: [{{ provider: up, model: e }}], retry: {{ server_error: [10ms, 20ms] }} }}
  - {{ name: rerank, match: {{ path: /v1/rerank }}, upstreams: [{{ provider: up, model: r }}], retry: {{ server_error: [10ms, 20ms] }} }}
clients:
  - {{ name: app, keys: [{KEY}], routes: ["*"] }}
"#
    )
}

/// A chat call with the usual key.
pub fn chat() -> Ask {
    testkit::chat("chat").user("Hi").key(KEY)
}

/// `POST /admin/v1/reload` with that token.
pub fn reload(token: &str) -> Ask {
    testkit::get("/admin/v1/reload").method("POST").key(token)
}
