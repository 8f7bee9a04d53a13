//! Learns from the operator's decisions: whether a text resembles those that the operator called spam, or
//! those that the operator released, answered or finished.
//!
//! A [`Lesson`] is a submission's tokens, as keyed hashes without readable words, and the decision. The
//! [`LearnedModel`] is the sum of all lessons, so removing a lesson removes its influence exactly. Tokens are
//! the features of the text (which carry over from one language to others), pairs of features, words and
//! pairs of words. For each token, the model compares in how many lessons of either kind it is (naive Bayes).
//! How many points the result is worth follows from the honest lessons themselves: each is judged without its
//! own influence, and the points are shifted so that hardly any of them would be marked.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts and points are small"
)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// Maximum number of tokens of a lesson. For a longer text, only the beginning and the end are kept.
pub const MAX_TOKENS: usize = 400;
/// Maximum number of lessons: about 5 MB in the database.
pub const MAX_LESSONS: usize = 3000;
/// Lessons older than this are removed.
pub const MAX_AGE: Duration = Duration::from_hours(24 * 730);
/// A lesson counts half as much after this time.
const HALF_LIFE: Duration = Duration::from_hours(24 * 365);
/// Minimum sum of the weights of spam lessons. Below it, or [`MIN_HONEST`], the model gives no result.
const MIN_SPAM: f64 = 4.0;
const MIN_HONEST: f64 = 4.0;
/// Added to each count, so that rare tokens have little influence.
const SMOOTHING: f64 = 0.5;
/// Points per unit of the combined log-odds; see [`average`].
const POINTS_PER_UNIT: f64 = 9.0;
/// The weight of words in [`average`]. Features have the weight 1.
const WEIGHT_OF_WORDS: f64 = 0.6;
/// Minimum sum of the weights of the lessons that contain a word. Rarer words do not count.
const MIN_LESSONS_OF_WORD: f64 = 1.5;
/// The share of honest lessons that the calibration allows to be marked as suspicious.
const MAX_WRONG: f64 = 0.03;
/// The number of honest lessons at which half of the calibrated shift applies.
const HALF_SHIFT_LESSONS: f64 = 20.0;
/// Maximum number of points that the model adds; [`MIN_POINTS`] limits how many it subtracts.
pub const MAX_POINTS: i32 = 60;
pub const MIN_POINTS: i32 = -12;
/// The weight of a new lesson that is only weak evidence, such as a reply. Other new lessons weigh 1.
const WEAK_LESSON_WEIGHT: f64 = 0.4;
/// The number of a lesson's smallest word tokens that are compared to find near-duplicates.
const SKETCH_TOKENS: usize = 6;
/// Two lessons of one kind count as one if they share this many of their [`SKETCH_TOKENS`] tokens.
const MIN_SHARED_TOKENS: usize = 5;

/// The operator's decision from which the model learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LessonKind {
    /// The operator marked the submission as spam, or discarded it.
    Spam,
    /// The operator released the submission, or marked it as not spam.
    Honest,
    /// The operator answered or finished the submission: weak evidence that it is honest.
    WeakHonest,
}

impl LessonKind {
    pub fn is_spam(self) -> bool {
        self == LessonKind::Spam
    }
}

/// A decision of the operator about one submission, from which the model learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    pub kind: LessonKind,
    /// How long ago the operator decided.
    pub age: Duration,
    pub tokens: Tokens,
}

/// The keyed hashes of a text's tokens, and the points that it had without the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The points of the signals in the text, at most 255.
    pub points: u8,
    /// The hashes, sorted. The highest bit is clear for features and their pairs, and set for all others.
    pub hashes: Vec<u32>,
}

/// This bit is set in the hash of a word, a pair of words or a link, and clear in the hash of a feature.
pub(super) const WORD: u32 = 1 << 31;

impl Tokens {
    /// Serializes the points, and each hash as four bytes in little-endian order, for the database.
    pub fn to_bytes(&self) -> Vec<u8> {
        let hashes = self.hashes.iter().flat_map(|hash| hash.to_le_bytes());
        std::iter::once(self.points).chain(hashes).collect()
    }

    /// Parses the output of [`Tokens::to_bytes`]. `None` if the length is invalid or there are more than
    /// [`MAX_TOKENS`] hashes. Does not check their order.
    pub fn from_bytes(bytes: &[u8]) -> Option<Tokens> {
        let (points, hashes) = bytes.split_first()?;
        let (hashes, rest) = hashes.as_chunks::<4>();
        let is_valid = rest.is_empty() && hashes.len() <= MAX_TOKENS;
        is_valid.then(|| Tokens {
            points: *points,
            hashes: hashes.iter().map(|hash| u32::from_le_bytes(*hash)).collect(),
        })
    }
}

