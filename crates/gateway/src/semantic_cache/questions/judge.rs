//! Which of the nearest questions is the same one.

use std::sync::Arc;

use config::Overruled;
use semantic::guards::{Guard, Question, compare, differences, only_words_differ};
use smallvec::SmallVec;

use super::readings::Readings;
use super::shelf::Candidate;

/// What the nearest questions have come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// The one that is the same.
    pub found: Option<Candidate>,
    /// Where none is: the nearest of those that only guards call different which may be overruled, and by which guard.
    pub open: Option<(Candidate, Guard)>,
    /// One that was the same by its words, but others that are different stood too near.
    pub too_close: Option<Candidate>,
    /// The nearest that is different, and by which guard.
    pub different: Option<(Candidate, Guard)>,
    /// Those that are different, by the guards that say so.
    pub refused: SmallVec<[Guard; 4]>,
}

/// What a question must come up to.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// The least similarity.
    pub threshold: f64,
    /// How far it must stand above every question that is a different one.
    pub margin: f64,
    /// Guards that may be overruled.
    pub overrules: &'a [Overruled],
}

impl Bar<'_> {
    /// Whether nothing but guards that may be overruled tells them apart, of which `found` was the first.
    fn leaves_open(&self, found: Guard, one: &Question, two: &Question) -> bool {
        let may_be = |guard: &Guard| self.overrules.iter().any(|overruled| overruled.as_str() == guard.name());
        may_be(&found) && only_words_differ(one, two) && differences(one, two).iter().all(may_be)
    }
}

/// Judges the nearest questions, the nearest first. One is the same where it is at least `threshold` near, its words
/// pass the guards, and every question that they call a different one is further away by `margin`.
#[must_use]
pub fn judge(readings: &Readings, text: &Arc<str>, nearest: &[Candidate], bar: Bar<'_>) -> Judged {
    let mut judged = among(readings, text, nearest, bar);
    // Nobody needs to be asked where one is the same by its words, also where that is not served.
    if (judged.found.is_some() || judged.too_close.is_some())
        && let Some((_, guard)) = judged.open.take()
    {
        judged.refused.push(guard);
    }
    judged
}

fn among(readings: &Readings, text: &Arc<str>, nearest: &[Candidate], bar: Bar<'_>) -> Judged {
    let Bar { threshold, margin, .. } = bar;
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
        let known = readings.of(&candidate.text);
        match compare(&asked.question, &known.question) {
            Ok(()) => best = best.or(Some(candidate)),
            Err(guard) => {
                let is_first = judged.open.is_none() && best.is_none();
                if is_first && bar.leaves_open(guard, &asked.question, &known.question) {
                    judged.open = Some((candidate.clone(), guard));
                } else {
                    judged.refused.push(guard);
                }
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
            // What follows is no nearer: another model may at most be asked about it.
            None if margin > 0.0 && bar.overrules.is_empty() => return judged,
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

    fn judged(text: &str, nearest: &[(&str, f32)], bar: Bar<'_>) -> Judged {
        let nearest: Vec<_> = nearest.iter().map(|(text, similarity)| candidate(text, *similarity)).collect();
        judge(&Readings::default(), &text.into(), &nearest, bar)
    }

    fn found(text: &str, nearest: &[(&str, f32)], (threshold, margin): (f64, f64)) -> (Option<String>, bool, usize) {
        let judged = judged(text, nearest, Bar { threshold, margin, overrules: &[] });
        assert_eq!(judged.open, None, "nobody is asked");
        (judged.found.map(|found| found.text.to_string()), judged.too_close.is_some(), judged.refused.len())
    }

    /// What another model is to be asked about, and how many are refused without it.
    fn open(nearest: &[(&str, f32)], margin: f64, overrules: &[Overruled]) -> (Option<String>, usize) {
        let judged = judged(ASKED, nearest, Bar { threshold: 0.9, margin, overrules });
        (judged.open.map(|(open, _)| open.text.to_string()), judged.refused.len())
    }

    const SAME: &str = "How can I reset my password?";
    const ASKED: &str = "How do I reset my password?";
    const OTHER: &str = "How do I change my username?";
    /// The same in other words.
    const FREE: &str = "How do I get a new login secret?";

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
    fn what_only_words_tell_apart_is_open_where_they_may_be_overruled() {
        let all = &Overruled::ALL;
        assert_eq!(open(&[(FREE, 0.95)], 0.02, all), (Some(FREE.to_owned()), 0));
        assert_eq!(open(&[(FREE, 0.95)], 0.02, &[Overruled::Scope]), (None, 1), "another guard may be");
        assert_eq!(open(&[(FREE, 0.89)], 0.02, all), (None, 0), "below the threshold");
        assert_eq!(open(&[("How do I not reset my password?", 0.99)], 0.02, all), (None, 1), "what is said is another");
        assert_eq!(open(&[("How do I reset my 2 passcodes?", 0.99)], 0.02, all), (None, 1), "not by words alone");
        assert_eq!(open(&[("How do I reset → my password?", 0.99)], 0.02, all), (None, 1), "a sign is no word");
    }

    #[test]
    fn only_the_nearest_that_is_open_is_asked_about_and_only_where_none_is_the_same() {
        for margin in [0.0, 0.02] {
            let refused = open(&[("How do I not reset my password?", 0.97), (FREE, 0.95)], margin, &Overruled::ALL);
            assert_eq!(refused, (Some(FREE.to_owned()), 1), "behind one that is firmly different");
        }
        for (margin, nearest) in [(0.02, [(FREE, 0.96), (SAME, 0.95)]), (0.0, [(FREE, 0.96), (SAME, 0.95)])] {
            assert_eq!(
                open(&nearest, margin, &Overruled::ALL).0,
                None,
                "nor where the same one stands too near another"
            );
        }
        let bar = Bar { threshold: 0.9, margin: 0.0, overrules: &Overruled::ALL };
        let judged = judged(ASKED, &[(FREE, 0.96), (SAME, 0.96)], bar);
        assert_eq!((judged.open, judged.refused.len()), (None, 1), "nobody needs to be asked");
        assert_eq!(judged.found.unwrap().text.as_ref(), SAME);
    }

    #[test]
    fn without_a_margin_the_first_that_passes_is_taken() {
        let terms = (0.9, 0.0);
        assert_eq!(found(ASKED, &[(OTHER, 0.96), (SAME, 0.96)], terms), (Some(SAME.to_owned()), false, 1));
    }
}
