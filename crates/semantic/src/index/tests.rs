//! The index against a list that compares everything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::rows::ROWS;
use super::{Bounds, Id, Index, Neighbour, NotStored, Partition};

const AMPLE: Bounds = Bounds { entries: 1_000_000, bytes: 1 << 30 };
const HERE: Partition = Partition([1; 32]);
const THERE: Partition = Partition([2; 32]);

/// How far a similarity may be from the true one.
const CLOSE: f64 = 2e-4;

/// What an index should do.
#[derive(Debug, Default)]
struct List(BTreeMap<(Partition, Id), Vec<f32>>);

impl List {
    fn similarities(&self, partition: Partition, asked: &[f32]) -> BTreeMap<Id, f64> {
        let all = self.0.iter().filter(|((of, _), _)| *of == partition);
        all.map(|((_, id), vector)| (*id, cosine(asked, vector))).collect()
    }

    /// Whether this may be the answer: what it says is true, and nothing better is missing.
    fn admits(&self, found: &[Neighbour], (partition, asked): (Partition, &[f32]), k: usize, least: f32) {
        let all = self.similarities(partition, asked);
        for neighbour in found {
            let similarity = all.get(&neighbour.id).unwrap_or_else(|| panic!("{} is not there", neighbour.id));
            assert!((f64::from(neighbour.similarity) - similarity).abs() < CLOSE, "{neighbour:?}: {similarity}");
            assert!(neighbour.similarity >= least);
        }
        assert!(found.windows(2).all(|pair| pair[0].similarity >= pair[1].similarity), "{found:?}");
        let enough = found.len() == k;
        let bar = if enough { found.last().map_or(f32::INFINITY, |worst| worst.similarity) } else { least };
        for (id, similarity) in all {
            let is_found = found.iter().any(|neighbour| neighbour.id == id);
            assert!(is_found || similarity < f64::from(bar) + CLOSE, "{id} of {similarity} is missing: {found:?}");
        }
    }
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |left: &[f32], right: &[f32]| -> f64 {
        left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
    };
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

/// Numbers from -1 to 1 that are the same each time.
struct Noise(u64);

impl Noise {
    fn number(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| self.number()).collect()
    }

    /// A vector that is like another.
    fn near(&mut self, centre: &[f32], spread: f32) -> Vec<f32> {
        centre.iter().map(|value| value + spread * self.number()).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(bool, u8, [i8; 5]),
    Remove(bool, u8),
    Clear(bool),
    Ask(bool, [i8; 5], usize, f32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<bool>(), 0..24_u8, any::<[i8; 5]>()).prop_map(|(at, id, vector)| Step::Insert(at, id, vector)),
        3 => (any::<bool>(), 0..24_u8).prop_map(|(at, id)| Step::Remove(at, id)),
        1 => any::<bool>().prop_map(Step::Clear),
        6 => (any::<bool>(), any::<[i8; 5]>(), 0..6_usize, -1.0..1.0_f32).prop_map(|(at, v, k, l)| Step::Ask(at, v, k, l)),
    ]
}

fn partition(is_here: bool) -> Partition {
    if is_here { HERE } else { THERE }
}

proptest! {
    #[test]
    fn whatever_is_done_the_answer_is_that_of_a_list(steps in prop::collection::vec(step(), 0..80)) {
        let (index, mut list) = (Index::new(AMPLE), List::default());
        for step in steps {
            match step {
                Step::Insert(at, id, vector) => {
                    let vector = vector.map(f32::from);
                    let stored = index.insert(&partition(at), id.into(), &vector);
                    if vector == [0.0; 5] {
                        prop_assert_eq!(stored, Err(NotStored::Zero));
                    } else {
                        prop_assert_eq!(stored, Ok(()));
                        list.0.insert((partition(at), id.into()), vector.to_vec());
                    }
                }
                Step::Remove(at, id) => {
                    let had = list.0.remove(&(partition(at), id.into())).is_some();
                    prop_assert_eq!(index.remove(&partition(at), id.into()), had);
                }
                Step::Clear(at) => {
                    let before = list.0.len();
                    list.0.retain(|(of, _), _| *of != partition(at));
                    prop_assert_eq!(index.clear(&partition(at)), (before - list.0.len()) as u64);
                }
                Step::Ask(at, asked, k, least) => {
                    let asked = asked.map(f32::from);
                    let found = index.nearest(&partition(at), &asked, k, least);
                    if asked == [0.0; 5] || k == 0 {
                        prop_assert!(found.is_empty());
                    } else {
                        list.admits(&found, (partition(at), &asked), k, least);
                    }
                }
            }
            prop_assert_eq!(index.count(), list.0.len() as u64);
        }
        for partition in [HERE, THERE] {
            index.clear(&partition);
        }
        prop_assert_eq!((index.count(), index.bytes()), (0, 0));
    }
}

