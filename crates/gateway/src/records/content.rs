//! What was said: the texts of calls and of their answers, where `records.content` asks for them.
//!
//! A call leaves the bytes of its body, and what is heard of its answer as that goes out; the rest is done by a thread of
//! its own: texts are read out of them, keys and whatever `records.mask` matches are blanked, and what remains is handed
//! to the store of records. Where it is off, a call looks at one flag.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base::{Endpoint, Record, Secret};
use bytes::Bytes;
use config::Snapshot;
use dialect::Ask;
use dialect::texts::{self, Text, Transcript};
use state::Requests;
use state::requests::Content;

use crate::cache::stored;
use crate::running::Running;
use crate::semantic_cache::questions::Near;

/// Bytes of a text that are kept at most.
const MOST: usize = 64 << 10;
/// Beyond that is read what a key at the end of a text may have more: else half of it would go unknown.
const MARGIN: usize = 4 << 10;
/// Bytes of bodies and answers that wait for the thread at most.
const MOST_WAITING: usize = 64 << 20;

/// Where texts wait to be kept.
#[derive(Debug)]
pub struct Contents(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    is_on: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
    lost: AtomicU64,
    records: Arc<dyn Requests>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Raw>,
    bytes: usize,
}

/// What is heard of one call.
struct Raw {
    request_id: Box<str>,
    time: Duration,
    endpoint: Endpoint,
    /// The call's body as it came; none of a form.
    body: Bytes,
    answer: Answer,
    /// The stored answer that came nearest to it.
    near: Option<Near>,
    /// The key that the caller has shown.
    shown: Vec<Secret>,
    /// Knows the gateway's own secrets, and the patterns.
    running: Arc<Running>,
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raw").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

enum Answer {
    None,
    Whole(Bytes),
    Said(Text),
}

impl Raw {
    fn size(&self) -> usize {
        let answer = match &self.answer {
            Answer::None => 0,
            Answer::Whole(body) => body.len(),
            Answer::Said(text) => text.text.len(),
        };
        let near = self.near.as_ref().map_or(0, |near| {
            let answer = near.answer.as_ref().map_or(0, |answer| answer.body.len());
            near.question.len() + near.known.len() + answer
        });
        self.body.len() + answer + near + 512
    }
}

impl Contents {
    pub(crate) fn new(records: Arc<dyn Requests>, is_on: bool) -> Self {
        Self(Arc::new(Shared {
            is_on: AtomicBool::new(is_on),
            queue: Mutex::default(),
            changed: Condvar::new(),
            lost: AtomicU64::new(0),
            records,
        }))
    }

    /// Begins or ceases to keep texts.
    pub(crate) fn turn(&self, is_on: bool) {
        self.0.is_on.store(is_on, Relaxed);
    }

    /// Starts the thread that keeps them.
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn employ(&self) -> std::io::Result<()> {
        let shared = Arc::downgrade(&self.0);
        std::thread::Builder::new().name("texts".to_owned()).spawn(move || keep_working(&shared)).map(drop)
    }

    /// Keeps everything that waits now. Not for workers.
    pub fn work_off(&self) {
        self.0.work_off();
    }

    /// Texts that were lost since the start, because too many waited.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }

    /// Whether texts are kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_on.load(Relaxed)
    }

    /// What is asked here is to be kept, and what it is answered, by the request of this record, which has shown these
    /// keys.
    #[must_use]
    pub fn listen(&self, ask: &Ask, running: &Arc<Running>, record: &Record, shown: Vec<Secret>) -> Arc<CallContent> {
        let raw = Raw {
            request_id: (*record.request_id).into(),
            time: record.time,
            endpoint: ask.endpoint,
            body: if ask.content_type.is_none() { ask.body.clone() } else { Bytes::new() },
            answer: Answer::None,
            near: None,
            shown,
            running: running.clone(),
        };
        Arc::new(CallContent { raw: Mutex::new(Some(raw)), shared: self.0.clone() })
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, raw: Raw) {
        let size = raw.size();
        let mut queue = self.queue();
        if queue.bytes + size > MOST_WAITING {
            drop(queue);
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes += size;
        queue.waiting.push_back(raw);
        drop(queue);
        self.changed.notify_all();
    }

    fn work_off(&self) {
        loop {
            let Some(raw) = self.queue().waiting.pop_front() else { return };
            self.records.keep(vec![content(&raw)]);
            // Counted until it is done, so that what is held is bounded.
            let mut queue = self.queue();
            queue.bytes = queue.bytes.saturating_sub(raw.size());
        }
    }
}

/// How long the thread waits before it looks whether anybody is left.
const LOOK: Duration = Duration::from_secs(1);

fn keep_working(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        shared.work_off();
        drop(shared.changed.wait_timeout_while(shared.queue(), LOOK, |queue| queue.waiting.is_empty()));
    }
}

