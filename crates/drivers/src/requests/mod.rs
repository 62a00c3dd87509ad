//! Request records in SQLite files: `requests.db`, and `contents.db` where texts are kept.
//!
//! **What is promised.** A record costs the traffic about a microsecond of one core: it is put into a block in memory,
//! and what is written is whole blocks, compressed, by one thread behind the traffic, twice a second or when one is
//! full. Records that are not written yet are found like others. What was written survives the process; a power cut
//! may take the last seconds of it, and nothing more. A disk that is slow, full or gone and a file that another process
//! holds locked make blocks wait in bounded memory; what no longer fits is lost, and counted. A damaged file is set
//! aside under another name, and a new one begun; a block with a flipped bit is passed over.
//!
//! A file holds no more than its bound, and nothing older than its time; the oldest go first. Searches walk from the
//! newest block to the oldest on a thread of their own, and pass over what cannot hold what is asked for.

mod blocks;
mod desk;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use base::Record;
use state::requests::{Bounds, Content, Health, Page, Request, Requests, Search};
use state::{Answer, Unreadable};
use tokio::sync::oneshot;

use desk::Desk;
use reader::{MOST_QUESTIONS, Question, Reply};

use crate::thread::Thread;

/// Request records on disk. Dropped, it writes what it still has, if that can be written at once.
#[derive(Debug)]
pub struct SqliteRequests {
    desk: Arc<Desk>,
    questions: SyncSender<Question>,
    thread: Thread,
}

impl SqliteRequests {
    /// Records within these bounds, in files in this folder, which are made when there is something to write. They are
    /// opened by threads of their own: whatever is wrong with them is told by [`Requests::health`].
    ///
    /// # Errors
    /// The system's, when no thread can be had.
    pub fn open(folder: &Path, bounds: Bounds) -> io::Result<Self> {
        Self::with(folder, Desk::new(bounds))
    }

    fn with(folder: &Path, desk: Desk) -> io::Result<Self> {
        let desk = Arc::new(desk);
        let (questions, asked) = std::sync::mpsc::sync_channel(MOST_QUESTIONS);
        let paths = [folder.join("requests.db"), folder.join("contents.db")];
        let (reading, writing, read_from) = (desk.clone(), desk.clone(), paths.clone());
        std::thread::Builder::new()
            .name("requests-reader".to_owned())
            .spawn(move || reader::read_out(&reading, &read_from, &asked))?;
        let thread = Thread::begin("requests", move || writer::write_out(&writing, paths))?;
        Ok(Self { desk, questions, thread })
    }

    fn ask<T: Send + 'static>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Answer<Result<T, Unreadable>> {
        let (reply, answer) = oneshot::channel();
        if self.questions.try_send(question(reply)).is_err() {
            let told = format!("{MOST_QUESTIONS} questions wait for the records already; ask again in a moment");
            return Answer::Ready(Err(Unreadable(told)));
        }
        Answer::Later(Box::pin(async move {
            let gone = || Unreadable("the thread that reads the records has ended; please report this".to_owned());
            answer.await.unwrap_or_else(|_| Err(gone()))
        }))
    }
}

impl Requests for SqliteRequests {
    fn note(&self, records: &[Record]) {
        self.desk.note(records);
    }

    fn keep(&self, contents: Vec<Content>) {
        self.desk.keep(&contents);
    }

    fn find(&self, request_id: &str) -> Answer<Result<Option<Box<Request>>, Unreadable>> {
        self.ask(|reply| Question::Find(request_id.into(), reply))
    }

    fn content(&self, request_id: &str) -> Answer<Result<Option<Content>, Unreadable>> {
        self.ask(|reply| Question::Content(request_id.into(), reply))
    }

    fn search(&self, search: Search) -> Answer<Result<Page, Unreadable>> {
        self.ask(|reply| Question::Search(Box::new(search), reply))
    }

    fn bound(&self, bounds: Bounds) {
        self.desk.bound(bounds);
    }

    fn health(&self) -> Health {
        self.desk.health()
    }

    fn flush(&self, patience: Duration) -> bool {
        self.desk.flush(patience)
    }

    fn close(&self, patience: Duration) -> bool {
        self.desk.close();
        self.thread.has_ended(patience)
    }
}

impl Drop for SqliteRequests {
    fn drop(&mut self) {
        self.desk.close();
    }
}
