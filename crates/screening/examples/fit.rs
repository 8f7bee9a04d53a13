//! Fits the points in `lexicon/features.toml` to labeled texts: logistic regression, drawn towards a prior
//! for each kind of feature, so that rare features keep plausible points.
//!
//! `cargo run --release -p frontdesk-screening --example fit -- FOLDER…` prints, for each folder, how texts
//! fare with the points that the other folders give. A folder has the texts of one author: `texts.jsonl` with
//! `label` (`ham` or `spam`), `name`, `email`, `message` and optionally `company`, and `companies.jsonl` with
//! `company` and the texts of its `pages`. `LEXICON` names a folder with files that replace built-in ones;
//! `SHOW=1` prints the texts that were judged wrongly; `WRITE` names the folder of the lexicon in which the
//! points that all folders give are stored.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a tool of the developers prints its results, and its counts are small"
)]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use frontdesk_forms::{CONTACT, parse};
use frontdesk_screening::{
    FeatureKind, Lexicon, ScreeningOptions, SiteProfile, TokenizedText, find_features, wording_model,
};
use serde_json::{Value, json};

/// Points per unit of log-odds.
const POINTS_PER_UNIT: f64 = 20.0;
/// The number of points from which a text is marked as suspicious.
const MARKED: f64 = 50.0;
/// The maximum share of honest texts that the fitted points may mark as suspicious.
const MAX_WRONG: f64 = 0.06;
/// How strongly weights are drawn towards their priors, as a number of texts.
const STRENGTH: f64 = 4.0;
/// How strongly the weights of letter sequences are drawn towards zero, as a number of texts.
const SEQUENCE_STRENGTH: f64 = 0.1;
const STEPS: usize = 400;

struct Text {
    author: usize,
    is_spam: bool,
    /// The ID of each feature of the text, and the strength of the feature from 0 to 1.
    features: Vec<(usize, f64)>,
    /// The letter sequences of the text, and the strength that each of them has.
    sequences: (Vec<u16>, f64),
    row: Value,
}

/// The weights of features, the weights of letter sequences, and the base, in units of log-odds.
struct Model {
    features: Vec<f64>,
    sequences: Vec<f64>,
    base: f64,
}

/// A feature's prior weight, and the minimum and maximum of its fitted weight.
fn prior(name: &str, kind: FeatureKind) -> (f64, f64, f64) {
    match kind {
        // A link never makes a text look more honest.
        FeatureKind::Shape if name.ends_with("link") => (0.0, 0.0, 2.0),
        FeatureKind::Pitch => (1.2, 0.0, 3.5),
        FeatureKind::Topic => (1.2, 0.4, 3.0),
        FeatureKind::Vice => (2.5, 1.0, 4.0),
        FeatureKind::Enquiry => (-1.2, -3.0, 0.0),
        FeatureKind::Shape => (0.0, -2.0, 2.0),
    }
}

fn read_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Reads the texts of a folder with their features and letter sequences. Skips texts that the contact form
/// refuses. A missing file counts as empty. Texts with fewer than 60 sequences get none.
fn read_author(
    folder: &Path,
    author: usize,
    lexicon: &Arc<Lexicon>,
    names: &HashMap<String, usize>,
) -> Vec<Text> {
    let mut profiles: HashMap<String, Arc<SiteProfile>> = HashMap::new();
    for company in read_lines(&folder.join("companies.jsonl")) {
        let pages = company["pages"].as_array().cloned().unwrap_or_default();
        let texts: Vec<&str> = pages.iter().filter_map(|page| page["text"].as_str()).collect();
        profiles.insert(company["company"].to_string(), Arc::new(SiteProfile::read(lexicon, texts)));
    }
    let rows = read_lines(&folder.join("texts.jsonl"));
    let text = |row: Value| {
        let body = json!({"name": row["name"], "email": row["email"], "message": row["message"]});
        let entry = parse(&CONTACT, body.to_string().as_bytes()).ok()?;
        let profile = profiles.get(&row["company"].to_string()).cloned().unwrap_or_default();
        let options = ScreeningOptions { lexicon: lexicon.clone(), profile, ..ScreeningOptions::default() };
        let features = find_features(&TokenizedText::new(&entry), &options);
        let features =
            features.iter().map(|(name, weight)| (names[name], f64::from(*weight) / 4.0)).collect();
        let message = row["message"].as_str().unwrap_or_default();
        let sequences = wording_model::sequences(message);
        let sequences = if sequences.len() < 60 { Vec::new() } else { sequences };
        let strength = 1.0 / (sequences.len().max(1) as f64).sqrt();
        Some(Text {
            author,
            is_spam: row["label"] == "spam",
            features,
            sequences: (sequences, strength),
            row,
        })
    };
    rows.into_iter().filter_map(text).collect()
}

