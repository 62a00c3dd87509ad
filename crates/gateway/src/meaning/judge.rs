//! Which of the nearest questions is the same one.

use std::sync::Arc;

use semantic::guards::{Guard, compare};
use smallvec::SmallVec;

use super::readings::Readings;
use super::shelf::Candidate;

/// What the nearest questions have come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// The one that is the same.
    pub found: Option<Candidate>,
    /// One that was the same by its words, but others that are different stood too near.
    pub too_close: Option<Candidate>,
    /// The nearest that is different, and by which guard.
    pub different: Option<(Candidate, Guard)>,
    /// Those that are different, by the guards that say so.
    pub refused: SmallVec<[Guard; 4]>,
}

/// Judges the nearest questions, the nearest first. One is the same where it is at least `threshold` near, its words
/// pass the guards, and every question that they call a different one is further away by `margin`.
#[must_use]
pub fn judge(
    (readings, text): (&Readings, &Arc<str>),
    nearest: &[Candidate],
    (threshold, margin): (f64, f64),
) -> Judged {
    let mut judged = Judged::default();
    let (mut asked, mut best, mut different) = (None, None::<&Candidate>, None::<f64>);
    for candidate in nearest {
        let similarity = f64::from(candidate.similarity);
        let least = best.map_or(threshold, |best| f64::from(best.similarity) - margin);
        // Nothing further away changes anything any more.
        if similarity < least {
            break;
        }
        let asked = asked.get_or_insert_with(|| readings.of(text));
        match compare(&asked.question, &readings.of(&candidate.text).question) {
            Ok(()) => best = best.or(Some(candidate)),
            Err(guard) => {
                judged.refused.push(guard);
                judged.different.get_or_insert_with(|| (candidate.clone(), guard));
                different.get_or_insert(similarity);
            }
        }
        let Some(different) = different else { continue };
        match best {
            Some(best) if different > f64::from(best.similarity) - margin => {
                judged.too_close = Some(best.clone());
                return judged;
            }
            // What follows is no nearer.
            None if margin > 0.0 => return judged,
            _ => {}
        }
    }
    judged.found = best.cloned();
    judged
}

#[cfg(test)]
mod tests {
    use semantic::index::Partition;
    use state::answers::Key;

    use super::super::Place;
    use super::*;

    fn candidate(text: &str, similarity: f32) -> Candidate {
        let place = Place { partition: Partition([0; 32]), id: 0 };
        Candidate { place, text: Arc::from(text), answer: Key([0; 32]), similarity }
    }

    fn found(text: &str, nearest: &[(&str, f32)], terms: (f64, f64)) -> (Option<String>, bool, usize) {
        let nearest: Vec<_> = nearest.iter().map(|(text, similarity)| candidate(text, *similarity)).collect();
        let judged = judge((&Readings::default(), &text.into()), &nearest, terms);
        (judged.found.map(|found| found.text.to_string()), judged.too_close.is_some(), judged.refused.len())
    }

    const SAME: &str = "How can I reset my password?";
    const ASKED: &str = "How do I reset my password?";
    const OTHER: &str = "How do I change my username?";

    #[test]
    fn the_nearest_that_passes_is_the_same() {
        let terms = (0.9, 0.02);
        assert_eq!(found(ASKED, &[(SAME, 0.95)], terms), (Some(SAME.to_owned()), false, 0));
        assert_eq!(found(ASKED, &[(SAME, 0.95), (OTHER, 0.92)], terms), (Some(SAME.to_owned()), false, 0));
        assert_eq!(found(ASKED, &[(SAME, 0.89)], terms), (None, false, 0), "below the threshold");
        assert_eq!(found(ASKED, &[], terms), (None, false, 0));
    }

    #[test]
    fn a_different_question_must_be_further_away_by_the_margin() {
        let terms = (0.9, 0.02);
        assert_eq!(found(ASKED, &[(SAME, 0.95), (OTHER, 0.94)], terms), (None, true, 1));
        assert_eq!(found(ASKED, &[(OTHER, 0.96), (SAME, 0.95)], terms), (None, false, 1));
        assert_eq!(found(ASKED, &[(SAME, 0.905), (OTHER, 0.895)], terms), (None, true, 1), "also below the threshold");
    }

    #[test]
    fn without_a_margin_the_first_that_passes_is_taken() {
        let terms = (0.9, 0.0);
        assert_eq!(found(ASKED, &[(OTHER, 0.96), (SAME, 0.96)], terms), (Some(SAME.to_owned()), false, 1));
    }
}