/// A fast hasher for tokens. It need not resist attackers: tokens are keyed hashes, so visitors cannot choose
/// ones that collide.
#[derive(Clone, Copy, Default)]
pub(super) struct TokenHasher(u64);

impl Hasher for TokenHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, token: u32) {
        self.0 = (self.0 ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type TokenMap<T> = HashMap<u32, T, BuildHasherDefault<TokenHasher>>;

/// The total weights of the spam lessons and of the honest lessons that contain a token.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    spam: f32,
    honest: f32,
}

/// The number and the total weight of the lessons of each kind, and the total weights for each token.
#[derive(Debug, Default)]
struct Counts {
    tokens: TokenMap<Count>,
    spam: f64,
    honest: f64,
    /// The number of spam lessons, and the number of honest lessons, including weak ones.
    lessons: (usize, usize),
}

/// The log-odds of tokens, computed from the lessons. Without enough lessons, the model gives no result.
#[derive(Debug, Default)]
pub struct LearnedModel {
    is_ready: bool,
    /// The log-odds of each token that is frequent enough.
    odds: TokenMap<f64>,
    /// Added to the points of each text, so that almost no honest lesson would be marked as suspicious.
    shift: f64,
    /// The lowest number of points that this model gives; negative or zero.
    min_points: i32,
    /// The number of spam lessons, and the number of honest lessons, including weak ones.
    lessons: (usize, usize),
}

/// The model's result for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resemblance {
    /// The points that the model adds; negative if the text resembles honest messages.
    pub points: i32,
    /// The number of spam lessons from which the model has learned.
    pub spam_lessons: usize,
    pub honest_lessons: usize,
}

impl Counts {
    /// Adds the weight of a lesson to the sums of its kind and of its tokens.
    fn add(&mut self, lesson: &Lesson, weight: f64) {
        let is_spam = lesson.kind.is_spam();
        if is_spam {
            self.spam += weight;
            self.lessons.0 += 1;
        } else {
            self.honest += weight;
            self.lessons.1 += 1;
        }
        for hash in &lesson.tokens.hashes {
            let count = self.tokens.entry(*hash).or_default();
            let side = if is_spam { &mut count.spam } else { &mut count.honest };
            *side += weight as f32;
        }
    }

    fn is_ready(&self) -> bool {
        self.spam >= MIN_SPAM && self.honest >= MIN_HONEST
    }

    /// The minimum number of points: [`MIN_POINTS`], or closer to zero if there are fewer honest lessons than
    /// spam. With few honest lessons beside many of spam, each rare word looks honest, because its count is
    /// small among many. That must not hide spam.
    fn min_points(&self) -> i32 {
        (f64::from(MIN_POINTS) * (self.honest / self.spam.max(1.0)).min(1.0)) as i32
    }

    /// The shift with which almost no honest lesson would be marked as suspicious, each judged without its
    /// own influence; at most half of `marked_from`. The fewer honest lessons there are, the closer to zero
    /// the shift is. At least one must be honest.
    fn calibrate(&self, lessons: &[(&Lesson, f64)], marked_from: f64) -> f64 {
        let honest = lessons.iter().filter(|(lesson, _)| !lesson.kind.is_spam());
        let mut totals: Vec<f64> = honest
            .map(|(lesson, weight)| {
                let hashes = lesson.tokens.hashes.iter();
                let odds =
                    average(hashes.filter_map(|hash| {
                        Some((*hash, self.odds(*hash, *self.tokens.get(hash)?, *weight)?))
                    }));
                f64::from(lesson.tokens.points) + POINTS_PER_UNIT * odds
            })
            .collect();
        totals.sort_unstable_by(|a, b| b.total_cmp(a));
        let allowed = (totals.len() as f64 * MAX_WRONG) as usize;
        let shift = (marked_from - 1.0 - totals[allowed.min(totals.len() - 1)]).min(marked_from / 2.0);
        shift * totals.len() as f64 / (totals.len() as f64 + HALF_SHIFT_LESSONS)
    }

    /// The logarithm of the odds that a text with a token is spam. `own` is the weight of the honest lesson
    /// to leave out. `None` if the token is too rare to say something.
    fn odds(&self, hash: u32, count: Count, own: f64) -> Option<f64> {
        let (spam, honest) = (f64::from(count.spam), f64::from(count.honest) - own);
        let least = if hash & WORD != 0 { MIN_LESSONS_OF_WORD } else { 0.5 };
        let all_spam = (self.spam + 2.0 * SMOOTHING).ln();
        let all_honest = (self.honest - own + 2.0 * SMOOTHING).ln();
        (spam + honest >= least)
            .then(|| (spam + SMOOTHING).ln() - all_spam - (honest.max(0.0) + SMOOTHING).ln() + all_honest)
    }
}

