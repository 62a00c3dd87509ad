//! Answers that are no protocol of ours: sound and transcripts. They pass as they come.

use base::{Fault, Kind};
use bytes::Bytes;
use dialect::{Decode, Progress};

/// Passes every byte.
#[derive(Debug)]
pub struct Raw {
    progress: Progress,
    may_be_empty: bool,
}

impl Raw {
    /// Of an answer that may be nothing, or may not.
    pub fn new(may_be_empty: bool) -> Self {
        Self { progress: Progress::default(), may_be_empty }
    }
}

impl Decode for Raw {
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        self.progress.content |= !chunk.is_empty();
        chunk
    }

    fn finish(&mut self) -> Bytes {
        if !self.progress.content && !self.may_be_empty {
            self.progress.fault = Some(Fault::upstream(Kind::BadResponse, "the upstream's answer is empty"));
            return Bytes::new();
        }
        self.progress.finished = true;
        self.progress.done = true;
        Bytes::new()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}
