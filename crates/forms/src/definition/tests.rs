//! Definitions in TOML, and the patterns that clients check values with.

use std::ops::RangeInclusive;

use super::*;
use crate::text::is_blank;

#[test]
fn the_line_pattern_lists_exactly_blank_and_control_characters() {
    check(
        FieldKind::Text,
        |c| is_blank(c) && !c.is_control(),
        |c| !is_blank(c) && !c.is_control(),
        |c| !c.is_control(),
    );
}

#[test]
fn the_text_pattern_lists_exactly_blank_characters_and_nul() {
    check(FieldKind::Multiline, is_blank, |c| !is_blank(c) && c != '\0', |c| c != '\0');
}

#[test]
fn every_example_is_accepted() {
    for form in FormSet::built_in().iter() {
        for fields in std::iter::once(&form.fields).chain(&form.alternative) {
            let body: serde_json::Map<_, _> =
                fields.iter().map(|f| (f.name.to_owned(), f.example.into())).collect();
            let body = serde_json::to_vec(&body).unwrap();
            let entry = crate::parse(form, &body).unwrap();
            assert_eq!(entry.fields().count(), fields.len());
        }
    }
}

#[test]
fn a_form_is_found_by_its_name_and_its_path() {
    let set = FormSet::built_in();
    assert_eq!(set.named("contact"), Some(*CONTACT));
    assert_eq!(set.at("/api/waitlist"), Some(*WAITLIST));
    assert_eq!((set.named("Contact"), set.at("/api/contact/")), (None, None));
}

#[test]
fn a_stored_definition_is_the_same_value() {
    for form in FormSet::built_in().iter() {
        let stored = Form::from_stored(&form.stored()).unwrap();
        assert!(std::ptr::eq(stored, form), "equal definitions are one value");
    }
    assert_eq!(Form::from_stored("{}"), None);
}

const DEMO: &str = r#"
title = "Book a demo"
description = "Choose a day, and we show you our cranes."
submit = "Book"
unique = "email"
acknowledge = true

[[field]]
name = "email"
type = "email"
label = "Work e-mail"
required = true

[[field]]
name = "people"
type = "number"
label = "People"
min = 1
max = 20

[[field]]
name = "day"
type = "date"
label = "Day"
min = 2026-06-01

[[field]]
name = "plan"
type = "choice"
label = "Plan"
options = ["Free", "Team"]

[[field]]
name = "topics"
type = "choices"
label = "Topics"
options = ["Cranes", "Ropes", "Hooks"]
max = 2

[[field]]
name = "news"
type = "consent"
label = "Send me news"
required = false
"#;

#[test]
fn a_file_becomes_a_form() {
    let file = FormFile::read("book-a-demo", DEMO, "forms/book-a-demo.toml").unwrap();
    let form = file.form;
    assert_eq!((form.path, form.operation_id), ("/api/book-a-demo", "sendBookADemo"));
    assert_eq!((form.schema_name, form.dedup_key), ("BookADemoRequest", DedupKey::Field("email")));
    assert_eq!(file.settings, [("acknowledge".to_owned(), "true".to_owned(), 6)]);
    assert_eq!(format!("{:?}", form.field("people").unwrap().bounds), "[1.0, 20.0]");
    assert_eq!(form.field("day").unwrap().days, ["2026-06-01", ""]);
    let body = br#"{"email":"a@b","people":3.0,"day":"2026-06-02","plan":"Team","topics":["Hooks","Cranes"],"news":true}"#;
    let entry = crate::parse(form, body).unwrap();
    assert_eq!(
        serde_json::to_string(&entry).unwrap(),
        r#"{"email":"a@b","people":3,"day":"2026-06-02","plan":"Team","topics":["Cranes","Hooks"],"news":true}"#
    );
    let body = br#"{"email":"a@b","people":21,"day":"2026-05-31","plan":"free","topics":["Hooks","Hooks"],"news":"true"}"#;
    assert_eq!(
        crate::parse(form, body).unwrap_err().to_string(),
        "`people` must be a whole number from 1 to 20; `day` must be a day such as 2026-06-01, not before \
         2026-06-01; `plan` must be one of \"Free\" and \"Team\"; `topics` must be a list of at most 2 of \
         \"Cranes\", \"Ropes\" and \"Hooks\", each once; `news` must be true, not a string."
    );
}

