//! Commands that talk to a running gateway, over HTTP or HTTPS: one call at a time, within bounds of time and size.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base::Secret;
use mai::args::AdminAt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Method, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// An answer larger than this is none of a gateway's.
const MOST: u64 = 256 << 20;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sending a request, the wait for an answer's head, and its body may take, each.
const PATIENCE: Duration = Duration::from_secs(60);
/// Items of a page of a list that is read to its end, and pages of one at most.
const PAGE: &str = "500";
const MOST_PAGES: usize = 1_000;
/// Bytes of a file with a token at most.
const LONGEST_TOKEN: u64 = 1 << 20;
/// Bytes of a file with certificates at most.
const LONGEST_CA: u64 = 64 << 20;
/// What stands in a path or a query as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one segment of a path, or as one value of a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A query of those parameters that have a value; empty where none has.
pub fn query<'a>(wanted: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let given = wanted.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value?))));
    let joined = given.collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}

/// A server that is asked, and the secret that is shown to it.
pub struct Peer {
    agent: Agent,
    base: String,
    bearer: Option<Secret>,
    /// What to look at where nobody answers.
    hint: &'static str,
}

/// What must be true of an object for a write to happen.
#[derive(Clone, Copy, Default)]
pub enum If<'a> {
    /// Nothing.
    #[default]
    Whatever,
    /// It is still the version of this `ETag`.
    Matches(&'a str),
    /// There is none.
    Absent,
}

/// A good answer.
pub struct Told {
    /// The version that the answer is of.
    pub etag: Option<String>,
    /// The body.
    pub text: String,
}

impl Told {
    /// The body as JSON; nothing for an empty one.
    ///
    /// # Errors
    /// That it is none.
    pub fn json(&self) -> Result<Value, Trouble> {
        if self.text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&self.text).map_err(|error| Trouble::of(format!("the answer is no JSON: {error}")))
    }
}

/// Why there is no good answer: a text that says what answers and what to do.
#[derive(Debug)]
pub struct Trouble {
    /// What was answered, where something was.
    pub status: Option<u16>,
    /// The command was not written as it must be.
    pub is_usage: bool,
    text: String,
}

impl Trouble {
    /// Something that is no answer.
    pub fn of(text: impl Into<String>) -> Self {
        Self { status: None, is_usage: false, text: text.into() }
    }

    /// Something that is wrong with the command itself.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { is_usage: true, ..Self::of(text) }
    }

    /// The same with more to know.
    pub fn and(self, more: &str) -> Self {
        Self { text: format!("{}\n{more}", self.text), ..self }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::of(text)
    }
}

impl Peer {
    /// The admin port that the flags name.
    ///
    /// # Errors
    /// A sentence about the address or the token.
    pub fn admin(at: &AdminAt) -> Result<Self, Trouble> {
        let given = at.token_file.as_deref().map(token_in).transpose()?;
        let token = given.or_else(|| at.token.clone().filter(|token| !token.is_empty())).ok_or_else(|| {
            Trouble::of(
                "no admin token: give one in MAI_ADMIN_TOKEN or in a file with --token-file (one of the gateway's \
                 `admin.tokens`, what it has in MAI_ADMIN_TOKEN itself, or, without a configuration, the `adm-…` that its \
                 start prints)",
            )
        })?;
        let url = at.admin.trim_end_matches('/').trim_end_matches("/admin/v1");
        let hint = "is it running, and is `--admin` the address of its admin port?";
        Self::at(url, Some(Secret::new(token)), at.ca.as_deref(), hint)
            .map_err(|text| Trouble::usage(format!("--admin {url}: {text}")))
    }

