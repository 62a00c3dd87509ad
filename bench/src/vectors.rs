//! Vectors to search among: like the embeddings of sentences, or without any order.

/// A source of numbers that are the same each time.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    pub(crate) fn share(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// Nearly normal, with a deviation of one.
    fn normal(&mut self) -> f32 {
        let sum: f32 = (0..6).map(|_| self.share()).sum();
        (sum - 3.0) * std::f32::consts::SQRT_2
    }

    /// A direction: nearly normal numbers, of length one.
    pub(crate) fn direction(&mut self, dimensions: usize) -> Vec<f32> {
        unit((0..dimensions).map(|_| self.normal()).collect())
    }
}

/// The same direction, of length one.
pub(crate) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in &mut vector {
        *value /= length;
    }
    vector
}

/// The exact cosine of vectors of length one.
pub(crate) fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    let (left, right) = (left.chunks(16), right.chunks(16));
    for (left, right) in left.zip(right) {
        for ((lane, left), right) in lanes.iter_mut().zip(left).zip(right) {
            *lane += left * right;
        }
    }
    lanes.iter().sum()
}

/// `from` and `to` mixed to a vector that has this cosine with `from`, where the two are perpendicular.
pub(crate) fn towards(from: &[f32], to: &[f32], cosine: f32) -> Vec<f32> {
    let rest = (1.0 - cosine * cosine).max(0.0).sqrt();
    unit(from.iter().zip(to).map(|(from, to)| cosine * from + rest * to).collect())
}

/// Embeddings as models make them: all of them lean one way, they vary in few directions and in some of these far more
/// than in others, and they come in topics, in which there are questions, which are worded this way and that.
pub(crate) struct Sentences {
    common: Vec<f32>,
    /// Directions in which meanings vary, each less than the one before.
    axes: Vec<Vec<f32>>,
    topics: Vec<Vec<f32>>,
    numbers: Numbers,
}

/// The directions in which meanings vary.
const AXES: usize = 96;

/// What of a vector is common to all, to its topic, to its question, and its own: squares, which are 1 together. The
/// first is the mean cosine of unlike sentences, the sum of three that of paraphrases.
const COMMON: f32 = 0.45;
const TOPIC: f32 = 0.25;
const QUESTION: f32 = 0.20;
const OWN: f32 = 0.10;

impl Sentences {
    pub(crate) fn new(dimensions: usize, topics: usize, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let axes = (0..AXES.min(dimensions)).map(|_| numbers.direction(dimensions)).collect();
        let mut sentences = Self { common: numbers.direction(dimensions), axes, topics: Vec::new(), numbers };
        sentences.topics = (0..topics).map(|_| sentences.meaning()).collect();
        sentences
    }

    /// A direction within what meanings vary in.
    fn meaning(&mut self) -> Vec<f32> {
        let mut sum = vec![0.0; self.common.len()];
        for (at, axis) in self.axes.iter().enumerate() {
            let weight = self.numbers.normal() / (1.0 + at as f32).sqrt();
            for (sum, value) in sum.iter_mut().zip(axis) {
                *sum += weight * value;
            }
        }
        unit(sum)
    }

    /// A question of a topic, for [`Sentences::wording`].
    pub(crate) fn question(&mut self) -> Vec<f32> {
        let topic = self.numbers.below(self.topics.len());
        let meaning = self.meaning();
        let topic = self.topics.get(topic).map(Vec::as_slice).unwrap_or_default();
        let parts = self.common.iter().zip(topic).zip(&meaning);
        parts
            .map(|((common, topic), own)| COMMON.sqrt() * common + TOPIC.sqrt() * topic + QUESTION.sqrt() * own)
            .collect()
    }

    /// One way to ask a question.
    pub(crate) fn wording(&mut self, question: &[f32]) -> Vec<f32> {
        // Wordings vary within meanings and beside them.
        let meaning = self.meaning();
        let beside = self.numbers.direction(question.len());
        let (within, beside_share) = ((OWN * 0.7).sqrt(), (OWN * 0.3).sqrt());
        let parts = question.iter().zip(&meaning).zip(&beside);
        unit(parts.map(|((question, meaning), beside)| question + within * meaning + beside_share * beside).collect())
    }
}
