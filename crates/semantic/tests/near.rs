//! Near misses of English questions put to a company's knowledge base, and the words that they must not be confused with.

use semantic::guards::{Guard, Question, compare};

/// By area, one pair a line: the same frame with another action, thing, person or direction.
const NEAR: &str = include_str!("data/near-en.txt");

fn verdict(a: &str, b: &str) -> Result<(), Guard> {
    compare(&Question::read(a), &Question::read(b))
}

#[test]
fn near_misses_of_every_area_are_refused() {
    let pairs = NEAR.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let served: Vec<&str> = pairs
        .filter(|line| {
            let (a, b) = line.split_once(" | ").unwrap();
            verdict(a, b).is_ok() || verdict(b, a).is_ok()
        })
        .collect();
    assert!(served.is_empty(), "{served:#?}");
}

#[test]
fn what_changes_sides_of_a_preposition_is_told_whatever_the_dictionary_takes_it_for() {
    for (a, b) in [
        ("How do I merge develop into main?", "How do I merge main into develop?"),
        ("How do I merge develop into main?", "What are the steps to merge main into develop?"),
        ("How is develop merged into main?", "How do I merge main into develop?"),
        (
            "How do I merge the develop branch into the main branch?",
            "How can I merge the main branch into the develop branch?",
        ),
        ("How do I copy live into test?", "How can I copy test into live?"),
        ("How do I put legal under finance?", "What is the way to put finance under legal?"),
        ("How do I rebase feature onto main?", "What is the way to rebase main onto feature?"),
        ("How do I roll finance into legal?", "How can I roll my legal into my finance?"),
        ("How do I restore live from backup?", "How can I restore backup from live?"),
        ("How do I cherry-pick from main to develop?", "How can I cherry-pick from develop to main?"),
        ("How do I load draft over final?", "How can I load final over draft?"),
        ("How do I import Jira into Confluence?", "How can I import Confluence into Jira?"),
        ("Why does deploy depend on build?", "Why does build depend on deploy?"),
    ] {
        assert_eq!(verdict(a, b), Err(Guard::Direction), "{a} / {b}");
    }
    for (a, b) in [
        ("How do I merge develop into main?", "How can I merge develop into main?"),
        ("How is develop merged into main?", "How do I merge develop into main?"),
        ("How do I get from Berlin to Paris?", "How do I get to Paris from Berlin?"),
        ("What is the difference between basic and advanced?", "What is the difference between advanced and basic?"),
    ] {
        assert_eq!(verdict(a, b), Ok(()), "{a} / {b}");
    }
}

#[test]
fn the_company_and_its_staff_go_without_saying_unless_they_do_the_same() {
    for (a, b, same) in [
        ("Does the company offer life insurance?", "Is there life insurance?", true),
        ("Does our employer provide life insurance?", "Do I get life insurance?", true),
        ("Is there a shower at the workplace?", "Is there a shower in the office?", true),
        ("Does the company pay for the course?", "Do I pay for the course?", false),
        ("Does the company pay for the course?", "Do employees pay for the course?", false),
        (
            "How much does the employer contribute to the pension?",
            "How much does the employee contribute to the pension?",
            false,
        ),
    ] {
        assert_eq!(verdict(a, b).is_ok(), same, "{a} / {b}: {:?}", verdict(a, b));
    }
}

#[test]
fn a_misspelt_word_is_the_one_that_it_is_nearest_to() {
    for (a, b, same) in [
        ("What is the cancelation fee?", "What is the cancellation fee?", true),
        ("Which accomodation is covered?", "Which accommodation is covered?", true),
        ("How do I install Kubernets?", "How do I install a cabinet?", false),
        ("Who approves overtime?", "Who approves undertime?", false),
        ("How do I encrypt a file?", "How do I decrypt a file?", false),
    ] {
        assert_eq!(verdict(a, b).is_ok(), same, "{a} / {b}: {:?}", verdict(a, b));
    }
}
