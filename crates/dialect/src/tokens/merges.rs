//! Byte-pair encoding, counted: which neighbours of a piece of text would become one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::vocabulary::Vocabulary;

/// A piece beyond so many bytes is counted in blocks. In a block all neighbours are searched for the next
/// merge, which up to here is faster than anything clever.
const BLOCK: usize = 256;
/// The end of a block that another cut might divide in other ways.
const UNSURE: usize = 32;
/// The length of a block of white space, whose tokens are long; other pieces beyond it, which no text has,
/// are counted in halves of a block.
const BLANKS: usize = 4096;
/// The rank of neighbours that are never merged.
const NEVER: u32 = u32::MAX;

/// A byte-pair encoding's vocabulary, and what its pieces are made of.
#[derive(Debug)]
pub(super) struct Merges {
    vocabulary: Vocabulary,
    /// Pieces begin as characters; else as bytes.
    is_of_chars: bool,
    /// A character without a token of its own is as many tokens as it has bytes; else one, that for
    /// what is unknown.
    falls_back: bool,
}

impl Merges {
    /// Pieces begin as bytes.
    pub(super) const fn of_bytes(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, is_of_chars: false, falls_back: false }
    }

    /// Pieces begin as characters.
    pub(super) const fn of_chars(vocabulary: Vocabulary, falls_back: bool) -> Self {
        Self { vocabulary, is_of_chars: true, falls_back }
    }

    /// How many tokens a piece is.
    pub(super) fn count(&self, piece: &str) -> u64 {
        if piece.is_empty() {
            return 0;
        }
        if self.vocabulary.rank(piece.as_bytes()).is_some() {
            return 1;
        }
        if piece.len() <= BLOCK {
            return self.weigh(piece.as_bytes(), &self.merge(piece));
        }
        if piece.starts_with(char::is_whitespace) {
            return self.count_blanks(piece);
        }
        let most = if piece.len() > BLANKS { BLOCK / 2 } else { BLOCK };
        let (mut rest, mut count) = (piece, 0);
        // Long runs are mostly of one kind: what was counted just before need not be counted again.
        let mut last = ("", 0, 0);
        while rest.len() > most {
            let (block, _) = rest.split_at(rest.floor_char_boundary(most));
            if block != last.0 {
                let starts = self.merge(block);
                // Where a token ends that the cut behind it cannot have changed, the next block begins; not
                // within a character, which may be several tokens.
                let is_sure = |start: usize| start + UNSURE <= block.len() && block.is_char_boundary(start);
                let sure = starts.iter().rposition(|start| is_sure(usize::from(*start)));
                let sure = sure.filter(|sure| *sure > 0).unwrap_or(starts.len() - 1);
                let end = starts.get(sure).map_or(block.len(), |end| usize::from(*end));
                last = (block, end, self.weigh(block.as_bytes(), starts.get(..=sure).unwrap_or_default()));
            }
            count += last.2;
            rest = rest.split_at_checked(last.1).map_or("", |(_, behind)| behind);
        }
        count + self.weigh(rest.as_bytes(), &self.merge(rest))
    }

    fn count_blanks(&self, piece: &str) -> u64 {
        let (mut rest, mut count) = (piece, 0);
        let mut last = ("", 0);
        while !rest.is_empty() {
            let (block, behind) = rest.split_at(rest.floor_char_boundary(BLANKS.min(rest.len())));
            if block != last.0 {
                last = (block, self.count_chain(block));
            }
            count += last.1;
            rest = behind;
        }
        count
    }

    /// Where the units begin that a piece is made of.
    fn units<'p>(&self, piece: &'p str) -> impl Iterator<Item = usize> + use<'p> {
        let is_of_chars = self.is_of_chars;
        (0..piece.len()).filter(move |at| !is_of_chars || piece.is_char_boundary(*at))
    }

    #[inline]
    fn rank(&self, piece: &[u8], start: usize, end: usize) -> u32 {
        piece.get(start..end).and_then(|pair| self.vocabulary.rank(pair)).unwrap_or(NEVER)
    }

    /// What a part that nothing was merged with any more counts as.
    fn weight(&self, part: &[u8]) -> u64 {
        let is_unknown = self.falls_back && self.vocabulary.rank(part).is_none();
        if is_unknown { part.len() as u64 } else { 1 }
    }

    /// The tokens of a block at most [`BLOCK`] long: where each begins, and where the last one ends.
    fn merge(&self, piece: &str) -> SmallVec<[u16; 128]> {
        let bytes = piece.as_bytes();
        let mut starts: SmallVec<[u16; 128]> = self.units(piece).map(|at| at as u16).collect();
        starts.push(bytes.len() as u16);
        let pair = |starts: &[u16], index: usize| match (starts.get(index), starts.get(index + 2)) {
            (Some(start), Some(end)) => self.rank(bytes, usize::from(*start), usize::from(*end)),
            _ => NEVER,
        };
        let mut ranks: SmallVec<[u32; 128]> = (0..starts.len()).map(|index| pair(&starts, index)).collect();
        // The least alone first: a search without places is one that the machine does by the dozen.
        while let Some(rank) = Some(least(&ranks)).filter(|rank| *rank != NEVER)
            && let Some(best) = ranks.iter().position(|other| *other == rank)
        {
            starts.remove(best + 1);
            ranks.remove(best + 1);
            for changed in [Some(best), best.checked_sub(1)].into_iter().flatten() {
                let rank = pair(&starts, changed);
                if let Some(place) = ranks.get_mut(changed) {
                    *place = rank;
                }
            }
        }
        starts
    }

    /// How many tokens parts count as that begin and end at these places.
    fn weigh(&self, bytes: &[u8], starts: &[u16]) -> u64 {
        if !self.falls_back {
            return (starts.len() as u64).saturating_sub(1);
        }
        let parts = starts.iter().zip(starts.iter().skip(1));
        parts.map(|(start, end)| self.weight(bytes.get((*start).into()..(*end).into()).unwrap_or_default())).sum()
    }

    fn count_chain(&self, piece: &str) -> u64 {
        let mut chain = Chain::new(self, piece);
        while let Some(Reverse((rank, at))) = chain.heap.pop() {
            chain.merge(rank, at as usize);
        }
        chain.count()
    }
}

