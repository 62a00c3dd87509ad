//! A reply worked out to the last byte: what is written when, and how it ends.

use std::time::Duration;

use base::{Clock, Dice};
use bytes::Bytes;
use serde_json::json;

use crate::answer::{Asked, Content, answer, refusal};
use crate::reply::{At, Body, Coding, Cut, Framing, How, Reply, Slices, Step};

/// A script of writes.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    pub(crate) latency: Duration,
    /// For the log; 0 where the script sends its own head or none.
    pub(crate) status: u16,
    /// Each write with the wait before it.
    pub(crate) writes: Vec<(Duration, Bytes)>,
    pub(crate) ending: Ending,
}

/// What comes after the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The next request.
    Serve,
    /// The connection's end, as announced.
    Close,
    /// A break.
    Cut(How),
}

/// A body that is not yet framed.
struct Sheet {
    status: u16,
    headers: Vec<(String, String)>,
    content_type: &'static str,
    parts: Vec<(Duration, Bytes)>,
    is_stream: bool,
}

/// Works the reply out for one call.
pub(crate) fn take(reply: &Reply, asked: &Asked<'_>, dice: &Dice) -> Take {
    let latency = reply.latency.draw(dice);
    if let Body::Raw(steps) = &reply.body {
        let (writes, ending) = cut(parts(steps, reply.every), reply.cut, Ending::Close);
        return Take { latency, status: 0, writes, ending };
    }
    let mut sheet = sheet(reply, asked);
    if let Some(coding) = reply.coding {
        encode(&mut sheet, coding);
    }
    if let Some(slices) = &reply.slices {
        sheet.parts = slice(&sheet.parts, slices);
    }
    let closes = asked.request.closes()
        || sheet.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("connection") && value.contains("close"));
    let framing = framing(reply, asked, &sheet);
    let ending = if (closes && !reply.keep_open) || framing == Framing::Close { Ending::Close } else { Ending::Serve };
    if matches!(reply.cut, Some(Cut { at: At::Request, .. })) {
        let (_, ending) = cut(Vec::new(), reply.cut, ending);
        return Take { latency, status: 0, writes: Vec::new(), ending };
    }
    let status = sheet.status;
    let head = head(&sheet, framing);
    let has_body = asked.request.method != "HEAD" && !matches!(status, 204 | 304);
    let (parts, ending) = cut(if has_body { sheet.parts } else { Vec::new() }, reply.cut, ending);
    let writes = match framing {
        Framing::Chunked if has_body => chunked(head, parts, reply.cut.is_none()),
        _ => plain(head, parts),
    };
    Take { latency, status, writes, ending }
}

fn parts(steps: &[Step], every: Option<Duration>) -> Vec<(Duration, Bytes)> {
    let mut parts = Vec::with_capacity(steps.len());
    let mut wait = Duration::ZERO;
    for step in steps {
        match step {
            Step::Wait(longer) => wait = *longer,
            Step::Send(bytes) => {
                parts.push((wait, bytes.clone()));
                wait = every.unwrap_or_default();
            }
        }
    }
    parts
}