#[test]
fn every_fault_of_a_file_is_reported_with_its_line() {
    let faults = |text: &str| -> Vec<String> {
        let faults = FormFile::read("demo", text, "forms/demo.toml").unwrap_err();
        faults.iter().map(|fault| fault.to_string().replace("\n    hint: ", " | ")).collect()
    };
    let text = "titel = \"x\"\n[[field]]\nname = \"Name\"\ntype = \"file\"\n[[field]]\nname = \"id\"\ntype = \"txt\"\n";
    assert_eq!(
        faults(text),
        [
            "forms/demo.toml:1: unknown key `titel` | did you mean `title`?",
            "forms/demo.toml:3: `Name` cannot be the name of a field | use 1 to 40 of a-z, 0-9 and `_`, \
             beginning with a letter",
            "forms/demo.toml:4: uploads are not supported | ask for a link with `type = \"url\"`",
            "forms/demo.toml:6: the name `id` is reserved | choose another name: stored submissions, \
             exports or HTML forms use this one for other data",
            "forms/demo.toml:7: there is no type `txt` | did you mean `text`?",
            "forms/demo.toml:1: `title` is missing | add `title = \"…\"`",
        ]
    );
    assert_eq!(
        faults("title = \"Demo\"\n"),
        ["forms/demo.toml:1: the form has no fields | add a table `[[field]]`"]
    );
    for (field, message) in [
        ("type = \"choice\"\noptions = []", "`options` must have 1 to 100 texts"),
        ("type = \"choice\"", "`options` is missing"),
        (
            "type = \"text\"\noptions = [\"a\"]",
            "only fields of the type choice, choices or hidden have `options`",
        ),
        ("type = \"text\"\nmax = 0", "`max` must be a number from 1 to 20000"),
        ("type = \"number\"\nmin = 2\nmax = 1", "`min` is greater than `max`"),
        ("type = \"number\"\nexample = \"many\"", "`example` of the field `a` is not a value"),
        ("type = \"date\"\nmin = \"soon\"", "`min` must be a day such as"),
        ("type = \"text\"\nrequired = \"yes\"", "`required` must be true or false"),
    ] {
        let text = format!("title = \"x\"\n[[field]]\nname = \"a\"\nlabel = \"A\"\n{field}\n");
        let found = faults(&text);
        assert!(found[0].contains(message), "{field}: {found:?}");
    }
}

/// Compares each of the three character classes in a pattern `^[…]*[^…][^…]*$` with a predicate.
fn check(kind: FieldKind, lead: fn(char) -> bool, first: fn(char) -> bool, rest: fn(char) -> bool) {
    let pattern = Field { kind, ..CONTACT.fields[0].clone() }.pattern().unwrap();
    let inner = pattern.strip_prefix('^').unwrap().strip_suffix("*$").unwrap();
    let classes: Vec<&str> =
        inner.split(']').map(|c| c.trim_start_matches('*')).filter(|c| !c.is_empty()).collect();
    let [a, b, c] = classes[..] else { panic!("{classes:?}") };
    for (class, expected) in [(a, lead), (b, first), (c, rest)] {
        let (negated, listed) = members(class);
        for c in '\0'..=char::MAX {
            let matched = listed.iter().any(|range| range.contains(&u32::from(c))) != negated;
            assert_eq!(matched, expected(c), "U+{:04X} in {class}", u32::from(c));
        }
    }
}

/// Returns whether a class is negated, and its code points.
fn members(class: &str) -> (bool, Vec<RangeInclusive<u32>>) {
    let (negated, members) = match class.strip_prefix("[^") {
        Some(members) => (true, members),
        None => (false, class.strip_prefix('[').unwrap()),
    };
    let mut members = members.split(r"\u").skip(1);
    let mut listed = Vec::new();
    while let Some(member) = members.next() {
        let from = u32::from_str_radix(member.trim_end_matches('-'), 16).unwrap();
        let to = match member.strip_suffix('-') {
            Some(_) => u32::from_str_radix(members.next().unwrap(), 16).unwrap(),
            None => from,
        };
        listed.push(from..=to);
    }
    (negated, listed)
}

