//! Precision and recall by threshold, and which threshold does what is wished.

use config::Overruled;
use semantic::guards::{self, Guard, Question};
use serde_json::{Value, json};

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
    /// Whether no more than words tells them apart, as far as can be seen.
    pub only_words_differ: bool,
    /// Whether another model says that they are the same, where it was asked.
    pub is_verified: Option<bool>,
    /// How well they fit, where it tells that.
    pub score: Option<f64>,
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
            only_words_differ: guards::only_words_differ(&one, &two),
            is_verified: None,
            score: None,
        }
    }

    /// Whether no guard calls them different, but such as another model may overrule.
    pub fn is_open(&self) -> bool {
        let may_be = |guard: &Guard| Overruled::of(guard.name()).is_some();
        self.guards.is_empty() || self.only_words_differ && self.guards.iter().all(may_be)
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

    /// Of a hundred hits, so many may be false.
    pub fn false_hits(&self) -> f64 {
        1.0 - self.precision
    }
}

/// Hits beyond which more are not worth the counting.
const MOST_HITS: usize = 100_000;

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

    /// The precision as it is shown: that of no hits is none.
    pub fn shown(&self) -> String {
        shown(self.hits, self.wrong)
    }

    /// For programs.
    pub fn told(&self) -> Value {
        json!({
            "threshold": self.threshold, "hits": self.hits, "false": self.wrong,
            "precision": self.precision(), "recall": self.recall(), "false_at_most": self.worst(),
        })
    }

    /// The share of paraphrases that are hit.
    pub fn recall(&self) -> f64 {
        share(self.hits, self.same)
    }

    /// The most that the true share of false hits may be, with 95 % certainty (Wilson's bound).
    pub fn worst(&self) -> f64 {
        self.worst_of(self.hits)
    }

    /// Whether what is wished is sure, and no guess from few hits.
    pub fn is_sure(&self, wish: &Wish) -> bool {
        self.worst() <= wish.false_hits()
    }

    /// How many more hits, none of them false, would make it sure; none where no number of them would.
    pub fn hits_to_be_sure(&self, wish: &Wish) -> Option<usize> {
        let is_sure = |more: usize| self.worst_of(self.hits + more) <= wish.false_hits();
        // The more, the surer: halved until one is found.
        let (mut too_few, mut enough) = (0, MOST_HITS);
        if is_sure(too_few) || !is_sure(enough) {
            return is_sure(too_few).then_some(0);
        }
        while enough - too_few > 1 {
            let half = usize::midpoint(too_few, enough);
            if is_sure(half) { enough = half } else { too_few = half }
        }
        Some(enough)
    }

    fn worst_of(&self, hits: usize) -> f64 {
        let (wrong, all) = (as_f64(self.wrong), as_f64(hits + self.wrong));
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
    /// With another model's word, where it was asked.
    pub verified: Option<Verified>,
}

/// What becomes of the pairs of one language with another model's word.
pub struct Verified {
    /// It is asked about what the guards let through.
    behind: Vec<Point>,
    asked_behind: Vec<Point>,
    /// It overrules guards that may be overruled.
    overruling: Vec<Point>,
    asked_overruling: Vec<Point>,
    /// Both by the least score, where it tells one.
    pub by_score: Vec<(f64, Vec<Point>, Vec<Point>)>,
}

/// Least scores that are worth a row.
const SCORES: [f64; 8] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99];

impl Verified {
    fn new(pairs: &[&Judged]) -> Option<Self> {
        pairs.iter().any(|pair| pair.is_verified.is_some()).then_some(())?;
        let of = |served: &dyn Fn(&Judged) -> bool| points(pairs, served);
        let says = |pair: &Judged| pair.is_verified == Some(true);
        let by_score = SCORES.into_iter().filter(|_| pairs.iter().any(|pair| pair.score.is_some())).map(|least| {
            let fits = |pair: &Judged| pair.score.is_some_and(|score| score >= least);
            (least, of(&|pair| pair.guards.is_empty() && fits(pair)), of(&fits))
        });
        Some(Self {
            behind: of(&|pair| pair.guards.is_empty() && says(pair)),
            asked_behind: of(&|pair| pair.guards.is_empty()),
            overruling: of(&says),
            asked_overruling: of(&|pair| pair.is_verified.is_some()),
            by_score: by_score.collect(),
        })
    }