/// Combines the log-odds of a text's tokens. Adds up the log-odds of features and of words separately,
/// divides each sum by the root of one more than its number of tokens, and applies [`WEIGHT_OF_WORDS`].
fn average(odds: impl Iterator<Item = (u32, f64)>) -> f64 {
    let mut sums = [(0.0, 1.0), (0.0, 1.0)];
    for (hash, odds) in odds {
        let sum = &mut sums[usize::from(hash & WORD != 0)];
        *sum = (sum.0 + odds, sum.1 + 1.0);
    }
    let [features, words] = sums.map(|(sum, count): (f64, f64)| sum / count.sqrt());
    features + WEIGHT_OF_WORDS * words
}

impl LearnedModel {
    /// Adds up the lessons. A submission with `marked_from` points is marked. The order of the lessons does
    /// not matter, except that of several nearly equal ones of one kind, the first counts.
    pub fn new<'a>(lessons: impl IntoIterator<Item = &'a Lesson>, marked_from: u32) -> LearnedModel {
        let mut seen: HashMap<(bool, u32), HashSet<usize>> = HashMap::new();
        let mut kept: Vec<(&Lesson, f64)> = Vec::new();
        for lesson in lessons {
            if !is_repeat(lesson, kept.len(), &mut seen) {
                kept.push((lesson, weight(lesson)));
            }
        }
        let mut counts = Counts::default();
        for (lesson, weight) in &kept {
            counts.add(lesson, *weight);
        }
        if !counts.is_ready() {
            return LearnedModel::default();
        }
        let tokens = counts.tokens.iter();
        LearnedModel {
            is_ready: true,
            odds: tokens
                .filter_map(|(hash, count)| Some((*hash, counts.odds(*hash, *count, 0.0)?)))
                .collect(),
            shift: counts.calibrate(&kept, f64::from(marked_from)),
            min_points: counts.min_points(),
            lessons: counts.lessons,
        }
    }

    /// Compares a text with the lessons. `None` if there are too few lessons, or if the result is 0 points.
    /// The points are at most [`MAX_POINTS`]. They are at least [`MIN_POINTS`], or closer to zero if there
    /// are fewer honest lessons than spam.
    pub fn judge(&self, tokens: &Tokens) -> Option<Resemblance> {
        if !self.is_ready {
            return None;
        }
        let odds = tokens.hashes.iter().filter_map(|hash| Some((*hash, *self.odds.get(hash)?)));
        let resemblance = POINTS_PER_UNIT * average(odds);
        // The shift only takes back points for spam. After many lessons with the words of honest messages it
        // is strongly negative, and must not hide spam that the phrases find.
        let points = (resemblance + self.shift).max(resemblance.min(0.0)).round();
        let points = (points as i32).clamp(self.min_points, MAX_POINTS);
        let (spam_lessons, honest_lessons) = self.lessons;
        (points != 0).then_some(Resemblance { points, spam_lessons, honest_lessons })
    }

    /// Whether there are enough lessons to compare texts with.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }
}

/// The weight of a lesson: 1, or [`WEAK_LESSON_WEIGHT`] for weak evidence, halved with each [`HALF_LIFE`].
fn weight(lesson: &Lesson) -> f64 {
    let strength = if lesson.kind == LessonKind::WeakHonest { WEAK_LESSON_WEIGHT } else { 1.0 };
    strength * (-lesson.age.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}

/// Whether a lesson is nearly equal to an earlier one of its kind: they share at least [`MIN_SHARED_TOKENS`]
/// of their [`SKETCH_TOKENS`] smallest word tokens. Otherwise, adds the lesson to `seen` as `number`.
fn is_repeat(lesson: &Lesson, number: usize, seen: &mut HashMap<(bool, u32), HashSet<usize>>) -> bool {
    let kind = lesson.kind.is_spam();
    // The hashes are sorted, so the first ones are the smallest.
    let sketch = lesson.tokens.hashes.iter().filter(|hash| *hash & WORD != 0).take(SKETCH_TOKENS);
    let sketch: Vec<u32> = sketch.copied().collect();
    let mut shared: HashMap<usize, usize> = HashMap::new();
    for hash in &sketch {
        for other in seen.get(&(kind, *hash)).into_iter().flatten() {
            *shared.entry(*other).or_default() += 1;
        }
    }
    if shared.values().any(|shared| *shared >= MIN_SHARED_TOKENS) {
        return true;
    }
    for hash in sketch {
        seen.entry((kind, hash)).or_default().insert(number);
    }
    false
}
