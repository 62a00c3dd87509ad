//! A prompt as what it is made of: messages, what counts in them, and what may be left out.

use std::borrow::Cow;

use base::Endpoint;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::Ask;
use crate::images::{self, Image};
use crate::json::{self, Kind, Patch, Span, Value};

/// How retrieved passages are known in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retrieval {
    /// They stand in a text between `<tag>` and `</tag>`.
    Tag(String),
    /// They are messages of this role.
    Role(String),
    /// They are messages with this `name`.
    Name(String),
}

/// A prompt.
#[derive(Debug, Default)]
pub struct Prompt<'a> {
    /// In order. The prompt of a legacy completion is one of the user's.
    pub messages: Vec<Message<'a>>,
    /// Each message is a prompt by itself, which the model reads without the others: the list of a legacy completion.
    pub is_list: bool,
    /// What else the model reads, each field with its name as it stands in the body: definitions of tools and of the
    /// answer's form, and what is to follow a completion.
    pub definitions: SmallVec<[(&'static str, &'a str); 2]>,
}

/// One message.
#[derive(Debug)]
pub struct Message<'a> {
    /// Where it stands in the body; none for what cannot be left out.
    span: Option<Span>,
    /// Who speaks, in the API's words.
    pub role: Cow<'a, str>,
    /// `name`
    pub name: Option<Cow<'a, str>>,
    /// Texts that count.
    pub texts: SmallVec<[Text<'a>; 1]>,
    /// Images.
    pub images: SmallVec<[Image; 1]>,
    /// Sounds and files.
    pub attachments: usize,
    /// What came as token ids: how many.
    pub ids: usize,
    /// Ids of its tool calls; those of the deprecated `function_call` have none.
    pub calls: Vec<Cow<'a, str>>,
    /// The id of the call that it is the result of.
    pub answers: Option<Cow<'a, str>>,
    /// Marked as a retrieved passage by its role or its name.
    pub is_passage: bool,
    /// Where its content stands.
    pub(super) content: Option<Span>,
}

/// A text of a message.
#[derive(Debug)]
pub struct Text<'a> {
    /// Where the element of the content stands that it is in; none where it is the content itself.
    part: Option<Span>,
    /// What stands outside of passages.
    pub own: SmallVec<[Cow<'a, str>; 1]>,
    /// Passages in it.
    pub passages: Vec<Marked<'a>>,
}

/// A passage in a text, its tags included.
#[derive(Debug)]
pub struct Marked<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    span: Span,
    /// Nothing but white space stands between it and the passage before it, which ends here.
    goes_on: Option<usize>,
}

/// Fields that a model reads beside its messages.
const DEFINITIONS: [&str; 4] = ["tools", "functions", "response_format", "suffix"];

impl<'a> Prompt<'a> {
    /// Reads the prompt of a call that generates text; none for other calls.
    #[must_use]
    pub fn read(ask: &'a Ask, retrieval: Option<&Retrieval>) -> Option<Self> {
        let is_text = matches!(ask.endpoint, Endpoint::Chat | Endpoint::Completions) && ask.content_type.is_none();
        if !is_text {
            return None;
        }
        let mut prompt = Self::default();
        // The body was validated when it was read.
        json::scan(&ask.body, |member| match &*member.key {
            "messages" => {
                prompt.messages.extend(member.value.elements().map(|message| Message::read(message, retrieval)));
            }
            "prompt" => {
                let is_prompt = |one: &Value<'_>| matches!(one.kind(), Kind::String | Kind::Array);
                prompt.is_list = member.value.elements().any(|one| is_prompt(&one));
                if prompt.is_list {
                    prompt.messages.extend(member.value.elements().map(|one| Message::completed(one, retrieval)));
                } else {
                    prompt.messages.push(Message::completed(member.value, retrieval));
                }
            }
            key => {
                if let Some(name) = DEFINITIONS.into_iter().find(|name| *name == key && !member.value.is_empty()) {
                    prompt.definitions.push((name, member.value.raw()));
                }
            }
        })
        .ok()?;
        Some(prompt)
    }