    /// What it may do, what it then does by threshold, and about which pairs it is asked.
    pub fn ways(&self) -> [(&'static str, &[Point], &[Point]); 2] {
        [
            ("behind the guards", &self.behind, &self.asked_behind),
            ("overruling words", &self.overruling, &self.asked_overruling),
        ]
    }

    /// The lowest threshold.
    pub fn lowest(&self) -> f64 {
        self.behind.first().map_or(0.0, |point| point.threshold)
    }
}

impl Curve {
    /// Of the pairs in this language.
    pub fn new(lang: &str, judged: &[Judged]) -> Self {
        let pairs: Vec<&Judged> = judged.iter().filter(|pair| pair.lang == lang).collect();
        let of = |served: &dyn Fn(&Judged) -> bool| points(&pairs, served);
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
            verified: Verified::new(&pairs),
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

fn points(pairs: &[&Judged], served: &dyn Fn(&Judged) -> bool) -> Vec<Point> {
    thresholds().map(|threshold| at(threshold, pairs, served)).collect()
}

fn at(threshold: f64, pairs: &[&Judged], served: &dyn Fn(&Judged) -> bool) -> Point {
    let count = |same: bool| {
        pairs.iter().filter(|pair| pair.same == same && pair.similarity >= threshold && served(pair)).count()
    };
    let same = pairs.iter().filter(|pair| pair.same).count();
    Point { threshold, hits: count(true), wrong: count(false), same }
}

/// A language in which a recommended threshold is a guess.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt {
    pub lang: String,
    /// What the threshold does to its pairs.
    pub at: Point,
    /// How many more hits without a false one would make it sure; none where no number of them would.
    pub more: Option<usize>,
}

impl Doubt {
    /// For programs.
    pub fn told(&self) -> Value {
        json!({
            "lang": self.lang, "hits": self.at.hits, "false": self.at.wrong, "false_at_most": self.at.worst(),
            "hits_to_be_sure": self.more,
        })
    }
}

/// Where a recommended threshold rests on so few hits that more of them may be false than is wished, in languages that
/// the model knows.
pub fn doubts(curves: &[Curve], wish: &Wish, (threshold, trapped): (f64, &[&str])) -> Vec<Doubt> {
    let known = curves.iter().filter(|curve| !trapped.contains(&curve.lang.as_str()));
    let at = known.filter_map(|curve| Some((&curve.lang, Curve::at(&curve.guarded, threshold)?)));
    let unsure = at.filter(|(_, at)| !at.is_sure(wish));
    unsure.map(|(lang, at)| Doubt { lang: lang.clone(), at, more: at.hits_to_be_sure(wish) }).collect()
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

/// A precision as it is shown: that of no hits is none.
pub fn shown(hits: usize, wrong: usize) -> String {
    if hits + wrong == 0 { "-".to_owned() } else { format!("{:.2}", share(hits, hits + wrong)) }
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

    use super::{Curve, Judged, Point, Wish, advise, doubts};

    fn judged(lang: &str, same: bool, similarity: f64, guard: Option<Guard>) -> Judged {
        Judged {
            lang: lang.to_owned(),
            same,
            similarity,
            guards: guard.into_iter().collect(),
            first: guard,
            only_words_differ: true,
            is_verified: None,
            score: None,
        }
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
    fn another_models_word_holds_off_what_the_guards_let_through_and_brings_back_what_words_alone_told_apart() {
        let mut judged = pairs("en", None);
        judged.push(judged_by("en", true, 0.88, Guard::Entity, 0.9));
        judged.push(judged_by("en", false, 0.88, Guard::Action, 0.2));
        for (pair, score) in judged.iter_mut().filter(|pair| pair.guards.is_empty()).zip([0.95, 0.6, 0.4]) {
            (pair.is_verified, pair.score) = (Some(score >= 0.5), Some(score));
        }
        let verified = Curve::new("en", &judged).verified.unwrap();
        let at = |points: &[Point]| Curve::at(points, 0.86).map(|point| (point.hits, point.wrong)).unwrap();
        let [(_, behind, asked), (_, over, over_asked)] = verified.ways();
        assert_eq!((at(behind), at(asked)), ((2, 0), (2, 1)), "the near miss is held off");
        assert_eq!((at(over), at(over_asked)), ((3, 0), (3, 2)));
        let (_, behind, over) = verified.by_score.iter().find(|(least, ..)| *least > 0.85).unwrap();
        assert_eq!((at(behind), at(over)), ((1, 0), (2, 0)), "a higher score costs a paraphrase");
        assert!(Curve::new("en", &pairs("en", None)).verified.is_none(), "nobody was asked");
    }

    fn judged_by(lang: &str, same: bool, similarity: f64, guard: Guard, score: f64) -> Judged {
        Judged { is_verified: Some(score >= 0.5), score: Some(score), ..judged(lang, same, similarity, Some(guard)) }
    }

    #[test]
    fn few_hits_prove_little() {
        let worst = |hits, wrong| Point { threshold: 0.9, hits, wrong, same: hits }.worst();
        assert!((worst(20, 0) - 0.119).abs() < 0.01, "{}", worst(20, 0));
        assert!(worst(2000, 0) < 0.002);
        assert!(worst(95, 5) > 0.05);
    }

    #[test]
    fn a_threshold_is_sure_once_so_many_hits_are_without_error() {
        let (wish, strict) = (Wish::new(0.95, None).unwrap(), Wish::new(1.0, None).unwrap());
        let of = |hits, wrong| Point { threshold: 0.9, hits, wrong, same: hits };
        let more = of(12, 0).hits_to_be_sure(&wish).unwrap();
        assert!(!of(12, 0).is_sure(&wish) && of(12 + more, 0).is_sure(&wish) && !of(11 + more, 0).is_sure(&wish));
        assert!((30..60).contains(&more), "{more}");
        assert_eq!(of(200, 0).hits_to_be_sure(&wish), Some(0));
        assert!(of(12, 1).hits_to_be_sure(&wish) > of(12, 0).hits_to_be_sure(&wish), "an error costs more of them");
        assert_eq!(of(5000, 0).hits_to_be_sure(&strict), None, "nothing proves that none is ever false");
    }

    #[test]
    fn a_guess_is_one_in_each_language_that_has_few_hits() {
        let wish = Wish::new(0.95, None).unwrap();
        let many = (0..200).map(|_| judged("zh", true, 0.92, None));
        let judged: Vec<Judged> = pairs("en", Some(Guard::Entity)).into_iter().chain(many).collect();
        let curves = [Curve::new("en", &judged), Curve::new("zh", &judged)];
        let found = doubts(&curves, &wish, (0.86, &[]));
        assert_eq!(found.iter().map(|doubt| (&*doubt.lang, doubt.at.hits)).collect::<Vec<_>>(), [("en", 2)]);
        assert!(doubts(&curves, &wish, (0.86, &["en"])).is_empty(), "what is not matched by is nothing to be sure of");
    }

    #[test]
    fn a_wish_is_a_share() {
        assert!((Wish::new(0.95, Some(0.02)).unwrap().precision - 0.98).abs() < 1e-9);
        assert!(Wish::new(95.0, None).is_err());
        assert!(Wish::new(0.95, Some(1.0)).is_err());
    }
}
