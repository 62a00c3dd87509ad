//! The callers: each with a connection of its own, asking at its pace, and judging what it gets as a client would.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base::Clock;
use serde_json::Value;
use testkit::{Answer, Ask, Caller, sse};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::evidence::{Ending, Told};
use crate::incident::{Call, DEADLINE, Group, Incident, key_of};

/// After so much more than the deadline a caller gives up; nobody should have to.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause of an SDK before it repeats a call.
const REPEAT_AFTER: Duration = Duration::from_millis(50);

/// The texts that a ranking is asked for.
const DOCUMENTS: [&str; 4] = ["leave of absence", "travel expenses", "tax returns", "office keys"];

/// One caller of a group.
#[derive(Clone, Copy)]
struct Seat {
    incident: &'static Incident,
    group: usize,
    number: u32,
}

/// Lets an incident's callers ask until its end.
pub(crate) async fn play(incident: &'static Incident, gateway: SocketAddr, began: Instant) -> Vec<Told> {
    let mut callers = JoinSet::new();
    for (group, callers_of) in incident.groups.iter().enumerate() {
        for number in 0..callers_of.callers {
            let seat = Seat { incident, group, number };
            callers.spawn(async move { seat.ask_on(callers_of, gateway, began).await });
        }
    }
    let mut told = Vec::new();
    while let Some(calls) = callers.join_next().await {
        told.extend(calls.unwrap_or_default());
    }
    told.sort_by_key(|call| call.at);
    told
}

impl Seat {
    async fn ask_on(self, group: &Group, gateway: SocketAddr, began: Instant) -> Vec<Told> {
        let offset = if group.in_step { Duration::ZERO } else { group.every * self.number / group.callers };
        let mut told = Vec::new();
        let mut connection = None;
        let mut turn = 0;
        loop {
            let elapsed = Clock.now().saturating_duration_since(began);
            // Turns that passed while the last call ran are left out.
            while offset + group.every * turn < elapsed {
                turn += 1;
            }
            let due = offset + group.every * turn;
            if due >= self.incident.length {
                return told;
            }
            tokio::time::sleep_until((began + due).into()).await;
            let ask = self.ask(group, turn);
            for _ in 0..=group.repeats {
                let call = self.call(&ask, &mut connection, (gateway, began)).await;
                let has_failed = matches!(call.ending, Ending::Refused(_) | Ending::Broken(_));
                told.push(call);
                if !has_failed {
                    break;
                }
                tokio::time::sleep(REPEAT_AFTER).await;
            }
            turn += 1;
        }
    }

    fn ask(self, group: &Group, turn: u32) -> Question {
        let id = format!("{}-{}-{}-{turn}", self.incident.name, self.group, self.number);
        let model = self.incident.name;
        // The id in the text keeps any two calls apart.
        let text = format!("What holds for {id}?");
        let is_stream = self.incident.call == Call::Chat && (turn + self.number).is_multiple_of(2);
        let ask = match self.incident.call {
            Call::Chat if is_stream => testkit::chat(model).user(&text).stream(),
            Call::Chat => testkit::chat(model).user(&text),
            Call::Embeddings => testkit::embeddings(model, text),
            Call::Rerank => testkit::rerank(model, &text, DOCUMENTS),
        };
        let ask = ask.key(&key_of(group.client)).header("x-request-id", &id);
        let ask = if group.has_side_effects { ask.header("x-mai-side-effects", "true") } else { ask };
        Question { ask, id, call: self.incident.call, is_stream }
    }

