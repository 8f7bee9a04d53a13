//! Compares the verdicts of a JSON Schema validator and of the server, for random forms and values.

use jsonschema::{Draft, Validator};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::email::Mailbox;
use crate::{Form, FormFile, FormSet, parse};

/// A validator of draft 2020-12 that checks `format`, with the syntax of addresses that the server has.
fn validator(fields: &[Field]) -> Validator {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .with_format("email", |text: &str| Mailbox::parse(text).is_some())
        .build(&object_schema(fields))
        .unwrap()
}

/// The lines of a random field without its name, such as `type = "text"`.
fn field_lines() -> impl Strategy<Value = String> {
    let options = subsequence(vec!["Small", "Größe L", "<b>x</b>", "=1+1", "a, b", "4"], 1..=6);
    let bounds = (-3_i32..4, 0_i32..5);
    let typed = prop_oneof![
        (select(vec!["text", "multiline", "email", "tel", "url"]), prop::option::of(15_u32..25)).prop_map(
            |(kind, max)| {
                let max = max.map(|max| format!("max = {max}\n")).unwrap_or_default();
                format!("type = \"{kind}\"\n{max}")
            }
        ),
        (bounds, select(vec!["", ".5"]), any::<bool>()).prop_map(|((min, more), half, is_bounded)| {
            let bounds = if is_bounded {
                format!("min = {min}\nmax = {}{half}\n", min + more + 1)
            } else {
                String::new()
            };
            format!("type = \"number\"\n{bounds}{}", if half.is_empty() { "" } else { "step = \"any\"\n" })
        }),
        Just("type = \"date\"\n".to_owned()),
        (select(vec!["choice", "hidden"]), options.clone())
            .prop_map(|(kind, options)| format!("type = \"{kind}\"\noptions = {options:?}\n")),
        (options, 1_usize..4, 0_usize..3).prop_map(|(options, least, more)| {
            let least = least.min(options.len());
            let most = (least + more).min(options.len());
            format!("type = \"choices\"\noptions = {options:?}\nmin = {least}\nmax = {most}\n")
        }),
        subsequence(vec!["Mon", "Tue", "Wed"], 1..=3)
            .prop_map(|options| format!("type = \"choices\"\noptions = {options:?}\n")),
        Just("type = \"consent\"\n".to_owned()),
    ];
    (typed, any::<bool>())
        .prop_map(|(typed, required)| format!("{typed}label = \"Label\"\nrequired = {required}\n"))
}

fn random_form() -> impl Strategy<Value = &'static Form> {
    prop::collection::vec(field_lines(), 1..5).prop_map(|fields| {
        let field = |(n, lines): (usize, &String)| format!("[[field]]\nname = \"f{n}\"\n{lines}");
        let fields: String = fields.iter().enumerate().map(field).collect();
        FormFile::read("demo", &format!("title = \"Demo\"\n{fields}"), "forms/demo.toml").expect(&fields).form
    })
}

/// Strings that some kind of field accepts, and others that are almost right.
const TEXTS: [&str; 74] = [
    "",
    " ",
    "\t",
    "\u{200b}\u{3000}",
    "\u{a0}\n",
    "a",
    "a\nb",
    "a\tb",
    "a\u{0}b",
    " a ",
    "\u{7f}",
    "\u{85}",
    "\u{e0001}",
    "👩‍💻",
    "twenty-six characters here!",
    "ada@example.com",
    "ada@[127.0.0.1]",
    "\"a b\"@example.com",
    "ada@",
    "ada@example.com ",
    "a@b",
    "12345",
    "1234",
    "+49 30 123456",
    "+49 (0)30/12-34.56",
    "+ 49 30 123456",
    "++49 30 123456",
    "030 123456 x7",
    "030 123456 x",
    "030 123456 ext. 7 ",
    "030 123456;ext=7",
    "030 123456 ext .7",
    "030 123456 x1234567",
    "1234567890123456",
    "(0)1234",
    "+1 (0) 234",
    "٠٣٠١٢٣٤٥٦",
    "\u{202a}＋４９\u{a0}（０）３０–１２３４５６\u{202c}",
    "030 123456 ext.\u{200b}٧\u{3000}",
    "(+44) 20 7946 0958",
    "Tel.: [+49]30·12345",
    "tel tel 030 12345",
    "966501234567+",
    "+030 12345+ x1",
    "030 12345, EXTENSION = 7)",
    "030 12345 ДОБ. 7",
    "030 12345 #7 -",
    "030 12345 extnsion 7",
    "030 12345,, ext 7",
    "https://example.com/",
    "example.com",
    "HTTP://EXAMPLE.COM",
    "a..b",
    "localhost",
    "[::1]",
    "http://[2001:db8::1]:80/",
    "http://a.b:99/x?y#z",
    "bücher.example",
    "https://a@b.example",
    "https:///a.b",
    "a.b\\c",
    "a.b/ c",
    "2026-11-27",
    "2024-02-29",
    "2026-02-29",
    "0999-01-01",
    "2026-1-1",
    "9999-12-31",
    "Small",
    "Größe L",
    "<b>x</b>",
    "=1+1",
    "small",
    "4",
];

