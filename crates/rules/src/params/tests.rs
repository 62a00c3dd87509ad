//! Policies and what they make of what callers wrote.

use super::*;

fn rule(make: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::default();
    make(&mut rule);
    rule
}

fn number(value: &str) -> Option<Setting> {
    Some(Setting::new(value))
}

fn policy(path: &str, make: impl FnOnce(&mut Rule)) -> Policy {
    let mut policy = Policy::default();
    policy.add(path, rule(make));
    policy
}

/// The verdict of a route's policy and a client's over their one field.
fn judged<'a>(route: &'a Policy, client: &'a Policy, written: Written) -> Verdict<'a> {
    let ruled: Vec<Ruled<'_>> = ruled(route, client, Endpoint::Chat).collect();
    assert_eq!(ruled.len(), 1, "one field");
    ruled[0].judge(written)
}

const NONE: Policy = Policy { fields: Vec::new(), of_rerank: Vec::new() };

#[test]
fn a_number_is_held_between_its_bounds_and_its_digits_stay_inside() {
    let policy = policy("temperature", |rule| (rule.min, rule.max) = (number("0.1"), number("1.0")));
    for (written, verdict) in [
        (Written::Number(0.5), Verdict::Keep),
        (Written::Number(1.0), Verdict::Keep),
        (Written::Number(1.1), Verdict::Set("1.0", By::Max)),
        (Written::Number(f64::INFINITY), Verdict::Set("1.0", By::Max)),
        (Written::Number(-1.0), Verdict::Set("0.1", By::Min)),
        (Written::Nothing, Verdict::Keep),
        (Written::Other, Verdict::NotANumber),
    ] {
        assert_eq!(judged(&policy, &NONE, written), verdict, "{written:?}");
    }
}

#[test]
fn force_overrules_and_default_fills_in() {
    let forced = policy("temperature", |rule| rule.force = number("0.2"));
    assert_eq!(judged(&forced, &NONE, Written::Nothing), Verdict::Set("0.2", By::Force));
    assert_eq!(judged(&forced, &NONE, Written::Other), Verdict::Set("0.2", By::Force));
    assert_eq!(judged(&forced, &NONE, Written::Number(0.2)), Verdict::Keep, "0.20 stays 0.20");
    let filled = policy("top_p", |rule| rule.default = number("0.9"));
    assert_eq!(judged(&filled, &NONE, Written::Nothing), Verdict::Set("0.9", By::Default));
    assert_eq!(judged(&filled, &NONE, Written::Number(0.1)), Verdict::Keep);
    assert_eq!(judged(&filled, &NONE, Written::Other), Verdict::Keep, "the upstream judges it");
}

#[test]
fn a_forced_null_leaves_the_field_out() {
    let policy = policy("stop", |rule| rule.force = number("null"));
    assert_eq!(judged(&policy, &NONE, Written::Other), Verdict::Remove(By::Force));
    assert_eq!(judged(&policy, &NONE, Written::Nothing), Verdict::Keep);
}

#[test]
fn a_denied_field_may_still_be_forced_where_nobody_wrote_it() {
    let policy = policy("seed", |rule| (rule.deny, rule.force) = (true, number("1")));
    assert_eq!(judged(&policy, &NONE, Written::Number(1.0)), Verdict::Denied);
    assert_eq!(judged(&policy, &NONE, Written::Nothing), Verdict::Set("1", By::Force));
}

#[test]
fn of_a_route_and_a_client_the_stricter_holds() {
    let high = policy("n", |rule| (rule.min, rule.max) = (number("1"), number("8")));
    let low = policy("n", |rule| (rule.min, rule.max) = (number("2"), number("4")));
    for (route, client) in [(&high, &low), (&low, &high)] {
        assert_eq!(judged(route, client, Written::Number(6.0)), Verdict::Set("4", By::Max));
        assert_eq!(judged(route, client, Written::Number(1.0)), Verdict::Set("2", By::Min));
    }
    let denied = policy("n", |rule| rule.deny = true);
    assert_eq!(judged(&high, &denied, Written::Number(2.0)), Verdict::Denied);
    assert_eq!(judged(&denied, &high, Written::Number(2.0)), Verdict::Denied);
    let floor = policy("n", |rule| rule.min = number("6"));
    assert_eq!(judged(&low, &floor, Written::Number(5.0)), Verdict::Set("4", By::Max), "a ceiling beats a floor");
    assert_eq!(judged(&low, &floor, Written::Number(3.0)), Verdict::Set("4", By::Max));
}