    async fn call(
        self,
        question: &Question,
        connection: &mut Option<Caller<TcpStream>>,
        (gateway, began): (SocketAddr, Instant),
    ) -> Told {
        let sent = Clock.now();
        let leaves_after = self.incident.groups.get(self.group).and_then(|group| group.leaves_after);
        let patience = leaves_after.unwrap_or(DEADLINE + PATIENCE);
        // Given up, it takes its connection with it.
        let answered = tokio::time::timeout(patience, answer(&question.ask, connection, gateway)).await;
        let (status, attempts, ending) = match answered {
            Ok(Ok(answer)) => {
                let attempts = answer.header("x-mai-attempts").and_then(|count| count.parse().ok()).unwrap_or(0);
                (answer.status, attempts, judge(question, &answer))
            }
            Ok(Err(what)) => (0, 0, Ending::Broken(what)),
            Err(_) if leaves_after.is_some() => (0, 0, Ending::Left),
            Err(_) => (0, 0, Ending::Broken("no answer long after the deadline".to_owned())),
        };
        let (at, took) = (sent.saturating_duration_since(began), Clock.now().saturating_duration_since(sent));
        Told { group: self.group, id: question.id.clone(), at, took, status, attempts, ending }
    }
}

/// A call and what is needed to judge its answer.
struct Question {
    ask: Ask,
    id: String,
    call: Call,
    is_stream: bool,
}

async fn answer(ask: &Ask, connection: &mut Option<Caller<TcpStream>>, gateway: SocketAddr) -> Result<Answer, String> {
    let mut caller = match connection.take() {
        Some(caller) => caller,
        None => {
            let stream = TcpStream::connect(gateway).await.map_err(|error| format!("no connection: {error}"))?;
            let _ = stream.set_nodelay(true);
            Caller::on(stream)
        }
    };
    caller.begin(ask).await;
    let answer = caller.answer().await.map_err(|error| format!("no answer: {error}"))?;
    if answer.is_whole && answer.header("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close")) {
        *connection = Some(caller);
    }
    Ok(answer)
}

fn judge(question: &Question, answer: &Answer) -> Ending {
    if !answer.is_whole {
        return Ending::Broken("the answer broke off".to_owned());
    }
    if answer.header("x-request-id") != Some(question.id.as_str()) {
        return Ending::Broken("another call's x-request-id".to_owned());
    }
    if answer.status != 200 {
        let code = serde_json::from_slice::<Value>(&answer.body).ok().and_then(|body| error_code(&body));
        return code.map_or_else(|| Ending::Broken("an error in no known form".to_owned()), Ending::Refused);
    }
    if question.is_stream {
        return judge_stream(answer);
    }
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
        return Ending::Broken("a body that is no JSON".to_owned());
    };
    let is_right = match question.call {
        Call::Chat => {
            let choice = body.pointer("/choices/0");
            let text = choice.and_then(|choice| choice.pointer("/message/content")).and_then(Value::as_str);
            text.is_some_and(|text| !text.is_empty())
                && choice.is_some_and(|choice| choice["finish_reason"].is_string())
        }
        Call::Embeddings => {
            body.pointer("/data/0/embedding").and_then(Value::as_array).is_some_and(|vector| vector.len() == 8)
        }
        Call::Rerank => return judge_ranking(answer, &body),
    };
    if is_right { Ending::Right } else { Ending::Broken("a 200 without an answer".to_owned()) }
}

fn error_code(body: &Value) -> Option<String> {
    let error = body.get("error")?;
    error.get("message")?.as_str()?;
    error.get("code")?.as_str().map(str::to_owned)
}

fn judge_stream(answer: &Answer) -> Ending {
    if std::str::from_utf8(&answer.body).is_err() {
        return Ending::Broken("a stream that is no text".to_owned());
    }
    let parsed = sse::parse(&answer.body);
    let chunks = || parsed.events.iter().map(sse::Event::json);
    if let Some(error) = chunks().find_map(|chunk| error_code(&chunk)) {
        return Ending::Broken(format!("a stream that broke off with {error}"));
    }
    let has_content = chunks().any(|chunk| {
        let content = chunk.pointer("/choices/0/delta/content").and_then(Value::as_str);
        content.is_some_and(|text| !text.is_empty())
    });
    match parsed.is_done() && has_content {
        true => Ending::Right,
        false => Ending::Broken("a stream without an end or without content".to_owned()),
    }
}

