//! Precision and recall by threshold, and which threshold does what is wished.

use semantic::guards::{self, Guard, Question};

use super::embed::{Vectors, cosine};
use super::pairs::Pair;

/// A pair with what the model and the guards say of it.
pub struct Judged {
    pub lang: String,
    pub same: bool,
    pub similarity: f64,
    /// Every guard that finds a difference.
    pub guards: Vec<Guard>,
    /// The one that is asked first.
    pub first: Option<Guard>,
}

impl Judged {
    /// Judges a pair.
    pub fn new(pair: &Pair, vectors: &Vectors) -> Self {
        let (one, two) = (Question::read(&pair.a), Question::read(&pair.b));
        Self {
            lang: pair.lang.clone(),
            same: pair.same,
            similarity: cosine(vectors, &pair.a, &pair.b),
            guards: guards::differences(&one, &two),
            first: guards::compare(&one, &two).err(),
        }
    }
}

/// What is wished of the hits.
pub struct Wish {
    /// Of a hundred hits, so many must be right: above 0, up to 1.
    pub precision: f64,
}

impl Wish {
    /// By the share of right hits, or of false ones.
    ///
    /// # Errors
    /// A sentence that names the range.
    pub fn new(precision: f64, false_hits: Option<f64>) -> Result<Self, String> {
        let precision = false_hits.map_or(precision, |share| 1.0 - share);
        if precision > 0.0 && precision <= 1.0 {
            Ok(Self { precision })
        } else {
            Err("--precision is above 0 and up to 1 (0.95: of a hundred hits 95 are right), --false-hits from 0 and below 1".to_owned())
        }
    }
}

/// What a threshold does to the pairs of one language.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub threshold: f64,
    pub hits: usize,
    pub wrong: usize,
    /// Pairs that are the same.
    pub same: usize,
}

impl Point {
    /// The share of hits that are right; 1 where nothing is hit.
    pub fn precision(&self) -> f64 {
        if self.hits + self.wrong == 0 { 1.0 } else { share(self.hits, self.hits + self.wrong) }
    }

    /// The share of paraphrases that are hit.
    pub fn recall(&self) -> f64 {
        share(self.hits, self.same)
    }

    /// The most that the true share of false hits may be, with 95 % certainty (Wilson's bound).
    pub fn worst(&self) -> f64 {
        let (wrong, all) = (as_f64(self.wrong), as_f64(self.hits + self.wrong));
        if all == 0.0 {
            return 1.0;
        }
        let z = 1.645;
        let (mean, spread) = (wrong / all, z * z / all);
        let root = (mean * (1.0 - mean) * spread + spread * spread / 4.0).sqrt();
        (mean + spread / 2.0 + root) / (1.0 + spread)
    }
}

/// The pairs of one language, by threshold.
pub struct Curve {
    pub lang: String,
    pub same: usize,
    pub different: usize,
    /// From the lowest threshold to the highest, without the guards and with them.
    pub plain: Vec<Point>,
    pub guarded: Vec<Point>,
    /// How many different and how many same pairs each guard refuses first.
    pub refused: Vec<(Guard, usize, usize)>,
    /// With all guards but one.
    pub without: Vec<(Guard, Vec<Point>)>,
}

impl Curve {
    /// Of the pairs in this language.
    pub fn new(lang: &str, judged: &[Judged]) -> Self {
        let pairs: Vec<&Judged> = judged.iter().filter(|pair| pair.lang == lang).collect();
        let of = |served: &dyn Fn(&Judged) -> bool| -> Vec<Point> {
            thresholds().map(|threshold| at(threshold, &pairs, served)).collect()
        };
        let refused = Guard::ALL.into_iter().map(|guard| {
            let count = |same: bool| pairs.iter().filter(|pair| pair.first == Some(guard) && pair.same == same).count();
            (guard, count(false), count(true))
        });
        let refused: Vec<(Guard, usize, usize)> = refused.filter(|(_, wrong, right)| wrong + right > 0).collect();
        let without =
            refused.iter().map(|(guard, ..)| (*guard, of(&|pair| pair.guards.iter().all(|found| found == guard))));
        Self {
            lang: lang.to_owned(),
            same: pairs.iter().filter(|pair| pair.same).count(),
            different: pairs.iter().filter(|pair| !pair.same).count(),
            plain: of(&|_| true),
            guarded: of(&|pair| pair.guards.is_empty()),
            without: without.collect(),
            refused,
        }
    }

    /// The threshold with the most recall at this precision, and of several the highest; none where it is never
    /// reached by a hit.
    pub fn best(points: &[Point], wish: &Wish) -> Option<Point> {
        let good = points.iter().filter(|point| point.hits > 0 && point.precision() >= wish.precision);
        good.copied().max_by(|one, two| one.hits.cmp(&two.hits).then(one.threshold.total_cmp(&two.threshold)))
    }

    /// What this threshold does.
    pub fn at(points: &[Point], threshold: f64) -> Option<Point> {
        points.iter().find(|point| point.threshold >= threshold - 1e-9).copied()
    }

