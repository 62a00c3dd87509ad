//! A block: vectors side by side in memory, which never change again.

use std::sync::Arc;

use super::Id;
use super::centre::Centre;
use super::planes::{GROUP, GROUPS};
use super::probe::Look;
use super::row::Vector;
use super::rows::Dead;
use super::search::{PutOff, Search};
use super::sides::{Gazed, Sides};

/// As many entries as a block has rows, or the fewer that were left of them.
#[derive(Debug)]
pub(super) struct Block {
    /// What names the block within its collection; later ones have higher numbers.
    pub(super) serial: u64,
    dimensions: usize,
    /// The names of the rows, and the lengths of their vectors: together, for a comparison needs both.
    names: Box<[(Id, f64)]>,
    /// One vector after the other.
    values: Box<[i16]>,
    sides: Option<Sides>,
}

impl Block {
    /// Takes entries, no more than a block has rows. With a centre they are put in order by how they lean, so that those
    /// of a group are alike.
    pub(super) fn new(serial: u64, mut entries: Vec<(Id, Vector<'_>)>, centre: Option<&Arc<Centre>>) -> Self {
        let dimensions = entries.first().map_or(0, |(_, vector)| vector.values.len());
        let sides = centre.map(|centre| {
            let mut leaning: Vec<_> = entries.drain(..).map(|entry| (centre.lean(entry.1), entry)).collect();
            leaning.sort_by(|(left, _), (right, _)| left.total_cmp(right));
            entries.extend(leaning.into_iter().map(|(_, entry)| entry));
            let vectors: Vec<Vector<'_>> = entries.iter().map(|(_, vector)| *vector).collect();
            Sides::new(centre, &vectors)
        });
        let mut values = Vec::with_capacity(entries.len() * dimensions);
        for (_, vector) in &entries {
            values.extend_from_slice(vector.values);
        }
        Self {
            serial,
            dimensions,
            names: entries.iter().map(|(id, vector)| (*id, vector.length)).collect(),
            values: values.into_boxed_slice(),
            sides,
        }
    }

    /// The same entries but the dead, seen from another centre.
    pub(super) fn seen_from(&self, centre: &Arc<Centre>, dead: &Dead) -> Self {
        Self::new(self.serial, self.living(dead).collect(), Some(centre))
    }

    /// Whether its vectors are seen from this centre.
    pub(super) fn is_seen_from(&self, centre: &Arc<Centre>) -> bool {
        self.sides.as_ref().is_some_and(|sides| Arc::ptr_eq(&sides.centre, centre))
    }

    /// How many rows there are, the dead among them.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The entries but the dead.
    pub(super) fn living(&self, dead: &Dead) -> impl Iterator<Item = (Id, Vector<'_>)> {
        (0..self.names.len()).filter(|row| !dead.has(*row)).filter_map(|row| self.get(row))
    }

    /// The names of all rows in order, the dead among them.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        self.names.iter().map(|(id, _)| *id)
    }

    fn get(&self, row: usize) -> Option<(Id, Vector<'_>)> {
        let values = self.values.get(row * self.dimensions..(row + 1) * self.dimensions)?;
        let (id, length) = *self.names.get(row)?;
        Some((id, Vector { values, length }))
    }

    /// Compares those that are probably among the nearest, and puts off those that are less probably so: `at` is where
    /// the block stands.
    pub(super) fn search(&self, at: usize, dead: &Dead, search: &mut Search<'_>) {
        let Some(sides) = &self.sides else {
            for (id, vector) in self.living(dead) {
                search.compare(id, vector);
            }
            return;
        };
        let probe = search.probe(&sides.centre);
        for group in 0..GROUPS {
            let mut bar = search.bar();
            let mut expected = sides.expect(group, &probe, Look::Gaze, bar);
            for Gazed { row, agreeing } in sides.look(group, dead, &probe, search) {
                if search.bar() > bar {
                    bar = search.bar();
                    expected = sides.expect(group, &probe, Look::Gaze, bar);
                }
                let Some(expected) = expected else { break };
                if agreeing >= expected.less(0.0) {
                    self.compare(row, search);
                } else if agreeing >= expected.less(search.deviations()) {
                    search.put_off(PutOff { block: at, row, agreeing });
                }
            }
        }
    }

    /// Compares one that was put off, if it could still be among the nearest.
    pub(super) fn come_back(&self, put_off: &PutOff, search: &mut Search<'_>) {
        let Some(sides) = &self.sides else { return };
        let probe = search.probe(&sides.centre);
        let expected = sides.expect(put_off.row / GROUP, &probe, Look::Gaze, search.bar());
        if expected.is_some_and(|expected| put_off.agreeing >= expected.less(search.deviations())) {
            self.compare(put_off.row, search);
        }
    }

    fn compare(&self, row: usize, search: &mut Search<'_>) {
        if let Some((id, vector)) = self.get(row) {
            search.compare_advised(id, vector);
        }
    }
}
