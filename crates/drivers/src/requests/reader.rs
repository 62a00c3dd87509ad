//! The thread that searches, each question in a view of its own, so that nothing waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base::Clock;
use state::Unreadable;
use state::requests::block::{Block, places, print};
use state::requests::reading::{Reader, Searched, content, find, find_content, may_be_in, search as search_block};
use state::requests::{Content, Page, Place, Request, Search};
use tokio::sync::oneshot;

use super::blocks::{Reading, Seen};
use super::desk::{Desk, Which};
use crate::file::Failure;

/// Questions that may wait.
pub(super) const MOST_QUESTIONS: usize = 64;
/// A page is cut after so long, and after so many blocks were unpacked for it.
const PAGE_TIME: Duration = Duration::from_millis(250);
const PAGE_BLOCKS: u32 = 512;
/// Blocks are numbered anew so rarely that the second try has them as they stay.
const TRIES: u32 = 4;
/// One request is looked for so long.
const FIND_TIME: Duration = Duration::from_secs(5);

pub(super) type Reply<T> = oneshot::Sender<Result<T, Unreadable>>;

/// What is asked.
#[derive(Debug)]
pub(super) enum Question {
    Find(Box<str>, Reply<Option<Box<Request>>>),
    Content(Box<str>, Reply<Option<Content>>),
    Search(Box<Search>, Reply<Page>),
}

/// Answers until nobody is left who asks.
pub(super) fn read_out(desk: &Desk, [records, contents]: &[PathBuf; 2], asked: &Receiver<Question>) {
    while let Ok(question) = asked.recv() {
        // Nobody may wait any more, and then nothing need be sent.
        match question {
            Question::Find(id, reply) if !reply.is_closed() => {
                let found = Finding { desk, which: Which::Records, path: records }.find(&id);
                drop(reply.send(told(desk, Which::Records, found)));
            }
            Question::Content(id, reply) if !reply.is_closed() => {
                let found = Finding { desk, which: Which::Contents, path: contents }.content(&id);
                drop(reply.send(told(desk, Which::Contents, found)));
            }
            Question::Search(search, reply) if !reply.is_closed() => {
                let found = Searching::new(*search).page(desk, records);
                drop(reply.send(told(desk, Which::Records, found)));
            }
            _ => {}
        }
    }
}

fn told<T: Default>(desk: &Desk, which: Which, done: Result<T, Failure>) -> Result<T, Unreadable> {
    done.or_else(|failure| match failure {
        // It was removed under the reading.
        _ if !desk.may_tell(which) => Ok(T::default()),
        Failure::Damaged(why) => {
            desk.report_damage(which, why.clone());
            Err(Unreadable(format!("{} is damaged ({why})", which.name())))
        }
        Failure::Full(what) | Failure::Trouble(what) => Err(Unreadable(what)),
    })
}

/// The file. What is kept no more is told nobody from that moment, whenever it is removed.
fn open(desk: &Desk, which: Which, path: &Path) -> Result<Option<Reading>, Failure> {
    if desk.may_tell(which) { Reading::open(path) } else { Ok(None) }
}

/// Looks for one request by its id.
struct Finding<'a> {
    desk: &'a Desk,
    which: Which,
    path: &'a Path,
}

impl Finding<'_> {
    fn find(&self, id: &str) -> Result<Option<Box<Request>>, Failure> {
        let in_block = |block: &Block| find(block, id).map(Box::new);
        self.look(id, in_block, |reading, block, at, body| {
            let reader = Reader::of(&reading.summary(block)?);
            Ok(reader.and_then(|reader| reader.find(body, at, id)).map(Box::new))
        })
    }

    fn content(&self, id: &str) -> Result<Option<Content>, Failure> {
        self.look(id, |block| find_content(block, id), |_, _, at, body| Ok(content(body, at, id)))
    }

    fn look<T>(
        &self,
        id: &str,
        in_memory: impl Fn(&Block) -> Option<T>,
        in_file: impl Fn(&Reading, u64, u32, &[u8]) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        // Before the file: what is written meanwhile is still there.
        let (_, unwritten) = self.desk.unwritten(self.which);
        if let Some(found) = unwritten.iter().find_map(|block| in_memory(block)) {
            return Ok(Some(found));
        }
        let Some(reading) = open(self.desk, self.which, self.path)? else { return Ok(None) };
        let (wanted, until) = (print(id), Clock.now() + FIND_TIME);
        let mut found = None;
        reading.walk_prints(|block, prints| {
            let mut at = places(prints, &wanted).peekable();
            if at.peek().is_some() {
                let body = reading.body(block)?.unwrap_or_default();
                for at in at {
                    found = in_file(&reading, block, at, &body)?;
                    if found.is_some() {
                        return Ok(false);
                    }
                }
            }
            if Clock.now() > until {
                let told =
                    "it was looked for too long: the disk is slow; narrow it down by a search with `since` and `until`";
                return Err(Failure::Trouble(told.to_owned()));
            }
            Ok(true)
        })?;
        Ok(found)
    }
}