#[test]
fn many_entries_come_are_replaced_and_go_and_the_answers_stay_those_of_a_list() {
    const DIMENSIONS: usize = 24;
    const IDS: u64 = 3 * ROWS as u64;
    let (index, mut list, mut noise) = (Index::new(AMPLE), List::default(), Noise(1));
    let centres: Vec<Vec<f32>> = (0..40).map(|_| noise.vector(DIMENSIONS)).collect();
    let mut turn = 0_u64;
    // Grows to all ids, then shrinks to few.
    for (rounds, removed_of_four) in [(3_500, 0), (1_500, 1), (3_000, 3)] {
        for _ in 0..rounds {
            turn += 1;
            let id = Id::from(turn.wrapping_mul(2_654_435_761) % IDS);
            if turn % 4 < removed_of_four {
                assert_eq!(index.remove(&HERE, id), list.0.remove(&(HERE, id)).is_some());
            } else {
                let vector = noise.near(&centres[turn as usize % centres.len()], 0.4);
                index.insert(&HERE, id, &vector).unwrap();
                list.0.insert((HERE, id), vector);
            }
            if turn.is_multiple_of(500) {
                let asked = noise.near(&centres[turn as usize / 500 % centres.len()], 0.4);
                for (k, least) in [(1, 0.9), (8, 0.8), (200, 0.0)] {
                    list.admits(&index.nearest(&HERE, &asked, k, least), (HERE, &asked), k, least);
                }
                assert_eq!(index.count_in(&HERE), list.0.len() as u64);
            }
        }
    }
    for id in 0..IDS {
        index.remove(&HERE, id.into());
    }
    assert_eq!((index.count(), index.bytes()), (0, 0));
}

