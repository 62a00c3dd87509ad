//! One state of a collection: what a search reads.

use std::sync::Arc;

use super::block::Block;
use super::row::Entry;
use super::rows::Dead;
use super::search::Search;

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

impl Sealed {
    pub(super) fn new(block: Block) -> Self {
        let dead = Dead::from(block.len());
        Self { block: Arc::new(block), dead }
    }
}

impl View {
    /// Compares what could be among the nearest.
    pub(super) fn search(&self, search: &mut Search<'_>) {
        for entry in &self.tail {
            search.compare(entry.id, entry.row.vector());
        }
        for (at, sealed) in self.sealed.iter().enumerate() {
            sealed.block.search(at, &sealed.dead, search);
        }
        // By now the bar is nearly as high as it gets.
        for put_off in search.take_put_off() {
            if let Some(sealed) = self.sealed.get(put_off.block) {
                sealed.block.come_back(&put_off, search);
            }
        }
    }

    /// Where the block of this serial stands.
    pub(super) fn find(&self, serial: u64) -> Option<usize> {
        self.sealed.binary_search_by_key(&serial, |sealed| sealed.block.serial).ok()
    }
}