/// One page of a search.
struct Searching {
    search: Search,
    page: Page,
    until: Instant,
    /// Blocks of the file.
    looked_at: u32,
    unpacked: u32,
}

/// Blocks in memory, from the newest to the oldest, and the file behind them.
type View = (Vec<Arc<Block>>, Option<Reading>);

/// What there is, each block under one number: those of one that is in memory and in the file are the same, and the
/// file's are less than those of what is in memory alone.
fn view(desk: &Desk, path: &Path) -> Result<View, Failure> {
    let which = Which::Records;
    let mut tries = 0;
    loop {
        // Before the file: what is written meanwhile is still there, and is passed over in the file.
        let (numbering, unwritten) = desk.unwritten(which);
        let reading = open(desk, which, path)?;
        tries += 1;
        if numbering.is_some() && numbering == desk.numbering(which) || tries == TRIES {
            return Ok((unwritten, reading));
        }
        desk.number_first(which, reading.map_or(Ok(0), |reading| reading.last())?);
    }
}

impl Searching {
    fn new(search: Search) -> Self {
        Self { search, page: Page::default(), until: Clock.now() + PAGE_TIME, looked_at: 0, unpacked: 0 }
    }

    fn page(mut self, desk: &Desk, path: &Path) -> Result<Page, Failure> {
        #[cfg(test)]
        desk.trial.hurry(&mut self.until);
        let (unwritten, reading) = view(desk, path)?;
        for block in &unwritten {
            self.page.next = search_block(block, &self.search, &mut self.page.requests);
            if self.page.next.is_some() {
                return Ok(self.page);
            }
        }
        let Some(reading) = reading else { return Ok(self.page) };
        let from = self.search.after.map_or(u64::MAX, |after| after.block);
        reading.walk(from, |seen| {
            if unwritten.iter().any(|block| block.id == seen.id) {
                return Ok(true);
            }
            // However slow the disk is, one block is looked at: whoever follows `next` comes to the end.
            let is_over = self.unpacked >= PAGE_BLOCKS || Clock.now() > self.until;
            if is_over && self.looked_at > 0 {
                self.page.next = Some(Place { block: seen.id, at: u32::MAX });
                return Ok(false);
            }
            self.looked_at += 1;
            self.look(&reading, &seen)?;
            Ok(self.page.next.is_none())
        })?;
        Ok(self.page)
    }

    fn look(&mut self, reading: &Reading, seen: &Seen) -> Result<(), Failure> {
        let search = &self.search;
        if !may_be_in(search, seen.id, seen.times) {
            return Ok(());
        }
        let Some(reader) = Reader::of(&seen.summary).filter(|reader| reader.may_have(search)) else { return Ok(()) };
        if let Some(id) = &search.request_id
            && places(&reading.prints(seen.id)?, &print(id)).next().is_none()
        {
            return Ok(());
        }
        self.unpacked += 1;
        let Some(body) = reading.body(seen.id)? else {
            tracing::warn!(block = seen.id, "a block of request records is damaged: it is passed over");
            return Ok(());
        };
        let before = search.after.filter(|after| after.block == seen.id).map(|after| after.at);
        if let Searched::Cut(at) = reader.search(&body, search, before, &mut self.page.requests) {
            self.page.next = Some(Place { block: seen.id, at });
        }
        Ok(())
    }
}