    /// Any server at a URL.
    ///
    /// # Errors
    /// A sentence that says what the address or the secret should be.
    pub fn at(
        url: &str,
        bearer: Option<Secret>,
        ca: Option<&std::path::Path>,
        hint: &'static str,
    ) -> Result<Self, String> {
        let base = url.trim_end_matches('/').to_owned();
        let is_secure = base.starts_with("https://");
        if !is_secure && !base.starts_with("http://") {
            return Err("write the address as `http://HOST:PORT` or `https://HOST`".to_owned());
        }
        if base.contains(['?', '#', '@']) || base.parse::<ureq::http::Uri>().is_err() {
            return Err("this is no address; write `http://HOST:PORT` or `https://HOST`".to_owned());
        }
        let bearer = bearer.filter(|bearer| !bearer.expose().is_empty());
        if bearer.as_ref().is_some_and(|bearer| !bearer.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err("the token or key holds characters that cannot be sent in a header".to_owned());
        }
        // The secret is for this server alone: it follows no redirect, and no proxy of the environment hears it.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("mai-gateway/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_send_request(Some(PATIENCE))
            .timeout_send_body(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_recv_body(Some(PATIENCE));
        let config = if is_secure { config.tls_config(tls(ca)?) } else { config };
        Ok(Self { agent: config.build().new_agent(), base, bearer, hint })
    }

    /// What is answered to a `GET`.
    ///
    /// # Errors
    /// Every answer that is no success, and none.
    pub fn get(&self, path: &str) -> Result<Told, Trouble> {
        self.ask(&Method::GET, path, None, If::Whatever)
    }

    /// A whole list, page after page.
    ///
    /// # Errors
    /// Those of [`Self::get`]; a list that has no end.
    pub fn list(&self, path: &str) -> Result<Vec<Value>, Trouble> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let mut page =
                self.get(&format!("{path}{}", query([("limit", Some(PAGE)), ("after", after.as_deref())])))?.json()?;
            if let Some(Value::Array(data)) = page.get_mut("data").map(Value::take) {
                items.extend(data);
            }
            after = page.get("next").and_then(Value::as_str).map(str::to_owned);
            if after.is_none() {
                return Ok(items);
            }
        }
        Err(Trouble::of(format!("the list at {}{path} has no end", self.base)))
    }

    /// What is answered to a request with a JSON body, or without one.
    ///
    /// # Errors
    /// Every answer that is no success, and none.
    pub fn ask(&self, method: &Method, path: &str, body: Option<&str>, expected: If<'_>) -> Result<Told, Trouble> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(&url);
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", format!("Bearer {}", bearer.expose()));
        }
        request = match expected {
            If::Whatever => request,
            If::Matches(etag) => request.header("if-match", etag),
            If::Absent => request.header("if-none-match", "*"),
        };
        let sent = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                request.body(body).map_err(ureq::Error::from).and_then(|request| self.agent.run(request))
            }
            None => request.body(()).map_err(ureq::Error::from).and_then(|request| self.agent.run(request)),
        };
        let unanswered = |error: ureq::Error| {
            Trouble::of(format!("no gateway answers at {}: {}; {}", self.base, plain(&error), self.hint))
        };
        let mut answer = sent.map_err(unanswered)?;
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let (etag, retry_after, location) = (header("etag"), header("retry-after"), header("location"));
        let body = answer
            .body_mut()
            .with_config()
            .limit(MOST)
            .read_to_vec()
            .map_err(|error| Trouble::of(format!("the answer of {} broke off: {}", self.base, plain(&error))))?;
        let text =
            String::from_utf8(body).map_err(|_| Trouble::of(format!("the answer of {} is no text", self.base)))?;
        let status = answer.status().as_u16();
        if answer.status().is_success() {
            return Ok(Told { etag, text });
        }
        let advice = match (status, retry_after, location) {
            (300..=399, _, Some(to)) => Some(format!("redirects are not followed: name the address itself ({to})")),
            (429, Some(seconds), _) => Some(format!("try again in {seconds} s")),
            _ => None,
        };
        Err(self.refusal(status, &text, advice))
    }

    fn refusal(&self, status: u16, text: &str, advice: Option<String>) -> Trouble {
        let told: Value = serde_json::from_str(text).unwrap_or_default();
        let error = |name: &str| told.pointer(&format!("/error/{name}")).and_then(Value::as_str);
        let Some(message) = error("message") else {
            let advice = advice.unwrap_or_else(|| self.hint.to_owned());
            let text = format!("{} answers {status}, but not as a gateway does; {advice}", self.base);
            return Trouble { status: Some(status), ..Trouble::of(text) };
        };
        let message = in_own_words(error("code").unwrap_or_default(), error("param"), message);
        let mut text = format!("{} answers {status}: {}", self.base, crate::table::clean(&message));
        if let Some(advice) = advice.as_deref().or_else(|| error("code").and_then(|code| todo(code, &message))) {
            text.push_str(&format!("; {advice}"));
        }
        for problem in told.pointer("/error/problems").and_then(Value::as_array).into_iter().flatten() {
            text.push_str(&format!("\n  {}", crate::table::clean(&told_of(problem))));
        }
        Trouble { status: Some(status), ..Trouble::of(text) }
    }
}

/// How the gateway calls the place of what came over its admin API.
const SENT: &str = "admin API";