fn sheet(reply: &Reply, asked: &Asked<'_>) -> Sheet {
    let whole = |content_type, bytes: Bytes| (content_type, vec![(Duration::ZERO, bytes)], false);
    let mut status = reply.status.unwrap_or(200);
    let mut headers: Vec<(String, String)> = Vec::new();
    let (content_type, parts, is_stream) = match &reply.body {
        Body::Answer => {
            let draft = if status >= 400 {
                refusal(asked, status, "This failure is scripted by the mock.")
            } else {
                answer(asked)
            };
            status = if draft.status == 200 { status } else { draft.status };
            headers.extend(draft.headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
            match draft.body {
                Content::Whole(body) => whole(draft.content_type, body.into()),
                Content::Stream(events) => {
                    let pace = |(at, (wait, event)): (usize, (Duration, String))| {
                        let wait = if at == 0 { Duration::ZERO } else { reply.every.unwrap_or(wait) };
                        (wait, Bytes::from(event))
                    };
                    (draft.content_type, events.into_iter().enumerate().map(pace).collect(), true)
                }
            }
        }
        Body::Empty | Body::Raw(_) => ("", Vec::new(), false),
        Body::Json(value) => whole("application/json", value.to_string().into()),
        Body::Bytes(content_type, bytes) => whole(content_type, bytes.clone()),
        Body::Stream(content_type, steps) => (*content_type, parts(steps, reply.every), true),
        Body::Echo => whole("application/json", echo(asked).into()),
    };
    headers.retain(|(name, _)| !reply.sets(name));
    headers.extend(reply.headers.iter().cloned());
    let wall = Clock.wall();
    headers.extend(reply.dues.iter().map(|(name, due)| (name.clone(), due.value(wall))));
    Sheet { status, headers, content_type, parts, is_stream }
}

fn echo(asked: &Asked<'_>) -> String {
    let request = asked.request;
    let headers: Vec<_> =
        request.headers.iter().map(|(name, value)| json!([name, String::from_utf8_lossy(value)])).collect();
    let body = request.json.clone().unwrap_or_else(|| String::from_utf8_lossy(&request.body).into());
    json!({"method": request.method, "path": request.path, "query": request.query, "headers": headers, "body": body})
        .to_string()
}

fn encode(sheet: &mut Sheet, coding: Coding) {
    let pieces: Vec<&[u8]> = sheet.parts.iter().map(|(_, bytes)| bytes.as_ref()).collect();
    let coded = coding.encode(&pieces);
    let waits = sheet.parts.iter().map(|(wait, _)| *wait).chain(std::iter::repeat(Duration::ZERO));
    sheet.parts = waits.zip(coded.into_iter().map(Bytes::from)).collect();
    sheet.headers.push(("content-encoding".to_owned(), coding.name().to_owned()));
}

fn slice(parts: &[(Duration, Bytes)], slices: &Slices) -> Vec<(Duration, Bytes)> {
    let mut rest = Bytes::from(parts.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect::<Vec<u8>>());
    let mut cut = Vec::new();
    let every = match slices {
        Slices::Of(size, every) => {
            while rest.len() > *size {
                cut.push(rest.split_to(*size));
            }
            every
        }
        Slices::At(at, every) => {
            let mut done = 0;
            for place in at {
                if *place > done && *place - done < rest.len() {
                    cut.push(rest.split_to(*place - done));
                    done = *place;
                }
            }
            every
        }
    };
    cut.push(rest);
    let wait = |at: usize| if at == 0 { Duration::ZERO } else { *every };
    cut.into_iter().enumerate().map(|(at, bytes)| (wait(at), bytes)).collect()
}

/// Drops the parts behind the cut.
fn cut(parts: Vec<(Duration, Bytes)>, cut: Option<Cut>, sound: Ending) -> (Vec<(Duration, Bytes)>, Ending) {
    let Some(Cut { at, how }) = cut else { return (parts, sound) };
    let mut left = match at {
        At::Request | At::Head => 0,
        At::Bytes(count) => count,
        At::Events(_) | At::End => usize::MAX,
    };
    let events = if let At::Events(count) = at { count } else { usize::MAX };
    let mut kept = Vec::new();
    for (wait, mut bytes) in parts.into_iter().take(events) {
        if left == 0 {
            break;
        }
        bytes.truncate(left);
        left -= bytes.len();
        kept.push((wait, bytes));
    }
    (kept, Ending::Cut(how))
}

fn framing(reply: &Reply, asked: &Asked<'_>, sheet: &Sheet) -> Framing {
    match reply.framing {
        Some(framing) => framing,
        None if sheet.is_stream && asked.request.is_old => Framing::Close,
        None if sheet.is_stream => Framing::Chunked,
        None => Framing::Length,
    }
}

fn head(sheet: &Sheet, framing: Framing) -> String {
    let mut head = format!("HTTP/1.1 {} {}\r\n", sheet.status, reason(sheet.status));
    let is_set = |name: &str| sheet.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut field = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    for (name, value) in &sheet.headers {
        field(name, value);
    }
    if !sheet.content_type.is_empty() && !is_set("content-type") {
        field("content-type", sheet.content_type);
    }
    match framing {
        Framing::Length if !is_set("content-length") && !matches!(sheet.status, 204 | 304) => {
            let length: usize = sheet.parts.iter().map(|(_, bytes)| bytes.len()).sum();
            field("content-length", &length.to_string());
        }
        Framing::Chunked if !is_set("transfer-encoding") => field("transfer-encoding", "chunked"),
        Framing::Close if !is_set("connection") => field("connection", "close"),
        _ => {}
    }
    head.push_str("\r\n");
    head
}

/// One write a part; a head and the one part behind it are one write, as servers send plain answers.
fn plain(head: String, mut parts: Vec<(Duration, Bytes)>) -> Vec<(Duration, Bytes)> {
    parts.retain(|(_, bytes)| !bytes.is_empty());
    if let [(wait, body)] = parts.as_slice()
        && wait.is_zero()
    {
        return vec![(Duration::ZERO, [head.as_bytes(), body].concat().into())];
    }
    parts.insert(0, (Duration::ZERO, head.into()));
    parts
}

/// One write a part, each as a chunk (RFC 9112, section 7.1). The last chunk of a whole body goes
/// out together with the end mark.
fn chunked(head: String, parts: Vec<(Duration, Bytes)>, is_whole: bool) -> Vec<(Duration, Bytes)> {
    const END: &[u8] = b"0\r\n\r\n";
    let mut writes = vec![(Duration::ZERO, Bytes::from(head))];
    // An empty chunk would be the end mark.
    let mut parts = parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()).peekable();
    if is_whole && parts.peek().is_none() {
        writes.push((Duration::ZERO, Bytes::from_static(END)));
    }
    while let Some((wait, bytes)) = parts.next() {
        let size = format!("{:x}\r\n", bytes.len());
        let end = if is_whole && parts.peek().is_none() { END } else { b"" };
        writes.push((wait, [size.as_bytes(), &bytes, b"\r\n", end].concat().into()));
    }
    writes
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        424 => "Failed Dependency",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Mock",
    }
}