    /// The body without these messages (by index) and these passages (by message, counted over its
    /// texts), both ascending. A marked message that is a tool's result leaves its place, empty, for its call must
    /// have one.
    #[must_use]
    pub fn without(&self, body: &Bytes, messages: &[usize], passages: &[(usize, usize)]) -> Bytes {
        let mut patch = Patch::new();
        for message in messages.iter().filter_map(|at| self.messages.get(*at)) {
            if let Some(span) = message.span {
                patch.remove_span(span);
            }
        }
        let last_user = self.messages.iter().rposition(|message| message.role == "user");
        let of_one = passages.chunk_by(|(one, _), (next, _)| one == next);
        for (message, out) in of_one.filter_map(|out| Some((self.messages.get(out.first()?.0)?, out))) {
            let count = message.texts.iter().map(|text| text.passages.len()).sum::<usize>();
            let is_last = out.first().map(|(at, _)| *at) == last_user;
            if let Some(span) = message.span.filter(|_| !is_last && out.len() == count && message.is_left_empty()) {
                // Some providers refuse a message without text.
                patch.remove_span(span);
                continue;
            }
            if message.is_emptied() {
                message.content.into_iter().for_each(|content| patch.replace(content, r#""""#));
                continue;
            }
            // Both in order: a message may hold very many.
            let mut out = out.iter().map(|(_, which)| *which).peekable();
            let mut first = 0;
            let mut parts = message.texts.iter().filter(|text| text.part.is_some()).count();
            for text in &message.texts {
                let behind = first + text.passages.len();
                let gone: SmallVec<[usize; 4]> = std::iter::from_fn(|| out.next_if(|which| *which < behind)).collect();
                match text.part.filter(|_| parts > 1 && gone.len() == text.passages.len() && text.is_only_passages()) {
                    // Some providers refuse a part without text.
                    Some(part) => {
                        parts -= 1;
                        patch.remove_span(part);
                    }
                    None => gone.iter().filter_map(|which| text.passages.get(which - first)).for_each(|marked| {
                        patch.replace(marked.span, "");
                    }),
                }
                first = behind;
            }
        }
        patch.apply(body)
    }

    /// The body without any passage, and without what the message at `question` says, whose content is
    /// null. How many passages there were leaves no trace: what consists of passages alone is gone.
    #[must_use]
    pub(super) fn around(&self, body: &Bytes, question: Option<usize>) -> Bytes {
        let mut patch = Patch::new();
        for (at, message) in self.messages.iter().enumerate() {
            match (message.span, message.content) {
                (_, Some(content)) if question == Some(at) => patch.replace(content, "null"),
                (_, Some(content)) if message.is_emptied() => patch.replace(content, "null"),
                (Some(span), _) if message.is_only_passages() && !message.is_held() => patch.remove_span(span),
                _ => message.texts.iter().for_each(|text| text.leave_out_passages(&mut patch)),
            }
        }
        patch.apply(body)
    }
}

impl<'a> Message<'a> {
    fn of_user() -> Self {
        Self {
            span: None,
            role: Cow::Borrowed("user"),
            name: None,
            texts: SmallVec::new(),
            images: SmallVec::new(),
            attachments: 0,
            ids: 0,
            calls: Vec::new(),
            answers: None,
            is_passage: false,
            content: None,
        }
    }

    /// A prompt that is to be completed: a text, or token ids.
    fn completed(prompt: Value<'a>, retrieval: Option<&Retrieval>) -> Self {
        let mut message = Self::of_user();
        if prompt.kind() == Kind::String {
            message.texts.push(Text::read(prompt, retrieval));
        }
        message.ids = prompt.elements().filter(|one| one.kind() == Kind::Number).count();
        message.content = Some(prompt.span());
        message
    }

    fn read(value: Value<'a>, retrieval: Option<&Retrieval>) -> Self {
        let mut message = Self { span: Some(value.span()), role: Cow::Borrowed(""), ..Self::of_user() };
        for member in value.members() {
            let value = member.value;
            match &*member.key {
                "role" => message.role = value.as_str_lossy().unwrap_or_default(),
                "name" => message.name = value.as_str_lossy(),
                "content" => {
                    message.content = Some(value.span());
                    message.read_content(value, retrieval);
                }
                "tool_call_id" => message.answers = value.as_str_lossy(),
                "tool_calls" => value.elements().for_each(|call| {
                    message.calls.extend(call.get("id").and_then(Value::as_str_lossy));
                    let called = ["function", "custom"].iter().find_map(|kind| call.get(kind));
                    called.into_iter().for_each(|called| message.read_function(called));
                }),
                "function_call" => message.read_function(value),
                "reasoning_content" | "reasoning" | "thinking" | "refusal" => message.text(value),
                _ => {}
            }
        }
        message.is_passage = match retrieval {
            Some(Retrieval::Role(role)) => message.role == role.as_str(),
            Some(Retrieval::Name(name)) => message.name.as_deref() == Some(name),
            Some(Retrieval::Tag(_)) | None => false,
        };
        message
    }

    fn read_content(&mut self, content: Value<'a>, retrieval: Option<&Retrieval>) {
        match content.kind() {
            Kind::String => self.texts.push(Text::read(content, retrieval)),
            Kind::Object => self.unknown(content),
            _ => {}
        }
        for part in content.elements() {
            let read = |text| Text { part: Some(part.span()), ..Text::read(text, retrieval) };
            if part.kind() == Kind::String {
                self.texts.push(read(part));
            }
            for member in part.members() {
                match &*member.key {
                    "text" if member.value.kind() == Kind::String => self.texts.push(read(member.value)),
                    "image_url" => self.images.push(images::read(member.value)),
                    "input_audio" | "file" | "video_url" | "audio_url" => self.attachments += 1,
                    "type" | "cache_control" => {}
                    _ => self.unknown(member.value),
                }
            }
        }
    }

    /// What no API that is known has there counts as it is written: a server may well put it before its model. Where it
    /// holds bytes it is a file.
    fn unknown(&mut self, value: Value<'a>) {
        if has_bytes(value.raw()) {
            self.attachments += 1;
        } else if matches!(value.kind(), Kind::String | Kind::Array | Kind::Object) && !value.is_empty() {
            let text = Cow::Borrowed(value.raw());
            self.texts.push(Text { part: None, own: SmallVec::from_iter([text]), passages: Vec::new() });
        }
    }

    fn read_function(&mut self, function: Value<'a>) {
        for member in function.members() {
            if matches!(&*member.key, "name" | "arguments" | "input") {
                self.text(member.value);
            }
        }
    }

    fn text(&mut self, value: Value<'a>) {
        if let Some(text) = value.as_str_lossy() {
            self.texts.push(Text { part: None, own: SmallVec::from_iter([text]), passages: Vec::new() });
        }
    }

    /// Nothing is left of it without passages.
    #[must_use]
    pub fn is_only_passages(&self) -> bool {
        let has_passages = self.texts.iter().any(|text| !text.passages.is_empty());
        self.is_passage || (has_passages && self.texts.iter().all(Text::is_only_passages) && self.images.is_empty())
    }

    /// Without its passages it would say nothing, and it may go.
    fn is_left_empty(&self) -> bool {
        !self.is_passage && !self.is_held() && self.attachments + self.ids == 0 && self.is_only_passages()
    }

    /// Where it is left out as a passage its text goes and it stays: it is a tool's result.
    #[must_use]
    pub fn is_emptied(&self) -> bool {
        self.is_passage && self.calls.is_empty() && self.is_held()
    }

    /// It may not leave its place: a call waits for it, or it has calls itself.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.answers.is_some() || !self.calls.is_empty() || matches!(&*self.role, "tool" | "function")
    }
}

impl<'a> Text<'a> {
    fn read(value: Value<'a>, retrieval: Option<&Retrieval>) -> Self {
        let mut text = Self { part: None, own: SmallVec::new(), passages: Vec::new() };
        let Some(raw) = value.as_escaped() else { return text };
        let start = value.span().start + 1;
        let mut rest = 0;
        if let Some(Retrieval::Tag(tag)) = retrieval {
            for found in tagged(raw, tag) {
                let (Some(own), Some(marked)) = (raw.get(rest..found.start), raw.get(found.range())) else { break };
                text.own.extend((!own.is_empty()).then(|| json::unescaped(own)));
                let is_blank = json::unescaped(own).trim().is_empty();
                let goes_on = text.passages.last().filter(|_| is_blank).map(|before: &Marked<'_>| before.span.end);
                let span = Span { start: start + found.start, end: start + found.end };
                text.passages.push(Marked { text: json::unescaped(marked), span, goes_on });
                rest = found.end;
            }
        }
        let own = raw.get(rest..).unwrap_or_default();
        text.own.extend((!own.is_empty()).then(|| json::unescaped(own)));
        text
    }

    fn is_only_passages(&self) -> bool {
        !self.passages.is_empty() && self.own.iter().all(|own| own.trim().is_empty())
    }

    fn leave_out_passages(&self, patch: &mut Patch<'_>) {
        if let Some(part) = self.part.filter(|_| self.is_only_passages()) {
            return patch.remove_span(part);
        }
        for passage in &self.passages {
            patch.replace(Span { start: passage.goes_on.unwrap_or(passage.span.start), ..passage.span }, "");
        }
    }
}

/// Whether so many letters of base64 follow each other as no text has.
fn has_bytes(json: &str) -> bool {
    const NO_TEXT: usize = 1_024;
    let is_other = |byte: &u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'='));
    json.len() >= NO_TEXT && json.as_bytes().split(is_other).any(|run| run.len() >= NO_TEXT)
}

