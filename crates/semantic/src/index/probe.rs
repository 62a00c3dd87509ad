//! What is asked, as seen from a centre, and what the bits of kept vectors tell about their similarity to it.
//!
//! Let `c` be the centre, `q` the vector asked for and `o` one that is kept, both of length one. Then
//!
//! ```text
//! <q, o> = <q - c, o - c> + <c, o> + <q, c> - <c, c>      |o - c|² = 1 - 2 <c, o> + <c, c>
//! ```
//!
//! so the cosine that `q - c` and `o - c` need for `o` to be worth comparing follows from `<c, o>` alone, its *lean*.
//! What remains is to tell from bits whether they have it. By the random rotation, the part of `o - c` that is
//! perpendicular to `q - c` is like normal noise in each number. So for a cosine `r` the signs of a number agree with
//! the probability `Φ(r x / √(1 - r²))`, where `x` is the size of that number of `q - c` in standard deviations. Large
//! ones tell most: a tenth of the numbers says two fifths of what all could say, half of them four fifths. How many agree has a
//! mean and a deviation; what has fewer than the mean less some deviations is passed over.

use smallvec::SmallVec;

use super::centre::Centre;
use super::planes::{Pick, STEP};
use super::row::{ONE, Vector};

/// A cosine, by the root of its distance from one: counts are nearly linear in that. Counts are known for as many steps.
const GRID: usize = 32;

/// Sizes of numbers, in standard deviations: so many classes of this width, the last without an end.
const CLASSES: usize = 16;
const CLASS_WIDTH: f32 = 0.25;

/// What half of normal numbers exceed.
const MEDIAN: f32 = 0.674_5;

/// Which bits are looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look {
    /// Those of the largest numbers, of many vectors at once.
    Glance,
    /// Those of the larger half, of one vector.
    Gaze,
}

/// What is asked, as seen from a centre.
#[derive(Debug)]
pub(super) struct Probe {
    /// The planes of the largest numbers.
    pub(super) picks: Vec<Pick>,
    /// The sides of all numbers.
    sides: SmallVec<[Word; 16]>,
    /// Its distance from the centre.
    distance: f32,
    /// `<q, c> - <c, c>`.
    offset: f32,
    /// `1 + <q, c>`.
    turning: f32,
    /// `1 + <c, c>`.
    reach: f32,
    /// For each step of the cosine, how many bits of each look agree.
    expected: [[Expected; 2]; GRID + 1],
}

/// Of 64 numbers: which lie beyond the centre, and which are of the larger half.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    beyond: u64,
    larger: u64,
}

/// A mean, and the deviation from it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected {
    mean: f32,
    deviation: f32,
}

impl Expected {
    /// The least that is so many deviations below the mean.
    pub(super) fn less(self, deviations: f32) -> u32 {
        (self.mean - deviations * self.deviation).max(0.0) as u32
    }
}

/// How many numbers there are of each size.
type Classes = [f32; CLASSES];

impl Probe {
    pub(super) fn new(asked: Vector<'_>, centre: &Centre) -> Self {
        let dimensions = asked.values.len();
        let seen: Vec<f32> =
            asked.values.iter().zip(&centre.values).map(|(value, centre)| f32::from(*value) / ONE - centre).collect();
        let distance = seen.iter().map(|value| value * value).sum::<f32>().sqrt();
        // In standard deviations of a number.
        let scale = (dimensions as f32).sqrt() / distance.max(f32::MIN_POSITIVE);
        let class = |size: f32| ((size * scale / CLASS_WIDTH) as usize).min(CLASSES - 1);

        let mut gaze = [0.0; CLASSES];
        let mut sides = SmallVec::new();
        for values in seen.chunks(64) {
            let mut word = Word::default();
            for (bit, value) in values.iter().enumerate() {
                let is_larger = value.abs() * scale > MEDIAN;
                word.beyond |= u64::from(*value > 0.0) << bit;
                word.larger |= u64::from(is_larger) << bit;
                if let Some(count) = gaze.get_mut(class(value.abs())).filter(|_| is_larger) {
                    *count += 1.0;
                }
            }
            sides.push(word);
        }

        let largest = largest(&seen, glanced(dimensions));
        let mut glance = [0.0; CLASSES];
        for (size, _) in &largest {
            if let Some(count) = glance.get_mut(class(*size)) {
                *count += 1.0;
            }
        }
        let lean = centre.lean(asked);
        Self {
            picks: largest.into_iter().map(|(_, pick)| pick).collect(),
            sides,
            distance,
            offset: lean - centre.squares,
            turning: 1.0 + lean,
            reach: 1.0 + centre.squares,
            expected: std::array::from_fn(|at| expect(at as f32 / GRID as f32, [&glance, &gaze])),
        }
    }