/// Fits a model by gradient descent with momentum. The total weight of an author's texts with one label is
/// proportional to the square root of their number.
fn fit(texts: &[&Text], priors: &[(f64, f64, f64)]) -> Model {
    let mut model = Model {
        features: priors.iter().map(|prior| prior.0).collect(),
        sequences: vec![0.0; 1 << 15],
        base: -2.0,
    };
    let mut speed = Model { features: vec![0.0; priors.len()], sequences: vec![0.0; 1 << 15], base: 0.0 };
    let mut counts: HashMap<(usize, bool), f64> = HashMap::new();
    for text in texts {
        *counts.entry((text.author, text.is_spam)).or_default() += 1.0;
    }
    // An author with four times as many texts counts twice as much.
    let shares: HashMap<(usize, bool), f64> =
        counts.iter().map(|(key, count)| (*key, 10.0 / count.sqrt())).collect();
    let rate = 8.0 / counts.values().map(|count| 10.0 * count.sqrt()).sum::<f64>();
    for _ in 0..STEPS {
        let mut slope = Model { features: vec![0.0; priors.len()], sequences: vec![0.0; 1 << 15], base: 0.0 };
        for text in texts {
            let expected = f64::from(u8::from(text.is_spam));
            let share = shares[&(text.author, text.is_spam)];
            let error = share * (1.0 / (1.0 + (-odds(text, &model)).exp()) - expected);
            text.features.iter().for_each(|(feature, strength)| slope.features[*feature] += error * strength);
            let (sequences, strength) = &text.sequences;
            for at in sequences {
                slope.sequences[usize::from(*at)] += error * strength;
            }
            slope.base += error;
        }
        let step = |speed: &mut f64, slope: f64| {
            *speed = 0.9 * *speed - 0.1 * rate * slope;
            *speed
        };
        for (at, (mean, least, most)) in priors.iter().enumerate() {
            let pull = STRENGTH * (model.features[at] - mean);
            let change = step(&mut speed.features[at], slope.features[at] + pull);
            model.features[at] = (model.features[at] + change).clamp(*least, *most);
        }
        for at in 0..model.sequences.len() {
            let pull = SEQUENCE_STRENGTH * model.sequences[at];
            model.sequences[at] += step(&mut speed.sequences[at], slope.sequences[at] + pull);
        }
        model.base += step(&mut speed.base, slope.base);
    }
    model
}

fn odds(text: &Text, model: &Model) -> f64 {
    let features: f64 =
        text.features.iter().map(|(feature, strength)| model.features[*feature] * strength).sum();
    let (sequences, strength) = &text.sequences;
    let wording: f64 = sequences.iter().map(|at| model.sequences[usize::from(*at)] * strength).sum();
    features + wording + model.base
}

/// The threshold of the log-odds: at most a share of [`MAX_WRONG`] of the honest texts exceed it.
fn threshold(judged: &[(f64, &Text)]) -> f64 {
    let mut ham: Vec<f64> = judged.iter().filter(|(_, text)| !text.is_spam).map(|(odds, _)| *odds).collect();
    ham.sort_unstable_by(f64::total_cmp);
    let allowed = (ham.len() as f64 * MAX_WRONG) as usize;
    ham[ham.len() - 1 - allowed]
}

