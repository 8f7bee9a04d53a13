//! Fuzzes the bodies of form submissions, as JSON and as HTML forms: an accepted entry matches the definition
//! of the form, and an error is one sentence.

#![no_main]

use frontdesk_forms::parse::{Entry, parse};
use frontdesk_forms::text::is_blank;
use frontdesk_forms::urlencoded::PostedForm;
use frontdesk_forms::{Field, FieldKind, Form, FormSet};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|body: &[u8]| {
    for form in FormSet::built_in().iter() {
        match parse(form, body) {
            Ok(entry) => check_entry(form, &entry, body),
            Err(rejection) => check_sentence(form, &rejection.to_string()),
        }
        match PostedForm::decode(form, body).and_then(|posted| posted.parse()) {
            Ok(parsed) => check_entry(form, &parsed.entry, b""),
            Err(rejection) => check_sentence(form, &rejection.to_string()),
        }
    }
});

fn check_entry(form: &'static Form, entry: &Entry, body: &[u8]) {
    let has = |shape: &[Field]| {
        shape.iter().filter(|field| field.required).all(|field| entry.get(field.name).is_some())
            && entry.fields().all(|(name, _)| shape.iter().any(|field| field.name == name))
    };
    let shape = [Some(&form.fields), form.alternative.as_ref()]
        .into_iter()
        .flatten()
        .find(|shape| has(shape))
        .expect("an entry has the fields of one shape of the form");

    for (name, text) in entry.texts() {
        let field = shape.iter().find(|field| field.name == name).expect("a field of the shape");
        assert!(text.chars().count() <= field.max_chars, "{name} is too long");
        assert!(!text.chars().all(is_blank), "{name} is blank");
        match field.kind {
            FieldKind::Email => {
                assert!(text.is_ascii() && !text.contains(|c: char| c.is_ascii_control()), "{name}");
                let (local, domain) = text.rsplit_once('@').expect("an at sign");
                assert!((1..=64).contains(&local.len()) && (1..=255).contains(&domain.len()), "{name}");
                assert!(!domain.contains(char::is_whitespace), "{name}");
            }
            FieldKind::Text => assert!(!text.contains(char::is_control), "{name}"),
            FieldKind::Multiline => assert!(!text.contains('\0'), "{name}"),
        }
    }

    // Another JSON parser finds the same values, including spaces.
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        for (name, text) in entry.texts() {
            assert_eq!(value[name].as_str(), Some(text), "{name} was changed");
        }
    }

    // An entry survives a round trip through JSON.
    let fields: Map<String, Value> = entry.texts().map(|(name, text)| (name.into(), text.into())).collect();
    let again = parse(form, Value::Object(fields).to_string().as_bytes());
    assert!(again.is_ok_and(|again| again == *entry), "an entry is accepted again");
}

fn check_sentence(form: &Form, sentence: &str) {
    assert!(sentence.ends_with('.'), "{sentence}");
    assert!(!sentence.contains(char::is_control), "{sentence}");
    assert!(sentence.len() < 2000, "{} bytes of sentence", sentence.len());
    // Backquotes enclose field names or JSON punctuation, never visitor input.
    for quoted in sentence.split('`').skip(1).step_by(2) {
        let mut fields = form.all_fields();
        let punctuation = quoted.chars().all(|c| c.is_ascii_punctuation());
        assert!(punctuation || fields.any(|field| field.name == quoted), "{sentence}");
    }
}
