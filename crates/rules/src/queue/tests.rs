//! The laws of a queue.

use proptest::prelude::*;

use super::*;

fn queue(calls: &[(&'static str, u64)]) -> Queue<&'static str, u64> {
    let mut queue = Queue::default();
    for (key, number) in calls {
        queue.join(key, *number, *number);
    }
    queue
}

fn all(queue: &mut Queue<&'static str, u64>) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop().map(|(_, _, call)| call)).collect()
}

#[test]
fn lanes_take_turns_and_each_keeps_its_order() {
    let mut queue = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)]);
    assert_eq!(all(&mut queue), [1, 4, 5, 2, 6, 3]);
    assert!(queue.is_empty());
}

#[test]
fn who_leaves_frees_its_place_and_never_has_a_turn() {
    let mut queue = queue(&[("a", 1), ("a", 2), ("b", 3)]);
    assert_eq!(queue.leave(&"a", 1), Some(1));
    assert_eq!(queue.leave(&"a", 1), None);
    assert_eq!(queue.leave(&"b", 3), Some(3));
    assert_eq!((queue.len(), all(&mut queue)), (1, vec![2]));
}

#[test]
fn who_may_not_go_is_passed_by_and_keeps_its_turn() {
    let mut queue = queue(&[("a", 1), ("a", 2), ("b", 3), ("b", 4), ("c", 5)]);
    let mut even = || queue.pop_first(|call| call % 2 == 0).map(|(key, number, _)| (key, number));
    assert_eq!((even(), even(), even()), (Some(("a", 2)), Some(("b", 4)), None));
    assert_eq!((queue.len(), all(&mut queue)), (3, vec![5, 1, 3]));
}

#[test]
fn a_lane_moves_as_a_whole_behind_the_others() {
    let mut one = queue(&[("a", 1), ("a", 3), ("b", 2)]);
    let mut other = queue(&[("c", 4)]);
    let (key, lane) = one.pop_lane().unwrap();
    other.add(&key, lane);
    assert_eq!((one.len(), other.len()), (1, 3));
    assert_eq!(all(&mut other), [4, 1, 3]);
}

#[test]
fn what_is_not_written_is_decided_by_the_class() {
    let (none, second) = (Patience::default(), Duration::from_secs(1));
    assert_eq!((none.longest(Priority::Online), none.depth(Priority::Online)), (second, 100));
    assert_eq!((none.longest(Priority::Batch), none.depth(Priority::Batch)), (30 * second, 1000));
    let wait = |seconds| Patience { max_wait: Some(second * seconds), max_depth: Some(5) };
    assert_eq!((wait(3).longest(Priority::Batch), wait(3).depth(Priority::Batch)), (3 * second, 5));
}

#[test]
fn a_call_has_one_patience_for_all_its_waits() {
    let second = Duration::from_secs(1);
    let none = Patience::default();
    let wait = |seconds| Patience { max_wait: Some(second * seconds), max_depth: None };
    let left = |client: Patience, line, waited| client.left(line, Priority::Batch, second * waited).as_secs();
    assert_eq!((left(none, none, 0), left(none, none, 12), left(none, none, 40)), (30, 18, 0));
    assert_eq!((left(wait(5), none, 2), left(wait(5), wait(2), 2), left(wait(5), wait(2), 4)), (3, 2, 1));
    assert_eq!(left(none, wait(2), 29), 2, "a line's own bound is for the wait in it");
    assert_eq!(none.left(wait(4), Priority::Online, second), 4 * second);
}

#[test]
fn a_queue_is_bounded_by_calls_and_by_what_they_hold() {
    let mut load = Load::default();
    assert_eq!(load.has_room(5, 0, 10), Err(Full::Calls));
    assert_eq!(load.has_room(11, 2, 10), Ok(()), "alone it may be larger");
    load.join(11);
    assert_eq!(load.has_room(1, 2, 10), Err(Full::Bytes));
    load.leave(11);
    assert!(load.is_none());
    load.join(4);
    load.join(6);
    assert_eq!((load.has_room(0, 2, 10), load.has_room(0, 3, 10)), (Err(Full::Calls), Ok(())));
}

#[derive(Clone, Debug)]
enum Act {
    Join(u8),
    Leave(u8),
    Pop,
    Move,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (0u8..5).prop_map(Act::Join),
        1 => any::<u8>().prop_map(Act::Leave),
        2 => Just(Act::Pop),
        1 => Just(Act::Move),
    ];
    prop::collection::vec(act, 0..200)
}

proptest! {
    /// Whatever happens, nobody is lost, nobody has two turns, each lane keeps its order, and nobody stands
    /// behind more turns of another lane than one.
    #[test]
    fn nobody_is_lost_or_passed_within_a_lane(acts in acts()) {
        let mut queue: Queue<u8, (u8, u64)> = Queue::default();
        let mut waiting: Vec<(u8, u64)> = Vec::new();
        let mut number = 0;
        for act in acts {
            match act {
                Act::Join(key) => {
                    number += 1;
                    queue.join(&key, number, (key, number));
                    waiting.push((key, number));
                }
                Act::Leave(which) if !waiting.is_empty() => {
                    let (key, number) = waiting.remove(usize::from(which) % waiting.len());
                    prop_assert_eq!(queue.leave(&key, number), Some((key, number)));
                }
                Act::Leave(_) => {}
                Act::Pop => {
                    let popped = queue.pop().map(|(_, _, call)| call);
                    prop_assert_eq!(popped.is_some(), !waiting.is_empty());
                    if let Some((key, number)) = popped {
                        let first = waiting.iter().position(|(known, _)| *known == key).unwrap();
                        prop_assert_eq!(waiting.remove(first), (key, number));
                    }
                }
                Act::Move => {
                    if let Some((key, lane)) = queue.pop_lane() {
                        queue.add(&key, lane);
                    }
                }
            }
            prop_assert_eq!(queue.len(), waiting.len());
        }
        let mut turns: Vec<u8> = Vec::new();
        while let Some((key, ..)) = queue.pop() {
            turns.push(key);
        }
        prop_assert_eq!(turns.len(), waiting.len());
        for key in 0..5u8 {
            // Between two turns of a lane every other lane that still waits has exactly one.
            let mine: Vec<usize> = turns.iter().enumerate().filter(|(_, turn)| **turn == key).map(|(at, _)| at).collect();
            for pair in mine.windows(2) {
                let between = &turns[pair[0] + 1..pair[1]];
                let distinct: std::collections::HashSet<_> = between.iter().collect();
                prop_assert_eq!(distinct.len(), between.len());
            }
        }
    }
}

#[test]
fn a_lane_that_passes_its_turn_on_stands_behind_the_others() {
    let mut queue = Queue::default();
    queue.pass_on();
    for (number, key) in [(1, "a"), (2, "a"), (3, "b")] {
        queue.join(&key, number, ());
    }
    queue.pass_on();
    let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(_, number, ())| number).collect();
    assert_eq!(order, [3, 1, 2]);
}