/// Where `<tag …>…</tag>` stands in a string as JSON writes it. What is not closed is none.
fn tagged(raw: &str, tag: &str) -> Vec<Span> {
    let mut found = Vec::new();
    if memchr::memmem::find(raw.as_bytes(), tag.as_bytes()).is_none() {
        return found;
    }
    let mut open = None;
    let mut at = 0;
    while let Some(place) = raw.get(at..).and_then(|rest| memchr::memchr2(b'<', b'\\', rest.as_bytes())) {
        let start = at + place;
        let Some((letter, behind)) = letter(raw, start) else { break };
        at = behind;
        if letter != '<' {
            continue;
        }
        match (open, mark(raw, behind, tag)) {
            (None, Some((false, end))) => (open, at) = (Some(start), end),
            (Some(begin), Some((true, end))) => {
                found.push(Span { start: begin, end });
                (open, at) = (None, end);
            }
            _ => {}
        }
    }
    found
}

/// The character at a place of a string as JSON writes it, and where the next one begins.
fn letter(raw: &str, at: usize) -> Option<(char, usize)> {
    let rest = raw.get(at..)?;
    let first = rest.chars().next()?;
    if first != '\\' {
        return Some((first, at + first.len_utf8()));
    }
    match rest.as_bytes().get(1)? {
        b'u' => {
            let unit = u32::from_str_radix(rest.get(2..6)?, 16).ok()?;
            Some((char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), at + 6))
        }
        other => Some((char::from(*other), at + 2)),
    }
}