/// The least of some ranks, in eight lanes at a time.
fn least(ranks: &[u32]) -> u32 {
    let (lanes, rest) = ranks.as_chunks::<8>();
    let mut least = [NEVER; 8];
    for lane in lanes {
        least.iter_mut().zip(lane).for_each(|(least, rank)| *least = (*least).min(*rank));
    }
    least.iter().chain(rest).copied().min().unwrap_or(NEVER)
}

/// A piece as a chain of parts, with every pair of neighbours that would merge in a heap.
struct Chain<'a> {
    merges: &'a Merges,
    bytes: &'a [u8],
    parts: Vec<Part>,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

/// One part: it ends where the next one begins. Merged into the part before it, it is skipped.
#[derive(Clone, Copy, Default)]
struct Part {
    start: u32,
    before: u32,
    next: u32,
    /// Of the pair with the next part.
    rank: u32,
}

impl<'a> Chain<'a> {
    fn new(merges: &'a Merges, piece: &'a str) -> Self {
        let bytes = piece.as_bytes();
        let mut parts: Vec<Part> = Vec::with_capacity(bytes.len() + 1);
        for (index, start) in merges.units(piece).chain([bytes.len()]).enumerate() {
            let index = index as u32;
            parts.push(Part { start: start as u32, before: index.wrapping_sub(1), next: index + 1, rank: NEVER });
        }
        let mut chain = Self { merges, bytes, parts, heap: BinaryHeap::with_capacity(bytes.len()) };
        for at in 0..chain.parts.len() {
            chain.judge(at);
        }
        chain
    }

    fn part(&self, at: usize) -> Option<Part> {
        self.parts.get(at).copied()
    }

    /// Looks up the pair that begins at a part.
    fn judge(&mut self, at: usize) {
        let Some(part) = self.part(at) else { return };
        let end = self.part(part.next as usize).and_then(|next| self.part(next.next as usize));
        let rank = end.map_or(NEVER, |end| self.merges.rank(self.bytes, part.start as usize, end.start as usize));
        if let Some(part) = self.parts.get_mut(at) {
            part.rank = rank;
        }
        if rank != NEVER {
            self.heap.push(Reverse((rank, at as u32)));
        }
    }

    /// Merges the pair that begins at a part, unless one of the two has changed since.
    fn merge(&mut self, rank: u32, at: usize) {
        let Some(part) = self.part(at).filter(|part| part.rank == rank) else { return };
        let Some(gone) = self.part(part.next as usize) else { return };
        if let Some(next) = self.parts.get_mut(gone.next as usize) {
            next.before = at as u32;
        }
        if let Some(dead) = self.parts.get_mut(part.next as usize) {
            dead.rank = NEVER;
        }
        if let Some(part) = self.parts.get_mut(at) {
            part.next = gone.next;
        }
        self.judge(at);
        self.judge(part.before as usize);
    }

    fn count(&self) -> u64 {
        let mut count = 0;
        let mut at = 0;
        while let Some(part) = self.part(at)
            && let Some(next) = self.part(part.next as usize)
        {
            let bytes = self.bytes.get(part.start as usize..next.start as usize).unwrap_or_default();
            count += self.merges.weight(bytes);
            at = part.next as usize;
        }
        count
    }
}