#[test]
fn a_key_of_the_form_below_a_field_has_a_hint() {
    let text = "title = \"x\"\n[[field]]\nname = \"a\"\ntype = \"text\"\nlabel = \"A\"\nlimits = 3\n";
    let faults = FormFile::read("demo", text, "forms/demo.toml").unwrap_err();
    let expected =
        "forms/demo.toml:6: unknown key `limits`\n    hint: `limits` belongs above the first `[[field]]`";
    assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn texts_have_no_control_characters() {
    let text = "title = \"a\\nb\"\ndescription = \"a\\nb\"\nsubmit = \"a\\u001bb\"\n[[field]]\nname = \"a\"\ntype = \"text\"\nlabel = \"a\\tb\"\n";
    let faults = FormFile::read("demo", text, "forms/demo.toml").unwrap_err();
    let lines: Vec<_> = faults.iter().map(|fault| (fault.line.unwrap(), fault.message.as_str())).collect();
    let message = |key: &str| format!("`{key}` must be one line without control characters");
    for (line, key) in [(1, "title"), (3, "submit"), (7, "label")] {
        assert!(lines.contains(&(line, &message(key))), "{key}: {lines:?}");
    }
    assert!(lines.iter().all(|(line, _)| *line != 2), "{lines:?}");
}

#[test]
fn a_file_changes_the_words_of_a_built_in_form_and_adds_optional_fields() {
    let text = r#"
title = "Write to us"
limits = { per_hour = 20 }
[[field]]
name = "message"
label = "What is it about?"
example = "Cranes"
[[field]]
name = "email"
type = "email"
required = true
description = "We reply to it."
[[field]]
name = "phone"
type = "tel"
label = "Phone"
"#;
    let file = FormFile::extend(*CONTACT, text, "forms/contact.toml").unwrap();
    let form = file.form;
    assert_eq!((form.title, form.submit), ("Write to us", CONTACT.submit));
    assert_eq!(
        (form.path, form.operation_id, form.schema_name),
        ("/api/contact", "sendContactMessage", "ContactRequest")
    );
    assert_eq!(file.settings, [("limits.per_hour".to_owned(), "20".to_owned(), 3)]);
    let names = |fields: &[Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>();
    assert_eq!(names(&form.fields), ["name", "email", "message", "phone"]);
    let older = form.alternative.as_ref().unwrap();
    assert_eq!(names(older), ["firstname", "lastname", "email", "company", "message", "phone"]);
    assert_eq!(
        (form.fields[2].label, older[4].label, older[2].description),
        ("What is it about?", "What is it about?", "We reply to it.")
    );
    // Clients that know the published shapes are still accepted.
    for body in [
        r#"{"name":"Ada","email":"ada@example.com","message":"Hello"}"#,
        r#"{"firstname":"Ada","lastname":"L","email":"ada@example.com","company":"C"}"#,
        r#"{"firstname":"Ada","lastname":"L","email":"ada@example.com","company":"C","phone":"+49 30 123456"}"#,
    ] {
        crate::parse(form, body.as_bytes()).unwrap();
    }
}

#[test]
fn a_file_cannot_change_the_shapes_of_a_built_in_form() {
    let text = r#"
unique = "email"
[[field]]
name = "message"
required = false
max = 10
[[field]]
name = "firstname"
type = "number"
[[field]]
name = "budget"
type = "number"
label = "Budget"
required = true
[[field]]
name = "budget"
type = "number"
label = "Budget"
"#;
    let faults = FormFile::extend(*CONTACT, text, "forms/contact.toml").unwrap_err();
    let faults: Vec<String> =
        faults.iter().map(|fault| fault.to_string().split('\n').next().unwrap().to_owned()).collect();
    assert_eq!(
        faults,
        [
            "forms/contact.toml:2: `unique` of the form `contact` cannot be changed",
            "forms/contact.toml:6: `max` of the field `message` of the form `contact` cannot be changed",
            "forms/contact.toml:5: `required` of the field `message` of the form `contact` cannot be changed",
            "forms/contact.toml:9: `type` of the field `firstname` of the form `contact` cannot be changed",
            "forms/contact.toml:11: the field `budget` of the form `contact` must be optional",
            "forms/contact.toml:16: the field `budget` exists twice",
        ]
    );
}

#[test]
fn texts_that_visitors_see_are_not_empty() {
    let text = "title = \" \"\nsubmit = \"\"\nthanks = \"\"\n";
    let faults = FormFile::extend(*CONTACT, text, "forms/contact.toml").unwrap_err();
    let faults: Vec<_> = faults.iter().map(|fault| &*fault.message).collect();
    assert_eq!(faults, ["`title` is empty", "`submit` is empty"]);
    let text = "title = \"x\"\nsummary = \"\"\nsubmit = \"\"\n[[field]]\nname = \"a\"\ntype = \"text\"\nlabel = \"A\"\n";
    let faults = FormFile::read("demo", text, "forms/demo.toml").unwrap_err();
    let faults: Vec<_> = faults.iter().map(|fault| &*fault.message).collect();
    assert_eq!(faults, ["`summary` is empty", "`submit` is empty"]);
}

#[test]
fn neither_shape_of_a_built_in_form_has_too_many_fields() {
    let field = |number| format!("[[field]]\nname = \"f{number}\"\ntype = \"text\"\nlabel = \"F\"\n");
    let longest = CONTACT.alternative.as_ref().unwrap().len().max(CONTACT.fields.len());
    for (added, is_accepted) in [(MAX_FIELDS - longest, true), (MAX_FIELDS - longest + 1, false)] {
        let text: String = (0..added).map(field).collect();
        let faults = FormFile::extend(*CONTACT, &text, "forms/contact.toml").err().unwrap_or_default();
        let faults: Vec<_> = faults.iter().map(|fault| &*fault.message).collect();
        let expected: &[&str] = if is_accepted { &[] } else { &["the form has more than 40 fields"] };
        assert_eq!(faults, expected, "{added}");
    }
}

#[test]
fn names_and_values_of_definitions_are_checked() {
    let consent = |more: &str| {
        format!("title = \"x\"\n[[field]]\nname = \"a\"\ntype = \"consent\"\nlabel = \"A\"\n{more}\n")
    };
    for (name, text, expected) in [
        ("ä-é", consent(""), "`ä-é` cannot be the name of a form"),
        ("demo", consent("default = \"true\""), "a consent has no `default`"),
        (
            "demo",
            consent("example = \"no\""),
            "`example` of the field `a` is not a value that the field accepts",
        ),
        ("demo", consent("").replace("\"x\"", "\"\""), "`title` is empty"),
    ] {
        let faults = FormFile::read(name, &text, "forms/demo.toml").unwrap_err();
        assert!(faults.iter().any(|fault| fault.message.starts_with(expected)), "{expected}: {faults:?}");
    }
    let hidden = "title = \"x\"\nconfirm_within = \"2d\"\n[[field]]\nname = \"plan\"\ntype = \"hidden\"\noptions = [\"a\"]\n";
    let file = FormFile::read("demo", hidden, "forms/demo.toml").unwrap();
    assert_eq!((file.form.fields[0].label, file.settings.len()), ("plan", 1));
    let text =
        "title = \"x\"\n[[field]]\nname = \"many\"\ntype = \"choices\"\nlabel = \"M\"\noptions = [\"a\"]\n";
    let form = FormFile::read("demo", text, "forms/demo.toml").unwrap().form;
    let posted = crate::form_post::PostedForm::decode(form, b"many=").unwrap();
    assert_eq!(posted.parse().unwrap().entry.fields().count(), 0, "a menu without a selection");
    let error = crate::parse(form, br#"{"many":["a",1]}"#).unwrap_err().to_string();
    assert!(error.starts_with("`many` must be a list of ") && !error.contains("not an array"), "{error}");
    assert_eq!(
        crate::parse(form, b"[]").unwrap_err().to_string(),
        "The body must be a JSON object, not an array."
    );
}