/// One problem of a configuration, as a line.
pub fn told_of(problem: &Value) -> String {
    let field = |name: &str| problem.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(message) = field("message") else {
        return problem.as_str().map_or_else(|| problem.to_string(), str::to_owned);
    };
    // Where it stands in what was sent says nothing: that is not the text that was written.
    let place = field("place").filter(|place| !place.starts_with(SENT));
    let before = [place, field("path")];
    before.into_iter().flatten().chain([message]).collect::<Vec<_>>().join(": ")
}

/// Parameters that are options of the same name.
const OPTIONS: [&str; 9] = ["status", "since", "until", "after", "from", "to", "kind", "latency", "for"];

/// A refusal as whoever types a command must read it: the gateway speaks of headers and parameters.
fn in_own_words<'a>(code: &str, param: Option<&str>, message: &'a str) -> Cow<'a, str> {
    match (code, param) {
        ("invalid_token", _) => {
            "it does not know this admin token; it knows its `admin.tokens`, what it has in MAI_ADMIN_TOKEN \
                                 itself, or, without a configuration, the `adm-…` that its start prints: give one in \
                                 MAI_ADMIN_TOKEN or in a file with --token-file"
                .into()
        }
        ("invalid_request", Some("group_by")) => message.replace("`group_by`", "`--by`").into(),
        ("invalid_request", Some(param)) if OPTIONS.contains(&param) => {
            message.replacen(&format!("`{param}`"), &format!("`--{param}`"), 1).into()
        }
        ("not_found", _) => message.replace("GET /admin/v1/breakers lists", "`mai-gateway breakers list` shows").into(),
        ("already_exists", _) => message.replace("`replace=true`", "`--replace`").into(),
        _ => message.into(),
    }
}

/// What to do about a refusal whose own words do not say so.
fn todo(code: &str, message: &str) -> Option<&'static str> {
    match code {
        "role_not_allowed" => {
            Some("use a token of a higher role (`operator` writes, `admin` also sees what is secret)")
        }
        "precondition_failed" => Some("somebody has changed it meanwhile: look again, and repeat"),
        // The data port names its own endpoints.
        "not_found" if message.contains("the model endpoints are") => {
            Some("that is the data port: `--admin` takes the address of the admin port (8081 unless set otherwise)")
        }
        "not_found" if message.contains("no such path") => Some("is that gateway older than this program?"),
        "not_found" if message.contains("no key `") => Some("see `mai-gateway keys list`"),
        "not_found" if message.starts_with("there is no route `") && !message.contains("breakers list") => {
            Some("see `mai-gateway routes list`")
        }
        "not_found" if message.starts_with("there is no provider `") => Some("see `mai-gateway providers list`"),
        "not_found" if message.starts_with("there is no client `") => Some("see `mai-gateway clients list`"),
        _ => None,
    }
}

/// The system's roots (Mozilla's where it has none), and those of a file.
fn tls(ca: Option<&std::path::Path>) -> Result<TlsConfig, String> {
    let mut roots: Vec<Certificate<'static>> = Vec::new();
    roots
        .extend(rustls_native_certs::load_native_certs().certs.iter().map(|der| Certificate::from_der(der).to_owned()));
    if let Some(file) = ca {
        let shown = file.display();
        let pem = crate::files::bytes(file, LONGEST_CA).map_err(|why| format!("--ca {why}"))?;
        let before = roots.len();
        for item in ureq::tls::parse_pem(&pem) {
            let item = item.map_err(|error| format!("--ca {shown}: this is no PEM file: {error}"))?;
            if let ureq::tls::PemItem::Certificate(certificate) = item {
                roots.push(certificate);
            }
        }
        if roots.len() == before {
            return Err(format!("--ca {shown}: there is no certificate in it; it must be in PEM"));
        }
    }
    if roots.is_empty() {
        return Err("this system has no certificates to trust; name some with --ca".to_owned());
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// A token out of a file, without the line's end.
fn token_in(file: &std::path::Path) -> Result<String, Trouble> {
    let wrong = |why: String| Trouble::of(format!("--token-file {why}"));
    let text = crate::files::text(file, LONGEST_TOKEN).map_err(wrong)?;
    match text.trim() {
        "" => Err(wrong(format!("{}: the file is empty; it must hold the token alone", file.display()))),
        token => Ok(token.to_owned()),
    }
}

/// An error in words that help; the library's own begin with their kind.
fn plain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(what) => format!("it takes too long ({what})"),
        ureq::Error::HostNotFound => "there is no host of that name".to_owned(),
        ureq::Error::BodyExceedsLimit(most) => format!("it is larger than {} MiB", most >> 20),
        other => match other.to_string() {
            told if told.contains("InvalidContentType") => {
                "it speaks no TLS there, so that its address begins with http://".to_owned()
            }
            told => told,
        },
    }
}
