//! The nearest found so far.

use std::cmp::Ordering;

use super::{Id, Neighbour, Neighbours};

/// The best of what was offered, the best first.
#[derive(Debug)]
pub(super) struct Nearest {
    wanted: usize,
    least: f32,
    found: Neighbours,
}

impl Nearest {
    /// Keeps so many, none less similar than `least`.
    pub(super) fn new(wanted: usize, least: f32) -> Self {
        Self { wanted, least, found: Neighbours::new() }
    }

    /// What is less similar than this is of no use any more.
    pub(super) fn bar(&self) -> f32 {
        match self.found.last() {
            Some(worst) if self.found.len() >= self.wanted => worst.similarity,
            _ => self.least,
        }
    }

    pub(super) fn offer(&mut self, id: Id, similarity: f32) {
        // A least similarity that is not a number lets nothing pass.
        let passes = similarity >= self.bar() && self.wanted > 0;
        if !passes {
            return;
        }
        let new = Neighbour { id, similarity };
        let at = self.found.partition_point(|old| order(old, &new) == Ordering::Less);
        if at < self.wanted {
            self.found.truncate(self.wanted - 1);
            self.found.insert(at, new);
        }
    }

    pub(super) fn into_found(self) -> Neighbours {
        self.found
    }
}

/// The most similar first; equals by id, so that the answer does not depend on where they are kept.
fn order(left: &Neighbour, right: &Neighbour) -> Ordering {
    right.similarity.total_cmp(&left.similarity).then_with(|| left.id.cmp(&right.id))
}

#[cfg(test)]
mod tests {
    use super::{Nearest, Neighbour};

    fn found(wanted: usize, least: f32, offers: &[(u128, f32)]) -> Vec<u128> {
        let mut nearest = Nearest::new(wanted, least);
        for (id, similarity) in offers {
            nearest.offer(*id, *similarity);
        }
        nearest.into_found().iter().map(|Neighbour { id, .. }| *id).collect()
    }

    #[test]
    fn the_best_are_kept_in_order() {
        let offers = [(1, 0.5), (2, 0.9), (3, 0.7), (4, 0.7), (5, 0.95), (6, 0.2)];
        assert_eq!(found(3, 0.0, &offers), [5, 2, 3]);
        assert_eq!(found(9, 0.6, &offers), [5, 2, 3, 4]);
        assert_eq!(found(3, 0.0, &[(9, 0.7), (8, 0.7), (7, 0.7), (6, 0.7)]), [6, 7, 8]);
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wanted_or_the_least_is_no_number() {
        assert!(found(0, 0.0, &[(1, 0.5)]).is_empty());
        assert!(found(3, f32::NAN, &[(1, 0.5)]).is_empty());
    }
}
