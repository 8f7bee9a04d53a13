//! Whether a text is an offer that its reader did not ask for: the points of its features.

use super::feature_set::{FeatureId, FeatureKind, Shape};
use super::lexicon::{FULL_WEIGHT, Lexicon};
use super::site_profile::SiteProfile;

/// Maximum number of points of a text that is an offer.
pub(super) const MAX_POINTS: u32 = 80;
/// Minimum number of points of an offer: a text with fewer is not an offer.
const MIN_POINTS: i32 = 25;
/// Minimum points of a pitch, topic or vice, or minimum odds of the wording, in hundredths, that make a text
/// an offer. A text with neither is not an offer, even if its shape adds enough points.
const TELLING_POINTS: i32 = 5;
const TELLING_ODDS: i32 = 100;
/// Maximum number of topics that count: listing all services is no more suspicious than listing a few.
const MAX_TOPICS: usize = 2;
/// A text with at least this many steps of a sales pitch has [`Shape::ManySteps`].
const MANY_STEPS: usize = 3;
/// Maximum number of features that the explanation names.
const MAX_NAMED: usize = 4;

/// The weight of each feature in a text, at most [`FULL_WEIGHT`], indexed by [`FeatureId`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights(Vec<u8>);

/// The points of an offer, and the features that earned the most of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    pub points: u32,
    /// The features that added the most points, in descending order.
    named: Vec<FeatureId>,
}

impl Weights {
    pub fn new(weights: Vec<u8>) -> Weights {
        Weights(weights)
    }

    /// Adds a feature that the code computed, at full strength. Does nothing if the lexicon does not declare
    /// the feature.
    pub fn add_shape(&mut self, lexicon: &Lexicon, shape: Shape) {
        if let Some(feature) = lexicon.shapes[shape as usize] {
            self.0[feature] = FULL_WEIGHT;
        }
    }

    /// Adds [`Shape::ManySteps`] if the text has at least [`MANY_STEPS`] steps of a pitch. Steps with the
    /// weight 1 do not count.
    pub fn count_steps(&mut self, lexicon: &Lexicon) {
        let steps = self.features(lexicon, FeatureKind::Pitch).filter(|(_, weight)| *weight > 1).count();
        if steps >= MANY_STEPS {
            self.add_shape(lexicon, Shape::ManySteps);
        }
    }

    /// The features of a kind that the text has, with their weights.
    fn features(&self, lexicon: &Lexicon, kind: FeatureKind) -> impl Iterator<Item = (FeatureId, u8)> {
        let found = self.0.iter().copied().enumerate().filter(|(_, weight)| *weight > 0);
        found.filter(move |(feature, _)| lexicon.features.get(*feature).kind == kind)
    }

    /// The names of the features found, with their weights.
    pub fn named<'a>(&'a self, lexicon: &'a Lexicon) -> impl Iterator<Item = (&'a str, u8)> {
        let found = self.0.iter().copied().enumerate().filter(|(_, weight)| *weight > 0);
        found.map(|(feature, weight)| (lexicon.features.name(feature), weight))
    }

    /// The names of the features found, except those that depend on the site's pages.
    pub fn names<'a>(&self, lexicon: &'a Lexicon) -> Vec<&'a str> {
        let of_site = [Shape::SiteWords, Shape::ForeignWords].map(|shape| lexicon.shapes[shape as usize]);
        let found = self
            .0
            .iter()
            .enumerate()
            .filter(|(feature, weight)| **weight > 0 && !of_site.contains(&Some(*feature)));
        found.map(|(feature, _)| lexicon.features.name(feature)).collect()
    }

    /// The total weight of the subjects that promise quick money.
    pub fn money_weight(&self, lexicon: &Lexicon) -> u32 {
        let found = self.0.iter().enumerate().filter(|(feature, _)| lexicon.features.get(*feature).money);
        found.map(|(_, weight)| u32::from(*weight)).sum()
    }

    /// Adds up the base, the points of the features, and those of the wording, whose odds are in hundredths.
    /// Ignores topics of the site's own trade, and all but the [`MAX_TOPICS`] topics with the most points.
    /// Returns at most [`MAX_POINTS`], and the [`MAX_NAMED`] features with the most points. Returns no points
    /// and no features if the text is not an offer: its sum is below [`MIN_POINTS`], or neither a feature nor
    /// the wording indicates one.
    pub fn judge(&self, lexicon: &Lexicon, profile: &SiteProfile, wording: i32) -> Offer {
        let mut counted: Vec<(i32, FeatureId)> = Vec::new();
        let mut topics: Vec<(i32, FeatureId)> = Vec::new();
        for (feature, weight) in self.0.iter().copied().enumerate().filter(|(_, weight)| *weight > 0) {
            let declared = lexicon.features.get(feature);
            let points = declared.points * i32::from(weight) / i32::from(FULL_WEIGHT);
            if declared.kind == FeatureKind::Topic {
                if !profile.is_own_topic(feature) {
                    topics.push((points, feature));
                }
            } else {
                counted.push((points, feature));
            }
        }
        if let Some(feature) = lexicon.shapes[Shape::Wording as usize] {
            counted.push((lexicon.features.get(feature).points * wording / 100, feature));
        }
        topics.sort_unstable_by(|a, b| b.cmp(a));
        counted.extend(topics.into_iter().take(MAX_TOPICS));
        let sum = lexicon.features.base + counted.iter().map(|(points, _)| points).sum::<i32>();
        let is_about_offer = |feature: &FeatureId| {
            let kind = lexicon.features.get(*feature).kind;
            matches!(kind, FeatureKind::Pitch | FeatureKind::Topic | FeatureKind::Vice)
        };
        let has_offer = wording >= TELLING_ODDS
            || counted.iter().any(|(points, feature)| *points >= TELLING_POINTS && is_about_offer(feature));
        if sum < MIN_POINTS || !has_offer {
            return Offer::default();
        }
        counted.sort_unstable_by(|a, b| b.cmp(a));
        let named = counted.into_iter().filter(|(points, _)| *points > 0).take(MAX_NAMED);
        Offer {
            points: u32::try_from(sum).unwrap_or_default().min(MAX_POINTS),
            named: named.map(|(_, feature)| feature).collect(),
        }
    }
}

impl Offer {
    /// One sentence for the operator: `an offer that you did not ask for: says how it found the site, is
    /// about search ranking`.
    pub fn explain(&self, lexicon: &Lexicon) -> String {
        let says = |feature: &FeatureId| {
            let declared = lexicon.features.get(*feature);
            let is_subject = matches!(declared.kind, FeatureKind::Topic | FeatureKind::Vice);
            if is_subject { format!("is about {}", declared.says) } else { declared.says.clone() }
        };
        let parts: Vec<String> = self.named.iter().map(says).collect();
        format!("an offer that you did not ask for: {}", parts.join(", "))
    }
}