fn judge_ranking(answer: &Answer, body: &Value) -> Ending {
    let results = body.get("results").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if results.len() != DOCUMENTS.len() {
        return Ending::Broken(format!("{} results for {} documents", results.len(), DOCUMENTS.len()));
    }
    match (answer.header("x-mai-degraded"), body.get("degraded").and_then(Value::as_bool)) {
        (None, None | Some(false)) => Ending::Right,
        (Some(_), Some(true)) => {
            let is_given_order = results.iter().enumerate().all(|(at, result)| {
                let index = result.get("index").and_then(Value::as_u64);
                let score = result.get("relevance_score").and_then(Value::as_f64);
                index == Some(at as u64) && score == Some(0.0)
            });
            match is_given_order {
                true => Ending::Degraded,
                false => Ending::Broken("a degraded ranking that is not the given order".to_owned()),
            }
        }
        _ => Ending::Broken("degraded by header or body alone".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(call: Call, is_stream: bool) -> Question {
        Question { ask: testkit::get("/"), id: "a".to_owned(), call, is_stream }
    }

    fn answer(status: u16, body: impl AsRef<[u8]>) -> Answer {
        let headers = vec![("x-request-id".to_owned(), "a".to_owned())];
        Answer { status, headers, body: body.as_ref().to_vec(), is_whole: true }
    }

    fn is_broken(ending: &Ending) -> bool {
        matches!(ending, Ending::Broken(_))
    }

    #[test]
    fn an_answer_is_right_only_where_it_answers() {
        let sound = json!({"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}).to_string();
        let asked = question(Call::Chat, false);
        assert_eq!(judge(&asked, &answer(200, &sound)), Ending::Right);
        assert!(is_broken(&judge(&asked, &answer(200, "{}"))));
        assert!(is_broken(&judge(&asked, &answer(200, "no JSON"))));
        assert!(is_broken(&judge(&asked, &Answer { is_whole: false, ..answer(200, &sound) })));
        assert!(is_broken(&judge(&asked, &Answer { headers: Vec::new(), ..answer(200, &sound) })));
        let vectors = json!({"data": [{"embedding": [0, 0, 0, 0, 0, 0, 0, 1]}]}).to_string();
        assert_eq!(judge(&question(Call::Embeddings, false), &answer(200, vectors)), Ending::Right);
    }

    #[test]
    fn an_error_is_a_refusal_only_in_the_known_form() {
        let asked = question(Call::Chat, false);
        let error = json!({"error": {"message": "no", "type": "api_error", "param": null, "code": "upstream_error"}});
        assert_eq!(judge(&asked, &answer(502, error.to_string())), Ending::Refused("upstream_error".to_owned()));
        assert!(is_broken(&judge(&asked, &answer(502, "Bad Gateway"))));
    }

    #[test]
    fn a_stream_is_right_with_content_and_an_end_and_without_an_error() {
        let asked = question(Call::Chat, true);
        let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
        assert_eq!(judge(&asked, &answer(200, format!("{chunk}data: [DONE]\n\n"))), Ending::Right);
        assert!(is_broken(&judge(&asked, &answer(200, chunk))));
        assert!(is_broken(&judge(&asked, &answer(200, "data: [DONE]\n\n"))));
        let error = "data: {\"error\":{\"message\":\"cut\",\"code\":\"upstream_error\"}}\n\n";
        assert!(is_broken(&judge(&asked, &answer(200, format!("{chunk}{error}")))));
    }

    #[test]
    fn a_degraded_ranking_says_so_twice_and_keeps_the_order() {
        let asked = question(Call::Rerank, false);
        let ranking = |score: f64, degraded: bool| {
            let results: Vec<Value> = (0..4).map(|at| json!({"index": at, "relevance_score": score})).collect();
            json!({"results": results, "degraded": degraded}).to_string()
        };
        let with_header = |body: String| {
            let mut answer = answer(200, body);
            answer.headers.push(("x-mai-degraded".to_owned(), "upstream_timeout".to_owned()));
            answer
        };
        assert_eq!(judge(&asked, &with_header(ranking(0.0, true))), Ending::Degraded);
        assert_eq!(judge(&asked, &answer(200, ranking(0.5, false))), Ending::Right);
        assert!(is_broken(&judge(&asked, &answer(200, ranking(0.0, true)))));
        assert!(is_broken(&judge(&asked, &with_header(ranking(0.5, true)))));
    }
}
