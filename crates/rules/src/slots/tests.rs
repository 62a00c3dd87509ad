//! Who has the next place, and what holds whatever comes and goes.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

type Places = Slots<&'static str, u64>;

fn places(limit: u32, is_shared: bool) -> Places {
    Slots::new(limit, is_shared)
}

fn fill(slots: &mut Places, class: Class) -> u32 {
    let mut taken = 0;
    while slots.take(class) {
        taken += 1;
    }
    taken
}

#[test]
fn online_goes_before_batch_that_has_waited_longer() {
    let mut slots = places(1, true);
    assert!(slots.take(Class::Batch));
    slots.join(Class::Batch, &"night", 1, 1);
    slots.join(Class::Online, &"day", 2, 2);
    assert_eq!(slots.give(), None);
    slots.ended(Class::Batch);
    assert_eq!(slots.give(), Some((Class::Online, 2)));
    slots.ended(Class::Online);
    assert_eq!(slots.give(), Some((Class::Batch, 1)));
}

#[test]
fn a_newcomer_does_not_pass_those_of_its_class() {
    let mut slots = places(1, true);
    assert!(slots.take(Class::Online));
    slots.join(Class::Online, &"a", 1, 1);
    slots.ended(Class::Online);
    assert!(!slots.take(Class::Online));
    assert_eq!(slots.give(), Some((Class::Online, 1)));
}

#[test]
fn under_steady_online_load_batch_keeps_a_tenth_of_the_places() {
    let mut slots = places(20, true);
    assert_eq!(fill(&mut slots, Class::Online), 20);
    slots.join(Class::Batch, &"night", 0, 0);
    for number in 1..200 {
        slots.join(Class::Batch, &"night", number, number);
        slots.join(Class::Online, &"day", 1000 + number, number);
    }
    let mut batch = 0;
    for _ in 0..40 {
        slots.ended(Class::Online);
        while let Some((class, _)) = slots.give() {
            batch += u32::from(class == Class::Batch);
        }
    }
    assert!(slots.in_use.1 >= 2 && batch <= 6, "{batch} of 40, {} at the end", slots.in_use.1);
}

#[test]
fn even_of_a_single_place_batch_has_every_tenth_turn() {
    let mut slots = places(1, true);
    assert!(slots.take(Class::Online));
    for number in 0..1000 {
        slots.join(Class::Online, &"day", 1000 + number, number);
        slots.join(Class::Batch, &"night", number, number);
    }
    let (mut running, mut turns) = (Class::Online, Vec::new());
    for _ in 0..100 {
        slots.ended(running);
        running = slots.give().unwrap().0;
        turns.push(running);
    }
    let batch = turns.iter().filter(|class| **class == Class::Batch).count();
    assert_eq!(batch, 10);
}

#[test]
fn batch_leaves_a_tenth_free_where_online_comes_too() {
    assert_eq!(fill(&mut places(10, true), Class::Batch), 9);
    assert_eq!(fill(&mut places(10, false), Class::Batch), 10);
    assert_eq!(fill(&mut places(1, true), Class::Batch), 1);
    assert_eq!(fill(&mut places(10, true), Class::Online), 10);
}

#[test]
fn fewer_places_take_none_away() {
    let mut slots = places(4, false);
    assert_eq!(fill(&mut slots, Class::Online), 4);
    slots.resize(2, false);
    slots.ended(Class::Online);
    slots.ended(Class::Online);
    assert!(!slots.take(Class::Online));
    slots.ended(Class::Online);
    assert!(slots.take(Class::Online));
}

proptest! {
    /// No place too many, nobody lost, and while anybody waits no place stays empty that is not spared.
    #[test]
    fn places_are_given_out_soundly(limit in 1u32..12, acts in prop::collection::vec((0u8..6, any::<bool>(), 0usize..4), 0..300)) {
        const WHO: [&str; 4] = ["a", "b", "c", "d"];
        let mut slots = places(limit, true);
        let (mut number, mut waiting, mut running) = (0, Vec::new(), Vec::new());
        for (act, is_batch, who) in acts {
            let class = if is_batch { Class::Batch } else { Class::Online };
            match act {
                0..3 => {
                    number += 1;
                    if slots.take(class) {
                        running.push(class);
                    } else {
                        slots.join(class, &WHO[who], number, number);
                        waiting.push((class, WHO[who], number));
                    }
                }
                3 if !waiting.is_empty() => {
                    let (class, who, number) = waiting.remove(who % waiting.len());
                    prop_assert_eq!(slots.leave(class, &who, number), Some(number));
                }
                _ if !running.is_empty() => slots.ended(running.remove(who % running.len())),
                _ => {}
            }
            while let Some((class, call)) = slots.give() {
                let at = waiting.iter().position(|(_, _, number)| *number == call).unwrap();
                prop_assert_eq!(waiting.remove(at).0, class);
                running.push(class);
            }
            prop_assert!(slots.in_use() <= limit);
            prop_assert_eq!(slots.in_use() as usize, running.len());
            let who: HashSet<_> = waiting.iter().map(|(class, ..)| *class).collect();
            let free = limit - slots.in_use();
            prop_assert!(!who.contains(&Class::Online) || free == 0);
            prop_assert!(!who.contains(&Class::Batch) || free <= spared(limit));
        }
    }
}