    /// The thresholds worth a row: from where all paraphrases are hit to where none is.
    pub fn rows(&self) -> Vec<f64> {
        let full = self.plain.iter().filter(|point| point.hits == self.same).count();
        let none = self.plain.iter().filter(|point| point.hits > 0).count();
        let (low, high) = (full.saturating_sub(1), none.min(self.plain.len().saturating_sub(1)));
        let step = ((high.saturating_sub(low)) / 12).max(1);
        (low..=high).step_by(step).filter_map(|at| self.plain.get(at)).map(|point| point.threshold).collect()
    }
}

/// From 0.500 to 0.999.
fn thresholds() -> impl Iterator<Item = f64> {
    (100_u32..200).flat_map(|step| (0..5).map(move |part| f64::from(step * 5 + part) / 1000.0))
}

fn at(threshold: f64, pairs: &[&Judged], served: &dyn Fn(&Judged) -> bool) -> Point {
    let count = |same: bool| {
        pairs.iter().filter(|pair| pair.same == same && pair.similarity >= threshold && served(pair)).count()
    };
    let same = pairs.iter().filter(|pair| pair.same).count();
    Point { threshold, hits: count(true), wrong: count(false), same }
}

/// One threshold for all languages that the model knows: of those at which each of them gets what is wished, the one
/// with most hits, and of several the highest. None where there is none.
pub fn advise(curves: &[Curve], wish: &Wish, trapped: &[&str]) -> Option<f64> {
    let known: Vec<&Curve> = curves.iter().filter(|curve| !trapped.contains(&curve.lang.as_str())).collect();
    let hits = |threshold: f64| -> Option<usize> {
        let points = known.iter().map(|curve| Curve::at(&curve.guarded, threshold));
        let good = points.map(|point| point.filter(|point| point.hits > 0 && point.precision() >= wish.precision));
        good.map(|point| point.map(|point| point.hits)).sum()
    };
    if known.is_empty() {
        return None;
    }
    let fitting = thresholds().filter_map(|threshold| Some((hits(threshold)?, threshold)));
    fitting.max_by(|one, two| one.0.cmp(&two.0).then(one.1.total_cmp(&two.1))).map(|(_, threshold)| threshold)
}

/// A count as a number to reckon with.
pub fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { as_f64(part) / as_f64(whole) }
}

#[cfg(test)]
mod tests {
    use semantic::guards::Guard;

    use super::{Curve, Judged, Point, Wish, advise};

    fn judged(lang: &str, same: bool, similarity: f64, guard: Option<Guard>) -> Judged {
        Judged { lang: lang.to_owned(), same, similarity, guards: guard.into_iter().collect(), first: guard }
    }

    /// Two paraphrases below two near misses, one of which a guard refuses.
    fn pairs(lang: &str, other: Option<Guard>) -> Vec<Judged> {
        vec![
            judged(lang, true, 0.90, None),
            judged(lang, true, 0.86, None),
            judged(lang, false, 0.97, Some(Guard::Number)),
            judged(lang, false, 0.87, other),
        ]
    }

    #[test]
    fn the_highest_of_the_thresholds_with_most_hits_is_best() {
        let wish = Wish::new(0.95, None).unwrap();
        let curve = Curve::new("en", &pairs("en", Some(Guard::Entity)));
        assert_eq!(Curve::best(&curve.plain, &wish), None, "near misses stand above the paraphrases");
        let best = Curve::best(&curve.guarded, &wish).unwrap();
        assert_eq!((best.threshold, best.hits, best.wrong), (0.86, 2, 0));
        assert_eq!(curve.refused, [(Guard::Number, 1, 0), (Guard::Entity, 1, 0)]);
        let (_, without) = &curve.without[1];
        assert_eq!(Curve::at(without, 0.86).unwrap().wrong, 1, "what this guard alone refuses");
    }

    #[test]
    fn one_threshold_serves_every_language_that_the_model_knows() {
        let wish = Wish::new(0.95, None).unwrap();
        let judged: Vec<Judged> = pairs("en", None).into_iter().chain(pairs("zh", Some(Guard::Entity))).collect();
        let curves = [Curve::new("en", &judged), Curve::new("zh", &judged)];
        assert_eq!(advise(&curves, &wish, &[]), Some(0.9));
        assert_eq!(advise(&curves, &wish, &["en"]), Some(0.86));
        assert_eq!(advise(&curves, &wish, &["en", "zh"]), None);
    }

    #[test]
    fn few_hits_prove_little() {
        let worst = |hits, wrong| Point { threshold: 0.9, hits, wrong, same: hits }.worst();
        assert!((worst(20, 0) - 0.119).abs() < 0.01, "{}", worst(20, 0));
        assert!(worst(2000, 0) < 0.002);
        assert!(worst(95, 5) > 0.05);
    }

    #[test]
    fn a_wish_is_a_share() {
        assert!((Wish::new(0.95, Some(0.02)).unwrap().precision - 0.98).abs() < 1e-9);
        assert!(Wish::new(95.0, None).is_err());
        assert!(Wish::new(0.95, Some(1.0)).is_err());
    }
}
