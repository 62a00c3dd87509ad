//! What a budget keeps of a prompt.

use proptest::prelude::*;

use super::*;

fn message(role: Role, tokens: u64) -> Message<'static> {
    Message { role, tokens, calls: Vec::new(), answers: None, is_passage: false, passages: Vec::new() }
}

fn system(tokens: u64) -> Message<'static> {
    message(Role::System, tokens)
}

fn user(tokens: u64) -> Message<'static> {
    message(Role::User, tokens)
}

fn assistant(tokens: u64) -> Message<'static> {
    message(Role::Assistant, tokens)
}

fn calls(ids: &[&'static str], tokens: u64) -> Message<'static> {
    Message { calls: ids.to_vec(), ..assistant(tokens) }
}

fn result(id: &'static str, tokens: u64) -> Message<'static> {
    Message { answers: Some(id), ..message(Role::Tool, tokens) }
}

fn passage(tokens: u64) -> Message<'static> {
    Message { is_passage: true, ..message(Role::User, tokens) }
}

fn with(passages: &[u64], message: Message<'static>) -> Message<'static> {
    Message { passages: passages.to_vec(), ..message }
}

const HALF: fn(u64) -> Terms = |budget| Terms { budget, retrieval_share: 0.5 };

fn dropped(budget: u64, messages: &[Message<'_>]) -> Vec<usize> {
    fit(HALF(budget), 0, messages).expect("fits").map(|cut| cut.messages).unwrap_or_default()
}

#[test]
fn what_fits_is_left_alone() {
    let messages = [system(10), user(10), assistant(10), user(10)];
    assert_eq!(fit(HALF(40), 0, &messages), Ok(None));
    assert_eq!(fit(HALF(42), 3, &messages).unwrap().unwrap().messages, [1, 2]);
}

#[test]
fn the_oldest_turns_go_first_and_whole() {
    let messages = [system(10), user(10), assistant(20), user(10), assistant(20), user(10)];
    assert_eq!(dropped(79, &messages), [1, 2]);
    assert_eq!(dropped(50, &messages), [1, 2]);
    assert_eq!(dropped(49, &messages), [1, 2, 3, 4]);
    let cut = fit(HALF(49), 0, &messages).unwrap().unwrap();
    assert_eq!((cut.history, cut.retrieval, cut.tokens), (4, 0, 60));
    assert_eq!(fit(HALF(19), 0, &messages), Err(Overflow { needed: 20 }));
}

#[test]
fn system_messages_stay_wherever_they_stand() {
    let messages = [user(10), system(5), assistant(10), system(5), user(10)];
    assert_eq!(dropped(20, &messages), [0, 2]);
}

#[test]
fn the_last_step_stays_and_earlier_ones_go_with_their_results() {
    let messages = [
        user(1),
        calls(&["a", "b"], 10),
        result("a", 10),
        result("b", 10),
        assistant(5),
        calls(&["c"], 10),
        result("c", 30),
    ];
    assert_eq!(dropped(75, &messages), [1, 2, 3]);
    assert_eq!(dropped(45, &messages), [1, 2, 3, 4]);
    assert_eq!(fit(HALF(40), 0, &messages), Err(Overflow { needed: 41 }));
}

#[test]
fn a_result_in_a_later_turn_goes_with_its_call() {
    let messages =
        [user(10), calls(&["a"], 10), user(10), result("a", 10), assistant(10), user(10), assistant(10), user(10)];
    assert_eq!(dropped(75, &messages), [0, 1, 2, 3, 4]);
    // A call whose result stays, stays too, with what stands between them.
    let messages = [user(10), assistant(10), user(10), calls(&["a"], 10), user(10), result("a", 10)];
    assert_eq!(dropped(40, &messages), [0, 1]);
    assert_eq!(fit(HALF(30), 0, &messages), Err(Overflow { needed: 40 }));
}

#[test]
fn what_is_broken_already_is_kept_or_dropped_as_it_is() {
    let messages = [result("lost", 10), user(10), calls(&["a", "b"], 10), result("a", 10), user(10)];
    assert_eq!(dropped(40, &messages), [0]);
    assert_eq!(dropped(39, &messages), [0, 1, 2, 3]);
}

#[test]
fn passages_get_their_share_and_the_last_ones_go_first() {
    let messages = [system(10), with(&[10, 10, 10], user(10)), passage(10), with(&[10], user(10))];
    let cut = fit(HALF(100), 0, &messages).unwrap();
    assert_eq!(cut, None, "50 of 100 tokens are the share");
    // The last question's and what stands before it are the most relevant, then the earlier ones.
    let cut = fit(HALF(60), 0, &messages).unwrap().unwrap();
    assert_eq!((cut.messages, cut.passages, cut.retrieval), (vec![], vec![(1, 1), (1, 2)], 2));
    let cut = fit(HALF(38), 0, &messages).unwrap().unwrap();
    assert_eq!((cut.messages, cut.passages, cut.history), (vec![1], vec![(3, 0)], 1));
}

#[test]
fn further_passages_go_before_a_prompt_is_refused() {
    let messages = [with(&[4, 4], system(10)), user(10)];
    let terms = Terms { budget: 25, retrieval_share: 1.0 };
    let cut = fit(terms, 0, &messages).unwrap().unwrap();
    assert_eq!((cut.passages, cut.tokens), (vec![(0, 1)], 4));
}

#[test]
fn without_a_question_the_last_message_stands_for_it() {
    assert_eq!(dropped(20, &[assistant(10), assistant(10), assistant(10)]), [0, 1]);
    assert_eq!(fit(HALF(5), 0, &[]), Ok(None));
    assert_eq!(fit(HALF(5), 6, &[system(1)]), Err(Overflow { needed: 7 }));
}

fn any_message() -> impl Strategy<Value = Message<'static>> {
    const IDS: [&str; 4] = ["a", "b", "c", "d"];
    let id = || (0..4usize).prop_map(|at| IDS[at]);
    prop_oneof![
        (0..50u64).prop_map(system),
        (0..50u64, prop::collection::vec(0..50u64, 0..3)).prop_map(|(own, inside)| with(&inside, user(own))),
        (0..50u64).prop_map(assistant),
        (prop::collection::vec(id(), 1..3), 0..50u64).prop_map(|(ids, own)| Message { calls: ids, ..assistant(own) }),
        (id(), 0..50u64).prop_map(|(id, own)| result(id, own)),
        (0..50u64).prop_map(passage),
    ]
}

proptest! {
    #[test]
    fn laws_hold_for_any_conversation(
        messages in prop::collection::vec(any_message(), 0..14),
        budget in 1..400u64,
        retrieval_share in 0.01..1.0f64,
        fixed in 0..10u64,
    ) {
        let terms = Terms { budget, retrieval_share };
        let whole: u64 = fixed + messages.iter().map(|one| one.tokens + one.passages.iter().sum::<u64>()).sum::<u64>();
        let cut = match fit(terms, fixed, &messages) {
            Err(overflow) => {
                prop_assert!(overflow.needed > budget);
                return Ok(());
            }
            Ok(cut) => cut.unwrap_or_default(),
        };
        let stays = |at: usize| !cut.messages.contains(&at);
        let left: u64 = messages.iter().enumerate().filter(|(at, _)| stays(*at)).map(|(at, one)| {
            let inside = one.passages.iter().enumerate().filter(|(which, _)| !cut.passages.contains(&(at, *which)));
            one.tokens + inside.map(|(_, tokens)| *tokens).sum::<u64>()
        }).sum::<u64>() + fixed;
        prop_assert!(left <= budget);
        prop_assert_eq!(whole - left, cut.tokens);
        let question = messages.iter().rposition(|one| one.role == Role::User && !one.is_passage);
        for (at, one) in messages.iter().enumerate() {
            if one.role == Role::System || Some(at) == question {
                prop_assert!(stays(at), "message {at} is kept always");
            }
            // A result stays exactly if the call stays that it is the result of.
            let caller = one.answers.and_then(|id| messages.iter().take(at).rposition(|other| other.calls.contains(&id)));
            if let Some(caller) = caller {
                prop_assert_eq!(stays(at), stays(caller), "result {} and call {}", at, caller);
            }
        }
    }
}
