//! Who has the next place, and what holds whatever comes and goes.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

type Places = Slots<&'static str, u64>;

fn places(limit: u32, is_shared: bool) -> Places {
    Slots::new(limit, is_shared)
}

fn fill_with(slots: &mut Places, priority: Priority, model: &'static str, now: Instant) -> u32 {
    let mut taken = 0;
    while slots.take(priority, &model, now) {
        taken += 1;
    }
    taken
}

fn fill(slots: &mut Places, priority: Priority) -> u32 {
    fill_with(slots, priority, "m", start())
}

fn take(slots: &mut Places, priority: Priority) -> bool {
    slots.take(priority, &"m", start())
}

fn give(slots: &mut Places) -> Option<(Priority, u64)> {
    slots.give(start())
}

/// Always the same instant.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(|| base::Clock.now())
}

#[test]
fn online_goes_before_batch_that_has_waited_longer() {
    let mut slots = places(1, true);
    assert!(take(&mut slots, Priority::Batch));
    slots.join(Priority::Batch, (&"night", &"m"), 1, 1);
    slots.join(Priority::Online, (&"day", &"m"), 2, 2);
    assert_eq!(give(&mut slots), None);
    slots.ended(Priority::Batch, &"m", false);
    assert_eq!(give(&mut slots), Some((Priority::Online, 2)));
    slots.ended(Priority::Online, &"m", false);
    assert_eq!(give(&mut slots), Some((Priority::Batch, 1)));
}

#[test]
fn a_newcomer_does_not_pass_those_of_its_class() {
    let mut slots = places(1, true);
    assert!(take(&mut slots, Priority::Online));
    slots.join(Priority::Online, (&"a", &"m"), 1, 1);
    slots.ended(Priority::Online, &"m", false);
    assert!(!take(&mut slots, Priority::Online));
    assert_eq!(give(&mut slots), Some((Priority::Online, 1)));
}

#[test]
fn under_steady_online_load_batch_keeps_a_tenth_of_the_places() {
    let mut slots = places(20, true);
    assert_eq!(fill(&mut slots, Priority::Online), 20);
    slots.join(Priority::Batch, (&"night", &"m"), 0, 0);
    for number in 1..200 {
        slots.join(Priority::Batch, (&"night", &"m"), number, number);
        slots.join(Priority::Online, (&"day", &"m"), 1000 + number, number);
    }
    let mut batch = 0;
    for _ in 0..40 {
        slots.ended(Priority::Online, &"m", false);
        while let Some((priority, _)) = give(&mut slots) {
            batch += u32::from(priority == Priority::Batch);
        }
    }
    assert!(slots.in_use.batch >= 2 && batch <= 6, "{batch} of 40, {} at the end", slots.in_use.batch);
}

#[test]
fn batch_calls_that_take_long_do_not_come_to_hold_more_than_their_tenth() {
    let mut slots = places(10, true);
    assert_eq!(fill(&mut slots, Priority::Online), 10);
    for number in 0..500 {
        slots.join(Priority::Batch, (&"night", &"m"), number, number);
        slots.join(Priority::Online, (&"day", &"m"), 1000 + number, number);
    }
    for _ in 0..400 {
        // Those of batch never end.
        slots.ended(Priority::Online, &"m", false);
        give(&mut slots);
        assert!(slots.in_use.batch <= 1, "{}", slots.in_use.batch);
    }
    assert_eq!(slots.in_use.batch, 1);
}

#[test]
fn even_of_a_single_place_batch_has_every_tenth_turn() {
    let mut slots = places(1, true);
    assert!(take(&mut slots, Priority::Online));
    for number in 0..1000 {
        slots.join(Priority::Online, (&"day", &"m"), 1000 + number, number);
        slots.join(Priority::Batch, (&"night", &"m"), number, number);
    }
    let (mut running, mut turns) = (Priority::Online, Vec::new());
    for _ in 0..100 {
        slots.ended(running, &"m", false);
        running = give(&mut slots).unwrap().0;
        turns.push(running);
    }
    let batch = turns.iter().filter(|priority| **priority == Priority::Batch).count();
    assert_eq!(batch, 10);
}

