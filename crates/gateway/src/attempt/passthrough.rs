//! Answers that are no protocol of ours: audio, images. They pass as they come.

use bytes::Bytes;
use dialect::{Decode, Progress};

/// Passes every byte.
#[derive(Debug, Default)]
pub struct Raw(Progress);

impl Decode for Raw {
    fn feed(&mut self, chunk: Bytes) -> Bytes {
        self.0.content |= !chunk.is_empty();
        chunk
    }

    fn finish(&mut self) -> Bytes {
        self.0.finished = true;
        self.0.done = true;
        Bytes::new()
    }

    fn progress(&self) -> &Progress {
        &self.0
    }
}
