//! Reads the features that screening looks for: steps of a sales pitch, subjects of offers, and
//! what only honest enquiries have.
//!
//! `lexicon/features.toml` declares them with their points; the files of languages map phrases to them, so
//! that one set of points serves all languages.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lexicon_fault::LexiconFault;
use frontdesk_forms::named_enum;

/// The declarations of the built-in features.
pub(super) const BUILT_IN: &str = include_str!("../lexicon/features.toml");

/// A feature's number: its position in the [`FeatureSet`].
pub(super) type FeatureId = usize;

/// The group of a feature, which determines how the feature counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureKind {
    /// A step of a sales pitch, such as asking for a call.
    Pitch,
    /// The subject of an offer. Does not count if it is the site's own trade.
    Topic,
    /// A subject such as gambling or pills, about which honest visitors hardly ever write.
    Vice,
    /// A phrase of visitors with a genuine concern, which spam rarely contains. Has negative points.
    Enquiry,
    /// A property that the code computes from the text, such as its length.
    Shape,
}

named_enum! {
    /// The features that the code computes instead of finding phrases.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shape {
        /// The text has a link.
        Link = "link",
        /// A link leads to the domain of an e-mail address that is not from a provider of free mailboxes.
        OwnLink = "own-link",
        /// At least one e-mail address is not from a provider of free mailboxes.
        CompanyAddress = "company-address",
        /// The text has no question mark.
        NoQuestion = "no-question",
        /// The text has at least 60 words.
        Long = "long",
        /// The text has fewer than 15 words.
        Short = "short",
        /// Many words of the text are also frequent on the site's pages.
        SiteWords = "site-words",
        /// Hardly any word of the text is frequent on the site's pages.
        ForeignWords = "foreign-words",
        /// The text has at least three steps of a pitch, not counting those of weight 1.
        ManySteps = "many-steps",
        /// A word of the text contains a digit.
        Digits = "digits",
        /// The wording, which [`wording_model`](crate::wording_model) judges. Its points are per unit of
        /// log-odds.
        Wording = "wording",
    }
}

/// The declaration of a feature in `features.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Feature {
    pub kind: FeatureKind,
    /// The points at full strength; negative if honest enquiries have the feature.
    pub points: i32,
    /// Completes the sentence "the writer …", or names the subject of an offer.
    pub says: String,
    /// Whether the feature's subject is a promise of quick money.
    #[serde(default)]
    pub money: bool,
}

/// All features, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FeatureSet {
    /// The points of a text without any feature; negative.
    pub base: i32,
    names: Vec<String>,
    features: Vec<Feature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureFile {
    base: Option<i32>,
    #[serde(default)]
    feature: BTreeMap<String, Feature>,
}

impl FeatureSet {
    /// Reads the declarations of `files` in order; a later one replaces an earlier one with the same name,
    /// and the last `base` counts.
    pub fn parse<'a>(files: impl IntoIterator<Item = &'a str>) -> Result<FeatureSet, LexiconFault> {
        let (mut base, mut all) = (0, BTreeMap::new());
        for text in files {
            let file: FeatureFile =
                toml::from_str(text).map_err(|error| LexiconFault::in_toml(text, &error))?;
            base = file.base.unwrap_or(base);
            all.extend(file.feature);
        }
        let (names, features) = all.into_iter().unzip();
        Ok(FeatureSet { base, names, features })
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn find(&self, name: &str) -> Option<FeatureId> {
        self.names.binary_search_by(|known| known.as_str().cmp(name)).ok()
    }

    pub fn get(&self, id: FeatureId) -> &Feature {
        &self.features[id]
    }

    pub fn name(&self, id: FeatureId) -> &str {
        &self.names[id]
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
