//! An answer's body as it comes.

use std::sync::Arc;

use base::{Fault, Kind};
use bytes::{Bytes, BytesMut};

use super::{joined, unfold, unfold_rest};
use crate::bodies::decompress::Decompress;
use crate::live::resources::{Buffered, Share};
use crate::net::Flow;

/// Blanks that are looked behind, bytes.
const MOST_BLANKS: usize = 4 << 10;

/// An answer's body, readable.
pub(super) struct Source {
    pub flow: Flow,
    pub inflate: Option<Decompress>,
    /// What was looked at already.
    pub begun: Option<Bytes>,
    pub ended: bool,
}

impl Source {
    /// The next piece, decompressed; `None` at the clean end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if let Some(begun) = self.begun.take() {
            return Ok(Some(begun));
        }
        if self.ended {
            return Ok(None);
        }
        // Pieces may be a byte each, and always there: the worker's other calls and this one's clock come in between.
        tokio::task::consume_budget().await;
        match self.flow.piece().await {
            Some(Ok(piece)) => unfold(&mut self.inflate, piece).map(Some),
            Some(Err(_broken)) => Err(Fault::upstream(Kind::Reset, "the answer broke off")),
            None => {
                self.ended = true;
                let rest = unfold_rest(&mut self.inflate)?;
                Ok((!rest.is_empty()).then_some(rest))
            }
        }
    }

    /// The first byte that is no blank, left in its place; `None` where there is none.
    pub async fn peek(&mut self) -> Result<Option<u8>, Fault> {
        let mut begun = Bytes::new();
        while begun.trim_ascii_start().is_empty() && begun.len() < MOST_BLANKS {
            match self.next().await? {
                Some(piece) => begun = joined(begun, piece),
                None => break,
            }
        }
        let first = begun.trim_ascii_start().first().copied();
        self.begun = Some(begun);
        Ok(first)
    }

    /// All of it, `most` bytes at most, and what it came by. A large one has its share of what all together may be, for
    /// as long as anybody holds any of it.
    pub async fn whole(mut self, most: usize, all: &Arc<Buffered>) -> Result<(Bytes, Flow), Fault> {
        let announced = self.flow.size_hint().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let mut first = Bytes::new();
        let mut gathered = BytesMut::new();
        let mut share: Option<Share> = None;
        while let Some(piece) = self.next().await? {
            let length = first.len().max(gathered.len()) + piece.len();
            if length > most {
                return Err(Fault::upstream(Kind::BadResponse, "the answer is too large to be one"));
            }
            all.hold(&mut share, length)?;
            if first.is_empty() && gathered.is_empty() {
                first = piece;
                continue;
            }
            if gathered.is_empty() {
                gathered.reserve(announced.min(most).max(length));
                gathered.extend_from_slice(&first);
                first = Bytes::new();
            }
            gathered.extend_from_slice(&piece);
        }
        let body = if gathered.is_empty() { first } else { gathered.freeze() };
        let body = match share {
            None => body,
            Some(share) => share.around(body),
        };
        Ok((body, self.flow))
    }
}