fn main() {
    let mut own = BTreeMap::new();
    if let Some(folder) = std::env::var_os("LEXICON") {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".toml") {
                own.insert(name, std::fs::read_to_string(entry.path()).expect("a file"));
            }
        }
    }
    let lexicon = Arc::new(Lexicon::with_files(&own).unwrap_or_else(|fault| panic!("{fault}")));
    let features: Vec<(String, FeatureKind)> =
        lexicon.features().map(|(name, kind)| (name.to_owned(), kind)).collect();
    let names: HashMap<String, usize> =
        features.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
    let priors: Vec<(f64, f64, f64)> = features.iter().map(|(name, kind)| prior(name, *kind)).collect();
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<Text> = folders
        .iter()
        .enumerate()
        .flat_map(|(author, folder)| read_author(Path::new(folder), author, &lexicon, &names))
        .collect();
    // The log-odds of each text, by a model that was fitted without the texts of the same author.
    let mut judged: Vec<(f64, &Text)> = Vec::new();
    for author in 0..folders.len() {
        let (held_out, others): (Vec<&Text>, Vec<&Text>) =
            texts.iter().partition(|text| text.author == author);
        let model = fit(&others, &priors);
        judged.extend(held_out.into_iter().map(|text| (odds(text, &model), text)));
    }
    let limit = threshold(&judged);
    for (author, folder) in folders.iter().enumerate() {
        let mut counts = [[0; 2]; 2];
        for (odds, text) in judged.iter().filter(|(_, text)| text.author == author) {
            let is_marked = *odds > limit;
            counts[usize::from(text.is_spam)][usize::from(is_marked)] += 1;
            if is_marked != text.is_spam && std::env::var_os("SHOW").is_some() {
                let found: Vec<&str> =
                    text.features.iter().map(|(feature, _)| features[*feature].0.as_str()).collect();
                println!(
                    "{:.1} {} {}: {} [{}]",
                    odds - limit,
                    text.row["label"],
                    text.row["language"],
                    text.row["message"],
                    found.join(" ")
                );
            }
        }
        let [[good, wrong], [missed, caught]] = counts;
        println!(
            "{folder}: {wrong} of {} honest and {caught} of {} spam marked",
            good + wrong,
            missed + caught
        );
    }
    let model = fit(&texts.iter().collect::<Vec<_>>(), &priors);
    let base = (MARKED + POINTS_PER_UNIT * (model.base - limit)).round();
    let points: HashMap<&str, f64> = features
        .iter()
        .zip(&model.features)
        .filter(|((name, _), _)| name != "wording")
        .map(|((name, _), weight)| (name.as_str(), (POINTS_PER_UNIT * weight).round()))
        .collect();
    if let Some(folder) = std::env::var_os("WRITE") {
        write(Path::new(&folder), base, &points, &model.sequences);
    }
}

/// Writes the points into `features.toml`, and the weights of letter sequences into `wording.bin`.
fn write(folder: &Path, base: f64, points: &HashMap<&str, f64>, sequences: &[f64]) {
    let file = folder.join("features.toml");
    let text = std::fs::read_to_string(&file).expect("features.toml");
    let mut feature = "";
    let line = |line| {
        if let Some(name) = str::strip_prefix(line, "[feature.") {
            feature = name.trim_end_matches(']');
        }
        match points.get(feature) {
            Some(points) if line.starts_with("points = ") => format!("points = {points}\n"),
            _ if line.starts_with("base = ") => format!("base = {base}\n"),
            _ => format!("{line}\n"),
        }
    };
    let text: String = text.lines().map(line).collect();
    std::fs::write(file, text).expect("features.toml is written");
    let weight = |weight: &f64| (weight * wording_model::WEIGHT_UNIT).round().clamp(-127.0, 127.0) as i8;
    let bytes: Vec<u8> = sequences.iter().map(|sequence| weight(sequence).cast_unsigned()).collect();
    std::fs::write(folder.join("wording.bin"), bytes).expect("wording.bin is written");
}