#[test]
fn the_first_vector_of_a_partition_fixes_its_dimensions_until_it_is_empty() {
    let index = Index::new(AMPLE);
    index.insert(&HERE, 1, &[1.0, 2.0]).unwrap();
    let other = NotStored::OtherDimensions { expected: 2, found: 3 };
    assert_eq!(index.insert(&HERE, 2, &[1.0, 2.0, 3.0]), Err(other));
    assert!(index.nearest(&HERE, &[1.0, 2.0, 3.0], 8, -1.0).is_empty());
    index.insert(&THERE, 1, &[1.0, 2.0, 3.0]).unwrap();
    index.remove(&HERE, 1);
    index.insert(&HERE, 2, &[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(index.count(), 2);
}

#[test]
fn what_cannot_be_stored_leaves_what_was_there() {
    let index = Index::new(AMPLE);
    index.insert(&HERE, 1, &[1.0, 0.0]).unwrap();
    assert_eq!(index.insert(&HERE, 1, &[f32::NAN, 0.0]), Err(NotStored::NotFinite));
    assert_eq!(index.nearest(&HERE, &[1.0, 0.0], 8, 0.99).len(), 1);
    assert!(index.nearest(&HERE, &[f32::NAN, 0.0], 8, -1.0).is_empty());
    assert!(index.nearest(&HERE, &[1.0, 0.0], 8, f32::NAN).is_empty());
}

#[test]
fn a_full_index_takes_a_replacement_and_nothing_more() {
    let index = Index::new(Bounds { entries: 2, bytes: u64::MAX });
    index.insert(&HERE, 1, &[1.0, 0.0]).unwrap();
    index.insert(&HERE, 2, &[0.0, 1.0]).unwrap();
    assert_eq!(index.insert(&HERE, 3, &[1.0, 1.0]), Err(NotStored::Full));
    let before = index.bytes();
    assert_eq!(index.insert(&THERE, 3, &[1.0, 1.0]), Err(NotStored::Full));
    assert_eq!(index.bytes(), before);
    index.insert(&HERE, 2, &[1.0, 0.1]).unwrap();
    assert_eq!(index.nearest(&HERE, &[1.0, 0.0], 8, 0.9).len(), 2);
    index.remove(&HERE, 1);
    index.insert(&THERE, 3, &[1.0, 1.0]).unwrap();

    let small = Index::new(Bounds { entries: 10, bytes: 3 * Index::cost(2) + super::PARTITION_BYTES });
    let stored = (0..10).filter(|id| small.insert(&HERE, *id, &[1.0, 1.0]).is_ok()).count();
    assert_eq!(stored, 3);
    assert!(small.bytes() <= small.bounds().bytes);
}

#[test]
fn searches_beside_writers_see_each_entry_once_and_whole() {
    const DIMENSIONS: usize = 16;
    const WRITTEN: u64 = 2 * ROWS as u64;
    let index = Index::new(AMPLE);
    let anchor = vec![1.0; DIMENSIONS];
    index.insert(&HERE, 0, &anchor).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2_u64 {
            let (index, anchor, is_over) = (&index, &anchor, &is_over);
            scope.spawn(move || {
                let mut noise = Noise(reader);
                while !is_over.load(Ordering::Relaxed) {
                    let found = index.nearest(&HERE, anchor, 8, 0.999);
                    let ids: Vec<Id> = found.iter().map(|neighbour| neighbour.id).collect();
                    assert_eq!(ids, [0], "the entry that is replaced all the time is there, and once");
                    let found = index.nearest(&HERE, &noise.vector(DIMENSIONS), 256, -1.0);
                    let mut ids: Vec<Id> = found.iter().map(|neighbour| neighbour.id).collect();
                    ids.sort_unstable();
                    ids.dedup();
                    assert_eq!(ids.len(), found.len());
                }
            });
        }
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let (index, anchor) = (&index, &anchor);
                scope.spawn(move || {
                    let mut noise = Noise(100 + writer);
                    for at in 0..WRITTEN {
                        let mut vector = noise.vector(DIMENSIONS);
                        vector[0] = -2.0;
                        index.insert(&HERE, Id::from(1 + 2 * (at % 2_000) + writer), &vector).unwrap();
                        if at % 7 == 0 {
                            index.insert(&HERE, 0, anchor).unwrap();
                        }
                        if at % 3 == 0 {
                            index.remove(&HERE, Id::from(1 + 2 * (at / 2 % 2_000) + writer));
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let counted = (0..=2 * 2_000 + 2).filter(|id| index.remove(&HERE, *id)).count();
    assert!(counted > 0);
    assert_eq!((index.count(), index.bytes()), (0, 0));
}

#[test]
fn partitions_that_come_and_go_under_threads_leave_nothing_behind() {
    let index = Index::new(AMPLE);
    std::thread::scope(|scope| {
        for writer in 0..4_u128 {
            let index = &index;
            scope.spawn(move || {
                for turn in 0..2_000_u32 {
                    index.insert(&HERE, writer, &[1.0, turn as f32]).unwrap();
                    assert!(index.nearest(&HERE, &[1.0, turn as f32], 8, 0.9).iter().any(|near| near.id == writer));
                    assert!(index.remove(&HERE, writer));
                }
            });
        }
    });
    assert_eq!((index.count(), index.bytes()), (0, 0));
}

/// How many of the nearest are found, of all searches together, where bits tell what is compared.
#[test]
fn of_wide_vectors_nearly_all_of_the_nearest_are_found_while_entries_come_and_go() {
    const DIMENSIONS: usize = 130;
    const IDS: u64 = 3 * ROWS as u64;
    let (index, mut list, mut noise) = (Index::new(AMPLE), List::default(), Noise(3));
    // All lean one way, as the vectors of real models do.
    let common = noise.vector(DIMENSIONS);
    let centres: Vec<Vec<f32>> = (0..60).map(|_| noise.near(&common, 1.0)).collect();
    let (mut wanted, mut found, mut first_wanted, mut first_found) = (0, 0, 0, 0);
    for turn in 0..IDS + 1_500 {
        let id = Id::from(turn.wrapping_mul(2_654_435_761) % IDS);
        if turn > IDS && turn % 3 == 0 {
            index.remove(&HERE, id);
            list.0.remove(&(HERE, id));
        } else {
            let vector = noise.near(&centres[turn as usize % centres.len()], 0.5);
            index.insert(&HERE, id, &vector).unwrap();
            list.0.insert((HERE, id), vector);
        }
        if turn.is_multiple_of(400) {
            let asked = noise.near(&centres[turn as usize / 400 % centres.len()], 0.5);
            let mut all: Vec<(Id, f64)> = list.similarities(HERE, &asked).into_iter().collect();
            all.sort_by(|left, right| right.1.total_cmp(&left.1));
            all.retain(|(_, similarity)| *similarity >= 0.7);
            all.truncate(8);
            let nearest = index.nearest(&HERE, &asked, 8, 0.7);
            for Neighbour { id, similarity } in &nearest {
                assert!((f64::from(*similarity) - cosine(&asked, &list.0[&(HERE, *id)])).abs() < CLOSE);
            }
            wanted += all.len();
            found += all.iter().filter(|(id, _)| nearest.iter().any(|neighbour| neighbour.id == *id)).count();
            first_wanted += all.iter().take(1).count();
            first_found +=
                all.iter().take(1).filter(|(id, _)| nearest.first().map(|first| first.id) == Some(*id)).count();
        }
    }
    assert!(first_wanted > 10 && wanted > 80, "{first_wanted} {wanted}");
    assert_eq!(first_found, first_wanted);
    assert!(found * 100 >= wanted * 99, "{found} of {wanted}");
}
