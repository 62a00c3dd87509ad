//! What tests say of pairs of questions, each way round.

use semantic::guards::{Guard, Question, compare};

fn verdict(a: &str, b: &str) -> Result<(), Guard> {
    compare(&Question::read(a), &Question::read(b))
}

pub fn each_differs(pairs: &[(&str, &str)]) {
    let passed: Vec<_> = pairs.iter().filter(|(a, b)| verdict(a, b).is_ok() || verdict(b, a).is_ok()).collect();
    assert!(passed.is_empty(), "{passed:?}");
}

pub fn each_is_the_same(pairs: &[(&str, &str)]) {
    let refused: Vec<_> =
        pairs.iter().filter(|(a, b)| verdict(a, b).is_err()).map(|(a, b)| (a, b, verdict(a, b))).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