#[test]
fn batch_leaves_a_tenth_free_where_online_comes_too() {
    assert_eq!(fill(&mut places(10, true), Priority::Batch), 9);
    assert_eq!(fill(&mut places(10, false), Priority::Batch), 10);
    assert_eq!(fill(&mut places(1, true), Priority::Batch), 1);
    assert_eq!(fill(&mut places(10, true), Priority::Online), 10);
}

#[test]
fn fewer_places_take_none_away() {
    let mut slots = places(4, false);
    assert_eq!(fill(&mut slots, Priority::Online), 4);
    slots.resize(2, false);
    slots.ended(Priority::Online, &"m", false);
    slots.ended(Priority::Online, &"m", false);
    assert!(!take(&mut slots, Priority::Online));
    slots.ended(Priority::Online, &"m", false);
    assert!(take(&mut slots, Priority::Online));
}

/// Places of which `slow` has as many as it gets, after `quick` was called too.
fn hung(limit: u32, now: Instant) -> (Places, u32) {
    let mut slots = places(limit, false);
    assert!(slots.take(Priority::Online, &"quick", now));
    slots.ended(Priority::Online, &"quick", false);
    let held = fill_with(&mut slots, Priority::Online, "slow", now);
    (slots, held)
}

#[test]
fn one_model_leaves_the_last_tenth_to_others_that_were_called_lately() {
    for (limit, kept) in [(1, 0), (2, 0), (3, 0), (4, 1), (8, 1), (19, 1), (20, 2), (64, 6), (100, 10)] {
        let (mut slots, held) = hung(limit, start());
        assert_eq!((held, slots.is_full(&"slow", start())), (limit - kept, true), "of {limit}");
        assert_eq!(fill_with(&mut slots, Priority::Online, "quick", start()), kept, "of {limit}");
    }
}

#[test]
fn a_model_alone_has_all_places_and_so_has_one_whose_company_has_left() {
    assert_eq!(fill(&mut places(20, false), Priority::Online), 20);
    let (mut slots, held) = hung(20, start());
    assert_eq!(held, 18);
    slots.join(Priority::Online, (&"a", &"slow"), 1, 1);
    assert_eq!(slots.give(start() + Duration::from_millis(9_999)), None);
    assert_eq!(slots.give(start() + Duration::from_secs(10)), Some((Priority::Online, 1)));
    assert!(slots.take(Priority::Online, &"slow", start() + Duration::from_secs(10)));
    assert_eq!(slots.in_use(), 20);
}

#[test]
fn models_with_an_equal_share_have_all_places_together() {
    let mut slots = places(10, false);
    let taken = (0..20).filter(|n| slots.take(Priority::Online, &["a", "b"][n % 2], start())).count();
    assert_eq!(taken, 10);
}

#[test]
fn two_models_that_hang_leave_the_third_one_a_place() {
    let mut slots = places(10, false);
    assert!(slots.take(Priority::Online, &"quick", start()));
    slots.ended(Priority::Online, &"quick", false);
    let taken = (0..40).filter(|n| slots.take(Priority::Online, &["a", "b"][n % 2], start())).count();
    assert_eq!(taken, 9);
    assert!(slots.take(Priority::Online, &"quick", start()));
}

#[test]
fn who_waits_for_a_model_that_hangs_holds_nobody_up_behind() {
    let (mut slots, _) = hung(8, start());
    slots.join(Priority::Online, (&"a", &"slow"), 1, 1);
    slots.join(Priority::Online, (&"a", &"quick"), 2, 2);
    slots.join(Priority::Online, (&"b", &"slow"), 3, 3);
    assert_eq!(give(&mut slots), Some((Priority::Online, 2)), "also of the same client");
    assert_eq!(give(&mut slots), None);
    slots.ended(Priority::Online, &"quick", false);
    assert!(slots.take(Priority::Online, &"quick", start()), "a newcomer passes them too");
    slots.ended(Priority::Online, &"slow", false);
    assert_eq!(give(&mut slots), None, "the last one is kept");
    slots.ended(Priority::Online, &"slow", false);
    assert_eq!(give(&mut slots), Some((Priority::Online, 3)), "it is the other client's turn");
}