/// A call's texts, without what must not be kept.
fn content(raw: &Raw) -> Content {
    let most = MOST + MARGIN;
    let asked = texts::of_call(raw.endpoint, &raw.body, most);
    let answered = match &raw.answer {
        Answer::None => Text::default(),
        Answer::Whole(body) => texts::of_answer(body, most),
        Answer::Said(text) => text.clone(),
    };
    let mut is_cut = asked.is_cut || answered.is_cut;
    let snapshot = &raw.running.snapshot;
    let mut blank = |text: Text| {
        let shown = raw.shown.iter().map(Secret::expose);
        let blanked = snapshot.general.records.mask.blank(text.text, shown.chain(snapshot.secrets()));
        let fits = blanked.floor_char_boundary(MOST);
        is_cut |= fits < blanked.len();
        Box::<str>::from(blanked.get(..fits).unwrap_or_default())
    };
    let (prompt, answer) = (blank(asked), blank(answered));
    let near = raw.near.as_ref().map(|near| {
        let mut within = |text: &str| {
            let mut cut = Text::within(most);
            cut.push(text);
            others(snapshot, &mut cut);
            blank(cut)
        };
        let (question, known) = (within(&near.question), within(&near.known));
        let body = near.answer.as_ref().and_then(|stored| Some(stored::body(stored, stored::read(&stored.body)?.0)));
        let answer = body.map(|body| texts::of_answer(&body, most)).map(|mut answer| {
            others(snapshot, &mut answer);
            blank(answer)
        });
        let answer = answer.unwrap_or_default();
        let withheld = near.withheld.map(Into::into);
        Box::new(state::requests::Near { question, known, answer, similarity: near.similarity, withheld })
    });
    Content { request_id: raw.request_id.clone(), time: raw.time, prompt, answer, is_cut, near }
}

/// Blanks the keys of any client in what may be another caller's: which ones that one has shown nobody remembers, and the
/// configuration knows them by their hashes alone.
fn others(snapshot: &Snapshot, text: &mut Text) {
    let is_key = |word: &str| snapshot.client_with(&snapshot.keys.hasher().of_key(word.as_bytes())).is_some();
    let between = |sign: char| sign.is_whitespace() || "\"'`,;()[]{}<>，。；：？！、（）「」".contains(sign);
    let mut keys: Vec<String> = Vec::new();
    for piece in text.text.split(between) {
        let word = piece.trim_end_matches(['.', ':', '?', '!']);
        let behind = word.split_once(['=', ':']).map_or("", |(_, value)| value);
        keys.extend([word, behind].into_iter().filter(|word| !word.is_empty() && is_key(word)).map(str::to_owned));
    }
    for key in keys {
        text.text = text.text.replace(&key, texts::BLANK);
    }
}

/// What is kept of one call's texts. Once nobody has it any more, what it has heard is kept: also of a call whose caller left.
#[derive(Debug)]
pub struct CallContent {
    raw: Mutex<Option<Raw>>,
    shared: Arc<Shared>,
}

impl CallContent {
    fn hear(&self, answer: Answer) {
        if let Some(raw) = &mut *self.raw.lock().unwrap_or_else(PoisonError::into_inner) {
            raw.answer = answer;
        }
    }

    /// Hears of the stored answer that came nearest.
    pub fn hear_near(&self, near: Near) {
        if let Some(raw) = &mut *self.raw.lock().unwrap_or_else(PoisonError::into_inner) {
            raw.near = Some(near);
        }
    }

    /// Hears a whole answer.
    pub fn hear_whole(&self, body: Bytes) {
        self.hear(Answer::Whole(body));
    }
}

impl Drop for CallContent {
    fn drop(&mut self) {
        let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        raw.into_iter().for_each(|raw| self.shared.put(raw));
    }
}

/// Listens to an answer that comes piece by piece.
#[derive(Debug)]
pub struct Listener {
    transcript: Option<Transcript>,
    content: Arc<CallContent>,
}

impl Listener {
    /// For a call whose content is kept.
    #[must_use]
    pub fn of(content: Arc<CallContent>) -> Self {
        Self { transcript: Some(Transcript::within(MOST + MARGIN)), content }
    }

    /// The next piece, as the caller gets it.
    pub fn hear(&mut self, piece: &Bytes) {
        if let Some(transcript) = &mut self.transcript {
            transcript.feed(piece);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(transcript) = self.transcript.take() {
            self.content.hear(Answer::Said(transcript.said()));
        }
    }
}
