//! Prints the features, the points and the label of labelled texts, a JSON object per line, to fit the points in
//! `lexicon/features.toml`: `cargo run --release -p frontdesk-screening --example features -- FOLDER…`.
//! Each folder has `texts.jsonl` and optionally `companies.jsonl`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use frontdesk_forms::CONTACT;
use frontdesk_forms::parse::{Extras, parse};
use frontdesk_screening::{
    Lexicon, RequestSignals, ScreeningOptions, SiteProfile, TokenizedText, find_features, screen,
};
use serde_json::{Value, json};

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
    for folder in std::env::args().skip(1) {
        print_folder(Path::new(&folder), &lexicon);
    }
}

fn read_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn print_folder(folder: &Path, lexicon: &Arc<Lexicon>) {
    let mut profiles: HashMap<String, Arc<SiteProfile>> = HashMap::new();
    for company in read_lines(&folder.join("companies.jsonl")) {
        let pages = company["pages"].as_array().cloned().unwrap_or_default();
        let texts: Vec<&str> = pages.iter().filter_map(|page| page["text"].as_str()).collect();
        let id = company["company"].as_str().unwrap_or_default();
        profiles.insert(id.to_owned(), Arc::new(SiteProfile::read(lexicon, texts)));
    }
    for row in read_lines(&folder.join("texts.jsonl")) {
        let body = json!({"name": row["name"], "email": row["email"], "message": row["message"]});
        let Ok(entry) = parse(&CONTACT, body.to_string().as_bytes()) else {
            eprintln!("not valid: {row}");
            continue;
        };
        let company = row["company"].as_str().unwrap_or_default();
        let profile = profiles.get(company).cloned().unwrap_or_default();
        let options = ScreeningOptions { lexicon: lexicon.clone(), profile, ..ScreeningOptions::default() };
        let text = TokenizedText::new(&entry);
        let verdict = screen(&text, &Extras::default(), &RequestSignals::default(), &options);
        let features: HashMap<String, u8> = find_features(&text, &options).into_iter().collect();
        println!(
            "{}",
            json!({"label": row["label"], "language": row["language"], "company": company, "kind": row["kind"], "message": row["message"], "email": row["email"],
                "features": features, "score": verdict.score, "because": verdict.because(),
                "marked": verdict.suspicious || verdict.hold, "held": verdict.hold,
                "others": verdict.reasons.iter().filter(|reason| reason.signal != frontdesk_screening::verdict::Signal::Offer).map(|reason| reason.points).sum::<u32>()})
        );
    }
}