#[test]
fn a_batch_call_whose_model_hangs_keeps_no_place_from_online_though_its_turn_has_come() {
    let (mut slots, held) = hung(4, start());
    slots.resize(4, true);
    assert!(held == 3 && slots.take(Priority::Online, &"quick", start()));
    slots.join(Priority::Batch, (&"night", &"slow"), 1, 1);
    for number in 2..40 {
        slots.join(Priority::Online, (&"day", &"quick"), number, number);
        slots.ended(Priority::Online, &"quick", false);
        assert_eq!(give(&mut slots), Some((Priority::Online, number)));
    }
}

#[test]
fn a_call_that_is_being_answered_hangs_no_more() {
    let (mut slots, held) = hung(8, start());
    assert_eq!(held, 7);
    for _ in 0..4 {
        slots.answered(&"slow");
    }
    assert!(slots.take(Priority::Online, &"slow", start()));
    assert_eq!(slots.in_use(), 8);
    for _ in 0..4 {
        slots.ended(Priority::Online, &"slow", true);
    }
    assert_eq!(fill_with(&mut slots, Priority::Online, "slow", start()), 3, "four hang as before");
}

#[test]
fn a_place_that_moves_to_another_model_counts_for_that_one() {
    let (mut slots, _) = hung(8, start());
    for _ in 0..4 {
        slots.moves(&"slow", &"quick", start());
    }
    assert!(!slots.take(Priority::Online, &"quick", start()) && slots.take(Priority::Online, &"slow", start()));
}

proptest! {
    /// No place too many, nobody lost, and while anybody waits no place stays empty that is not spared.
    #[test]
    fn places_are_given_out_soundly(limit in 1u32..12, acts in prop::collection::vec((0u8..7, any::<bool>(), 0usize..4, 0usize..3), 0..300)) {
        const WHO: [&str; 4] = ["a", "b", "c", "d"];
        const MODELS: [&str; 3] = ["x", "y", "z"];
        let mut slots = places(limit, true);
        let now = start();
        let mut sharers = HashSet::new();
        let (mut number, mut waiting, mut running) = (0, Vec::new(), Vec::new());
        for (act, is_batch, who, model) in acts {
            let model = MODELS[model];
            let priority = if is_batch { Priority::Batch } else { Priority::Online };
            match act {
                0..3 => {
                    number += 1;
                    sharers.insert(model);
                    if slots.take(priority, &model, now) {
                        running.push((priority, model, false));
                    } else {
                        slots.join(priority, (&WHO[who], &model), number, number);
                        waiting.push((priority, WHO[who], number, model));
                    }
                }
                3 if !waiting.is_empty() => {
                    let (priority, who, number, _) = waiting.remove(who % waiting.len());
                    prop_assert_eq!(slots.leave(priority, &who, number), Some(number));
                }
                4 if !running.is_empty() => {
                    let at = who % running.len();
                    let (_, model, is_answered) = &mut running[at];
                    if !std::mem::replace(is_answered, true) {
                        slots.answered(model);
                    }
                }
                _ if !running.is_empty() => {
                    let (priority, model, is_answered) = running.remove(who % running.len());
                    slots.ended(priority, &model, is_answered);
                }
                _ => {}
            }
            while let Some((priority, call)) = slots.give(now) {
                let at = waiting.iter().position(|(_, _, number, _)| *number == call).unwrap();
                let (of, _, _, model) = waiting.remove(at);
                prop_assert_eq!(of, priority);
                running.push((priority, model, false));
            }
            prop_assert!(slots.in_use() <= limit);
            prop_assert_eq!(slots.in_use() as usize, running.len());
            let free = limit - slots.in_use();
            // Only models that have their share unanswered are kept from the last places.
            let unanswered = |model: &str| running.iter().filter(|(_, of, is_answered)| *of == model && !is_answered).count();
            let may = |model: &str| free > models::kept(limit) || unanswered(model) * sharers.len() < limit as usize;
            let who: HashSet<_> = waiting.iter().filter(|(.., model)| may(model)).map(|(priority, ..)| *priority).collect();
            prop_assert!(!who.contains(&Priority::Online) || free == 0);
            prop_assert!(!who.contains(&Priority::Batch) || free <= spared(limit) || waiting.iter().any(|(priority, ..)| *priority == Priority::Online));
        }
    }
}
