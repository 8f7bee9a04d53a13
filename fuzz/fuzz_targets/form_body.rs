//! Fuzzes the bodies of form submissions, as JSON and as HTML forms: an accepted entry matches the definition
//! of the form, and an error is one sentence.

#![no_main]

use std::sync::LazyLock;

use frontdesk_forms::form_post::PostedForm;
use frontdesk_forms::telephone::telephone_number;
use frontdesk_forms::text::is_blank;
use frontdesk_forms::value::web_address;
use frontdesk_forms::{Entry, Field, FieldKind, Form, FormFile, FormSet, parse};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A form with a field of each kind.
static ALL_KINDS: LazyLock<&'static Form> = LazyLock::new(|| {
    let mut text = "title = \"All\"\n".to_owned();
    for (name, kind) in FieldKind::ALL {
        text += &format!(
            "[[field]]\nname = \"{name}\"\ntype = \"{name}\"\nlabel = \"{name}\"\nrequired = false\n"
        );
        text += if kind.has_options() { "options = [\"a\", \"b c\"]\n" } else { "" };
    }
    FormFile::read("all", &text, "forms/all.toml").expect("a valid definition").form
});

fuzz_target!(|body: &[u8]| {
    for form in FormSet::built_in().iter().chain([*ALL_KINDS]) {
        match parse(form, body) {
            Ok(entry) => check_entry(form, &entry, body),
            Err(rejection) => check_sentence(form, &rejection.to_string()),
        }
        match PostedForm::decode(form, body).and_then(|posted| posted.parse()) {
            Ok(parsed) => check_entry(form, &parsed.entry, b""),
            Err(rejection) => check_sentence(form, &rejection.to_string()),
        }
        match PostedForm::decode_multipart(form, body, b"x", None).parse() {
            Ok(parsed) => check_entry(form, &parsed.entry, b""),
            Err(rejection) => check_sentence(form, &rejection.to_string()),
        }
    }
});

fn check_entry(form: &'static Form, entry: &Entry, body: &[u8]) {
    let has = |shape: &[Field]| {
        shape
            .iter()
            .filter(|field| field.required)
            .all(|field| entry.fields().any(|(name, _)| name == field.name))
            && entry.fields().all(|(name, _)| shape.iter().any(|field| field.name == name))
    };
    let shape = [Some(&form.fields), form.alternative.as_ref()]
        .into_iter()
        .flatten()
        .find(|shape| has(shape))
        .expect("an entry has the fields of one shape of the form");

    for (name, text) in entry.texts() {
        let field = shape.iter().find(|field| field.name == name).expect("a field of the shape");
        assert!(
            !field.kind.is_written() || text.chars().count() <= 3 * field.max_chars,
            "{name} is too long"
        );
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
            FieldKind::Choice | FieldKind::Hidden => assert!(field.options.contains(&text), "{name}"),
            FieldKind::Tel => assert_eq!(telephone_number(text).as_deref(), Some(text), "{name}"),
            FieldKind::Url => assert_eq!(web_address(text).as_deref(), Some(text), "{name}"),
            FieldKind::Date => assert_eq!(text.len(), 10, "{name}"),
            FieldKind::Number | FieldKind::Choices | FieldKind::Consent => panic!("{name} is no text"),
        }
    }

    // Another JSON parser finds the same values, including spaces, except where values have a normal form or
    // are converted, because they come from a page's controls.
    if let Ok(value) = serde_json::from_slice::<Value>(body)
        && value["desk_controls"] != true
    {
        let has_normal_form = |name: &str| {
            let kind = form.field(name).map(|field| field.kind);
            matches!(kind, Some(FieldKind::Tel | FieldKind::Url))
        };
        for (name, text) in entry.texts().filter(|(name, _)| !has_normal_form(name)) {
            assert_eq!(value[name].as_str(), Some(text), "{name} was changed");
        }
    }

    // An entry survives a round trip through JSON, unless a normal form is longer than the maximum: `https://`
    // is added to web addresses.
    let is_short = |name: &str, text: &str| {
        shape.iter().any(|field| field.name == name && text.chars().count() <= field.max_chars)
    };
    let fields = serde_json::to_vec(entry).expect("JSON");
    match parse(form, &fields) {
        Ok(again) => assert_eq!(again, *entry, "an entry is accepted again"),
        Err(rejection) => {
            assert!(!entry.texts().all(|(name, text)| is_short(name, text)), "{rejection}");
        }
    }
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