    /// The cosine from the centre that a vector needs to be as similar as `bar`, where its lean is between these.
    pub(super) fn needed(&self, bar: f32, leans: (f32, f32)) -> f32 {
        // It falls with the lean up to this one, and rises from there.
        let lean = (self.turning - bar).clamp(leans.0, leans.1.max(leans.0));
        let distance = (self.reach - 2.0 * lean).max(1e-6).sqrt() * self.distance.max(1e-6);
        (bar - lean - self.offset) / distance
    }

    /// How many bits agree where the cosine is `needed`. None where no vector can have that cosine.
    pub(super) fn expect(&self, look: Look, needed: f32) -> Option<Expected> {
        // Somewhat above one for what rounding does.
        if needed > 1.001 {
            return None;
        }
        if needed <= 0.0 {
            return Some(Expected::default());
        }
        let place = (1.0 - needed).max(0.0).sqrt() * GRID as f32;
        let at = (place as usize).min(GRID - 1);
        let (before, after) = (self.expected(at, look), self.expected(at + 1, look));
        let share = place - at as f32;
        let between = |before: f32, after: f32| before + share * (after - before);
        let deviation = between(before.deviation, after.deviation);
        Some(Expected { mean: between(before.mean, after.mean), deviation })
    }

    fn expected(&self, at: usize, look: Look) -> Expected {
        let [glance, gaze] = self.expected.get(at).copied().unwrap_or_default();
        match look {
            Look::Glance => glance,
            Look::Gaze => gaze,
        }
    }

    /// How many bits of the larger half agree with those of a vector.
    pub(super) fn agreeing(&self, bits: &[u64]) -> u32 {
        self.sides.iter().zip(bits).map(|(sides, bits)| (!(sides.beyond ^ bits) & sides.larger).count_ones()).sum()
    }
}

/// How many planes are glanced at: three of 32, and of narrow vectors more.
fn glanced(dimensions: usize) -> usize {
    (dimensions * 3 / 32).next_multiple_of(STEP).max(64)
}

/// The so many largest numbers, by size.
fn largest(seen: &[f32], count: usize) -> Vec<(f32, Pick)> {
    let sided =
        |(value, plane): (&f32, u16)| (value.abs(), Pick { plane, flip: if *value > 0.0 { 0 } else { u64::MAX } });
    let mut sizes: Vec<(f32, Pick)> = seen.iter().zip(0_u16..).map(sided).collect();
    if count < sizes.len() {
        sizes.select_nth_unstable_by(count, |left, right| right.0.total_cmp(&left.0));
        sizes.truncate(count);
    }
    sizes
}

/// How many numbers of each look agree for a cosine whose distance from one has this root.
fn expect(root: f32, looks: [&Classes; 2]) -> [Expected; 2] {
    let cosine = 1.0 - root * root;
    let slope = cosine / (1.0 - cosine * cosine).max(1e-9).sqrt();
    let mut sums = [(0.0, 0.0); 2];
    for class in 0..CLASSES {
        let agree = normal(slope * CLASS_WIDTH * (class as f32 + 0.5));
        for ((mean, variance), counts) in sums.iter_mut().zip(looks) {
            let count = counts.get(class).copied().unwrap_or(0.0);
            *mean += count * agree;
            *variance += count * agree * (1.0 - agree);
        }
    }
    sums.map(|(mean, variance)| Expected { mean, deviation: f32::sqrt(variance) })
}

/// The normal distribution for what is not negative, to within 0.00002 (Abramowitz and Stegun, 26.2.16).
fn normal(deviations: f32) -> f32 {
    let t = (1.0 + 0.332_67 * deviations).recip();
    let density = 0.398_942_3 * (-0.5 * deviations * deviations).exp();
    1.0 - density * t * (0.436_183_6 + t * (-0.120_167_6 + t * 0.937_298))
}