/// Whether what follows a `<` is the tag, closing or opening, and where it ends.
fn mark(raw: &str, behind: usize, tag: &str) -> Option<(bool, usize)> {
    let (mut next, mut at) = letter(raw, behind)?;
    let is_closing = next == '/';
    if is_closing {
        (next, at) = letter(raw, at)?;
    }
    for wanted in tag.chars() {
        if next != wanted {
            return None;
        }
        (next, at) = letter(raw, at)?;
    }
    // Attributes may follow an opening tag.
    if !(next == '>' || next.is_whitespace() || (next == '/' && !is_closing)) {
        return None;
    }
    while next != '>' {
        if next == '<' {
            return None;
        }
        (next, at) = letter(raw, at)?;
    }
    Some((is_closing, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages(body: &str, tag: &str) -> Vec<String> {
        let value = json::parse(body.as_bytes()).expect("valid JSON");
        let text = Text::read(value, Some(&Retrieval::Tag(tag.into())));
        text.passages.into_iter().map(|marked| marked.text.into_owned()).collect()
    }

    #[test]
    fn passages_are_known_however_json_writes_them() {
        for (body, expected) in [
            (r#""a<context>b</context>c""#, vec!["<context>b</context>"]),
            (r#""\u003ccontext\u003eb\u003c/context\u003e""#, vec!["<context>b</context>"]),
            (r#""<context>b<\/context>""#, vec!["<context>b</context>"]),
            (r#""<context id=\"1\">你\n好</context>""#, vec!["<context id=\"1\">你\n好</context>"]),
            (
                r#""<context>a</context> and <context>b</context>""#,
                vec!["<context>a</context>", "<context>b</context>"],
            ),
            (r#""<context>a<context>b</context>""#, vec!["<context>a<context>b</context>"]),
            (r#""<contexts>b</contexts>""#, vec![]),
            (r#""\\u003ccontext>b</context>""#, vec![]),
            (r#""<context>b""#, vec![]),
            (r#""b</context>""#, vec![]),
            (r#""<context""#, vec![]),
            (r#""<\ud83d\ude42><context>\ud83d\ude42</context>""#, vec!["<context>🙂</context>"]),
        ] {
            assert_eq!(passages(body, "context"), expected, "{body}");
        }
    }

    #[test]
    fn what_is_left_out_leaves_the_rest_as_it_was() {
        let body = concat!(
            r#"{"model":"m", "messages" : [ {"role":"system","content":"s"} , {"role":"user","content":"old"},"#,
            r#" {"role":"user","x":1.50,"content":[{"type":"text","text":"q <c>one</c><c>tw\u006f</c>"}]} ] }"#
        );
        let ask = Ask::read(Endpoint::Chat, None, Bytes::from(body)).expect("a call");
        let tag = Retrieval::Tag("c".into());
        let prompt = Prompt::read(&ask, Some(&tag)).expect("a prompt");
        assert_eq!(prompt.without(&ask.body, &[], &[]), body);
        let cut = prompt.without(&ask.body, &[1], &[(2, 1)]);
        let expected = concat!(
            r#"{"model":"m", "messages" : [ {"role":"system","content":"s"} , "#,
            r#"{"role":"user","x":1.50,"content":[{"type":"text","text":"q <c>one</c>"}]} ] }"#
        );
        assert_eq!(String::from_utf8_lossy(&cut), expected);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange_to_be_cut(text in r#"(<c>|</c>|<c |>|\\\\|\\u003c|\\u003C/c>|\\/|[a-z🙂知]){0,24}"#) {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
            if let Ok(ask) = Ask::read(Endpoint::Chat, None, Bytes::from(body.clone())) {
                let tag = Retrieval::Tag("c".into());
                let prompt = Prompt::read(&ask, Some(&tag)).expect("a prompt");
                let found: Vec<(usize, usize)> =
                    (0..prompt.messages[0].texts[0].passages.len()).map(|which| (0, which)).collect();
                let cut = prompt.without(&ask.body, &[], &found);
                proptest::prop_assert!(json::parse(&cut).is_ok(), "{}", String::from_utf8_lossy(&cut));
                proptest::prop_assert_eq!(found.is_empty(), cut == body.as_bytes());
            }
        }
    }

    fn read(endpoint: Endpoint, body: &str) -> Ask {
        Ask::read(endpoint, None, Bytes::from(body.to_owned())).expect("a call")
    }

    #[test]
    fn no_part_and_no_message_is_left_without_text() {
        let tag = Retrieval::Tag("c".into());
        let without = |messages: &str, passages: &[(usize, usize)]| {
            let ask = read(Endpoint::Chat, &format!(r#"{{"model":"m","messages":[{messages}]}}"#));
            let prompt = Prompt::read(&ask, Some(&tag)).expect("a prompt");
            let cut = prompt.without(&ask.body, &[], passages);
            let all = String::from_utf8_lossy(&cut).into_owned();
            let left = all.strip_prefix(r#"{"model":"m","messages":["#).and_then(|rest| rest.strip_suffix("]}"));
            left.expect("the rest as it was").to_owned()
        };
        let question = r#"{"role":"user","content":"q"}"#;
        let system = r#"{"role":"system","content":"<c>one</c> <c>two</c>"}"#;
        assert_eq!(without(&format!("{system},{question}"), &[(0, 0), (0, 1)]), question);
        assert_eq!(without(&format!("{system},{question}"), &[(0, 0)]).matches("two").count(), 1);
        let parts = r#"{"role":"user","content":[{"type":"text","text":"<c>one</c>"},{"type":"text","text":"q"}]}"#;
        assert_eq!(without(parts, &[(0, 0)]), r#"{"role":"user","content":[{"type":"text","text":"q"}]}"#);
        let alone = r#"{"role":"user","content":[{"type":"text","text":"<c>one</c>"}]}"#;
        assert_eq!(without(alone, &[(0, 0)]), alone.replace("<c>one</c>", ""), "a user's last word keeps its place");
    }

    #[test]
    fn each_text_of_a_list_is_a_prompt_by_itself() {
        for (prompt, is_list, count) in
            [(r#""a""#, false, 1), (r#"["a","b"]"#, true, 2), ("[[1,2],[3]]", true, 2), ("[1,2,3]", false, 1)]
        {
            let ask = read(Endpoint::Completions, &format!(r#"{{"model":"m","prompt":{prompt}}}"#));
            let prompt = Prompt::read(&ask, None).expect("a prompt");
            assert_eq!((prompt.is_list, prompt.messages.len()), (is_list, count));
        }
    }

    #[test]
    fn what_the_model_may_read_counts_whatever_it_is_called() {
        let count = |message: &str| {
            let ask = read(Endpoint::Chat, &format!(r#"{{"model":"m","messages":[{message}]}}"#));
            let prompt = Prompt::read(&ask, None).expect("a prompt");
            let one = prompt.messages.first().expect("a message");
            (one.texts.iter().flat_map(|text| &text.own).map(|own| own.len()).sum::<usize>(), one.attachments)
        };
        for message in [
            r#"{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"TEXT"}}]}"#,
            r#"{"role":"user","content":[{"type":"document","document":{"body":"TEXT"}}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":{"value":"TEXT"}}]}"#,
            r#"{"role":"user","content":{"text":"TEXT"}}"#,
            r#"{"role":"assistant","content":"","reasoning":"TEXT"}"#,
        ] {
            let (bytes, attachments) = count(&message.replace("TEXT", &"so much ".repeat(200)));
            assert!(bytes >= 1_600 && attachments == 0, "{bytes}: {message}");
        }
        let bytes = r#"{"role":"user","content":[{"type":"image","source":{"data":"TEXT"}}]}"#;
        assert_eq!(count(&bytes.replace("TEXT", &"QUJD".repeat(1_000))), (0, 1));
    }

    #[test]
    fn a_marked_result_of_a_tool_leaves_its_place() {
        let body = r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"found"}]}"#;
        let ask = Ask::read(Endpoint::Chat, None, Bytes::from(body)).expect("a call");
        let role = Retrieval::Role("tool".into());
        let prompt = Prompt::read(&ask, Some(&role)).expect("a prompt");
        assert!(prompt.messages[0].is_passage && prompt.messages[0].is_held());
        assert_eq!(prompt.without(&ask.body, &[], &[(0, 0)]), body.replace("found", ""));
    }
}