#[test]
fn what_one_forces_the_others_bounds_still_hold() {
    let route = policy("n", |rule| (rule.force, rule.max) = (number("9"), number("3")));
    assert_eq!(
        judged(&route, &NONE, Written::Number(1.0)),
        Verdict::Set("9", By::Force),
        "force is a policy's last word"
    );
    let client = policy("n", |rule| rule.max = number("5"));
    assert_eq!(judged(&route, &client, Written::Number(1.0)), Verdict::Set("5", By::Max));
    let client = policy("n", |rule| rule.force = number("7"));
    assert_eq!(
        judged(&route, &client, Written::Nothing),
        Verdict::Set("3", By::Max),
        "the lower, within the route's bounds"
    );
    let (one, other) =
        (policy("stop", |rule| rule.force = number("\"a\"")), policy("stop", |rule| rule.force = number("\"b\"")));
    assert_eq!(judged(&one, &other, Written::Nothing), Verdict::Set("\"a\"", By::Force), "the route's");
}

#[test]
fn an_answer_without_a_limit_is_given_the_ceiling() {
    let policy = policy("max_completion_tokens", |rule| rule.max = number("500"));
    for (written, verdict) in [
        (Written::Nothing, Verdict::Set("500", By::Max)),
        (Written::Number(0.0), Verdict::Set("500", By::Max)),
        (Written::Number(-1.0), Verdict::Set("500", By::Max)),
        (Written::Number(1.0), Verdict::Keep),
        (Written::Number(4000.0), Verdict::Set("500", By::Max)),
        (Written::Other, Verdict::NotANumber),
    ] {
        assert_eq!(judged(&policy, &NONE, written), verdict, "{written:?}");
    }
}

#[test]
fn the_limits_names_are_one_field() {
    let mut route = policy("max_tokens", |rule| rule.max = number("500"));
    route.add("max_completion_tokens", rule(|rule| (rule.max, rule.default) = (number("400"), number("100"))));
    let client = policy("max_output_tokens", |rule| rule.max = number("50"));
    assert_eq!(judged(&route, &NONE, Written::Number(450.0)), Verdict::Set("400", By::Max));
    assert_eq!(judged(&route, &client, Written::Nothing), Verdict::Set("50", By::Max));
    assert_eq!(route.fields()[0].limit, Some("max_tokens"), "the first name that was written");
}

#[test]
fn fields_of_both_are_each_told_once() {
    let mut route = policy("a.b", |rule| rule.deny = true);
    route.add("c", rule(|rule| rule.deny = true));
    let mut client = policy("a.b", |rule| rule.deny = true);
    client.add("a", rule(|rule| rule.deny = true));
    let paths: Vec<String> = ruled(&route, &client, Endpoint::Chat).map(|ruled| ruled.field.path.join(".")).collect();
    assert_eq!(paths, ["a.b", "c", "a"]);
}

#[test]
fn names_of_rerank_are_one_field_there_and_nowhere_else() {
    let mut route = policy("top_n", |rule| rule.max = number("20"));
    route.add("top_k", rule(|rule| rule.max = number("10")));
    route.add("top_k.x", rule(|rule| rule.deny = true));
    let client = policy("top_k", |rule| rule.max = number("5"));
    let told = |endpoint| {
        let all = ruled(&route, &client, endpoint);
        all.map(|ruled| (ruled.field.path.join("."), ruled.judge(Written::Number(500.0)))).collect::<Vec<_>>()
    };
    assert_eq!(told(Endpoint::Rerank), [("top_n".to_owned(), Verdict::Set("5", By::Max))]);
    let elsewhere = [
        ("top_n".to_owned(), Verdict::Set("20", By::Max)),
        ("top_k".to_owned(), Verdict::Set("5", By::Max)),
        ("top_k.x".to_owned(), Verdict::Denied),
    ];
    assert_eq!(told(Endpoint::Chat), elsewhere);
}