fn random_value() -> impl Strategy<Value = Value> {
    let texts = prop::collection::vec(
        select(vec!["Small", "Größe L", "<b>x</b>", "=1+1", "4", "Mon", "Tue", "Wed", "?"]),
        0..4,
    );
    prop_oneof![
        8 => select(&TEXTS[..]).prop_map(Value::from),
        2 => any::<String>().prop_map(Value::from),
        1 => "[ +0-9().x/-]{4,24}".prop_map(Value::from),
        1 => r"(tel)?[ (]?\+?[0-9 ]{4,12}[,;]?( ?(Ext|x|#|ДОБ|int)[.:]?[0-9]{0,7}|\+)?\)?".prop_map(Value::from),
        2 => r"(https?:/{1,3})?[a-c.:\[\]@%/\\0-9。（é_#?-]{1,14}".prop_map(Value::from),
        3 => (-10_i32..20).prop_map(|half| json!(f64::from(half) / 2.0)),
        2 => (-4_i64..8).prop_map(Value::from),
        1 => select(vec![json!(9_007_199_254_740_991_i64), json!(9_007_199_254_740_992_i64), json!(u64::MAX), json!(1e300), json!(-0.0)]),
        2 => any::<bool>().prop_map(Value::from),
        4 => texts.prop_map(Value::from),
        2 => subsequence(vec!["Small", "Größe L", "<b>x</b>", "=1+1", "Mon", "Tue"], 0..4).prop_map(Value::from),
        1 => select(vec![Value::Null, json!({}), json!([1]), json!(["Small", null]), json!([["Small"]])]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn the_server_and_the_schema_accept_the_same_values(
        form in random_form(),
        values in prop::collection::vec(prop::option::weighted(0.9, random_value()), 5),
    ) {
        // Each field alone, because most random objects have a fault somewhere.
        for (field, value) in form.fields.iter().zip(values) {
            let fields = std::slice::from_ref(field);
            let alone = alone(form, field);
            let body: Map<String, Value> = value.map(|value| (field.name.to_owned(), value)).into_iter().collect();
            let body = Value::Object(body);
            let is_accepted = parse(alone, body.to_string().as_bytes()).is_ok();
            let is_valid = validator(fields).is_valid(&body);
            // The schema of a web address is wider, as documented.
            let is_same = is_accepted == is_valid || (field.kind == FieldKind::Url && is_valid);
            prop_assert!(is_same, "{field:?} {body} server: {is_accepted} schema: {is_valid}");
        }
    }

    #[test]
    fn the_example_of_any_form_is_accepted(form in random_form()) {
        let example: Map<String, Value> =
            form.fields.iter().map(|field| (field.name.to_owned(), json!(field.example_value()))).collect();
        let example = Value::Object(example);
        prop_assert!(parse(form, example.to_string().as_bytes()).is_ok(), "{example}");
        prop_assert!(validator(&form.fields).is_valid(&example), "{example}");
    }
}

/// A form with one of the fields of `form`.
fn alone(form: &Form, field: &Field) -> &'static Form {
    let mut stored: Value = serde_json::from_str(&form.stored()).unwrap();
    stored["fields"] = json!([field]);
    Form::from_stored(&stored.to_string()).unwrap()
}

#[test]
fn each_character_in_a_telephone_number_has_the_same_verdict() {
    let field = "[[field]]\nname = \"f0\"\ntype = \"tel\"\nlabel = \"L\"\nrequired = true\n";
    let form = FormFile::read("demo", &format!("title = \"Demo\"\n{field}"), "forms/demo.toml").unwrap().form;
    let validator = validator(&form.fields);
    for c in '\u{1}'..='\u{ffff}' {
        for text in [format!("{c}0301{c}2345"), format!("030123 x{c}7"), format!("030123{c}")] {
            let body = json!({ "f0": text });
            let is_accepted = parse(form, body.to_string().as_bytes()).is_ok();
            assert_eq!(is_accepted, validator.is_valid(&body), "{text:?}");
        }
    }
}

#[test]
fn ordinary_web_addresses_have_the_same_verdict() {
    let text = "title = \"T\"\n[[field]]\nname = \"url\"\ntype = \"url\"\nlabel = \"L\"\nrequired = true\n";
    let form = FormFile::read("demo", text, "forms/demo.toml").unwrap().form;
    let validator = validator(&form.fields);
    // The schema does not check that each label has a character.
    for text in TEXTS.into_iter().filter(|text| *text != "a..b") {
        let body = json!({ "url": text });
        assert_eq!(parse(form, body.to_string().as_bytes()).is_ok(), validator.is_valid(&body), "{text:?}");
    }
}

#[test]
fn the_schemas_of_the_built_in_forms_are_strict() {
    for form in FormSet::built_in().iter() {
        let validator = validator(&form.fields);
        let example = |field: &Field| (field.name.to_owned(), json!(field.example_value()));
        let example = form.fields.iter().map(example).collect::<Value>();
        assert!(validator.is_valid(&example));
        for field in &form.fields {
            for wrong in [json!(""), json!(" "), Value::Null, json!(1), json!(["ada@example.com"])] {
                let mut body = example.clone();
                body[field.name] = wrong;
                assert!(!validator.is_valid(&body), "{body}");
                assert!(parse(form, body.to_string().as_bytes()).is_err(), "{body}");
            }
        }
    }
}

#[test]
fn schemas_have_types() {
    let text = "title = \"T\"\n\
         [[field]]\nname = \"n\"\ntype = \"number\"\nmin = 1\nmax = 9\nlabel = \"Seats\"\n\
         [[field]]\nname = \"d\"\ntype = \"date\"\nmin = 2026-06-01\nrequired = true\nlabel = \"Day\"\n\
         [[field]]\nname = \"c\"\ntype = \"choices\"\noptions = [\"A\", \"B\", \"C\"]\nmin = 2\nlabel = \"C\"\n\
         [[field]]\nname = \"ok\"\ntype = \"consent\"\nlabel = \"Terms\"\n";
    let form = FormFile::read("demo", text, "forms/demo.toml").unwrap().form;
    let schema = |name: &str| form.field(name).unwrap().json_schema();
    let number = json!({ "type": "integer", "description": "Seats", "minimum": 1, "maximum": 9 });
    assert_eq!(schema("n"), number);
    assert_eq!(schema("ok"), json!({ "type": "boolean", "description": "Terms", "const": true }));
    let options = json!({ "type": "string", "enum": ["A", "B", "C"] });
    let choices = json!({
        "type": "array", "description": "C", "items": options, "uniqueItems": true, "minItems": 2, "maxItems": 3,
    });
    assert_eq!(schema("c"), choices);
    assert_eq!(
        (&schema("d")["format"], &schema("d")["description"]),
        (&json!("date"), &json!("Day. From 2026-06-01."))
    );
    assert_eq!(json!(form.field("c").unwrap().example_value()), json!(["A", "B"]));
}

#[test]
fn a_length_that_no_example_has_is_a_fault() {
    let read = |kind: &str, max: u32| {
        let text = format!(
            "title = \"T\"\n[[field]]\nname = \"x\"\ntype = \"{kind}\"\nlabel = \"X\"\nmax = {max}\n"
        );
        FormFile::read("demo", &text, "forms/demo.toml").map(|file| file.form.fields[0].example)
    };
    assert_eq!(read("tel", 9), Ok("030 12345"));
    assert_eq!(read("text", 1), Ok("E"));
    assert_eq!(read("url", 3), Ok("a.b"));
    let faults = read("tel", 4).unwrap_err();
    assert!(
        faults[0].to_string().starts_with(
            "forms/demo.toml:6: no example could be generated for the field `x`: it accepts none of"
        ),
        "{faults:?}"
    );
}
