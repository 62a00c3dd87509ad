//! One state of a collection: what a search reads.

use std::sync::Arc;

use super::block::{Block, Dead};
use super::nearest::Nearest;
use super::row::{Entry, Vector};

/// The entries of a collection at one moment. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The newest, and those whose block was swept up; fewer than a block.
    pub(super) tail: Vec<Entry>,
    /// The others, in the order of their serials.
    pub(super) sealed: Vec<Sealed>,
}

/// A block, and which of its rows count no more.
#[derive(Debug, Clone)]
pub(super) struct Sealed {
    pub(super) block: Arc<Block>,
    pub(super) dead: Dead,
}

impl View {
    /// Offers what could be among the nearest.
    pub(super) fn search(&self, asked: Vector<'_>, nearest: &mut Nearest) {
        for entry in &self.tail {
            nearest.offer(entry.id, asked.similarity(entry.row.vector()));
        }
        for sealed in &self.sealed {
            sealed.block.search(asked, &sealed.dead, nearest);
        }
    }

    /// Where the block of this serial stands.
    pub(super) fn find(&self, serial: u64) -> Option<usize> {
        self.sealed.binary_search_by_key(&serial, |sealed| sealed.block.serial).ok()
    }
}
