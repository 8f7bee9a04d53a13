//! Tests the content of webhook bodies, and that hostile text cannot change their structure.

use super::*;
use frontdesk_forms::text::has_unsafe;

/// Hostile text that visitors may send.
const HOSTILE: [&str; 12] = [
    r#""}, {"x":""#,
    r"\",
    r#"\" , "text": "mine"#,
    "<!channel> <https://evil.example.com|your bank>",
    "@everyone @channel @here @all",
    "``` \n```` \n> # *bold* [a](https://evil.example.com)",
    "{{ id }} {% for x in range(9) %} {# #}",
    "\u{1b}[31m \u{0} \u{7f} \u{85}",
    "\u{202e}fdp.exe \u{2066} \u{200b} \u{feff} \u{2028}",
    "\u{e0041} 🦀 ü 你好",
    "a\r\nb\n\tc",
    "</script>&lt;",
];

#[test]
fn the_standard_body_contains_all_fields() {
    let mut notice = sample_notification(Topic::Submission);
    notice.id = Uuid::from_u128(7);
    notice.created_at = "2026-11-20T14:03:05.12Z".parse().unwrap();
    assert_eq!(
        WebhookBody::parse("standard").unwrap().render(&notice).unwrap(),
        concat!(
            r#"{"type":"submission.created","version":1,"timestamp":"2026-11-20T14:03:05.120Z","#,
            r#""data":{"id":"00000000-0000-0000-0000-000000000007","form":"contact","#,
            r#""received_at":"2026-11-20T14:03:05.120Z","suspicious":false,"name":"Ada \"Countess\" Lovelace","#,
            r#""email":"ada@example.com","message":"One\n{two}\\"}}"#
        )
    );
}

#[test]
fn the_source_of_a_lead_is_in_the_standard_body_and_in_templates() {
    let template =
        WebhookBody::parse(r#"{ "ref": {{ lead.ref }}, "all": {{ lead }}, "text": {{ "by " ~ lead.ref }} }"#);
    let template = template.unwrap();
    let mut notice = sample_notification(Topic::Submission);
    let render =
        |notice: &Notification| -> Value { serde_json::from_str(&template.render(notice).unwrap()).unwrap() };
    assert_eq!(render(&notice), json!({ "ref": null, "all": {}, "text": "by " }));
    notice.lead.set("ref", r#"", "x": {{ id }}"#);
    notice.lead.set("page", "/pricing/");
    let lead = json!({ "page": "/pricing/", "ref": r#"", "x": {{ id }}"# });
    assert_eq!(render(&notice), json!({ "ref": lead["ref"], "all": lead, "text": r#"by ", "x": {{ id }}"# }));
    let body: Value = serde_json::from_str(&WebhookBody::Standard.render(&notice).unwrap()).unwrap();
    assert_eq!(body["data"]["lead"], lead);
}

#[test]
fn other_notifications_contain_a_title_and_lines() {
    for (about, event) in [
        (Topic::Digest, "digest.created"),
        (Topic::Flood, "flood.created"),
        (Topic::MailLimit, "mail-limit.created"),
        (Topic::Test, "test.created"),
        (Topic::Canary, "canary.created"),
        (Topic::CanaryFault, "canary-fault.created"),
    ] {
        let body: Value =
            serde_json::from_str(&WebhookBody::Standard.render(&sample_notification(about)).unwrap())
                .unwrap();
        assert_eq!(body["type"], event);
        let data = json!({
            "id": Uuid::nil().to_string(),
            "title": "Contact: Ada \"Countess\" Lovelace",
            "lines": ["A \"line\" of ours"],
        });
        assert_eq!(body["data"], data);
    }
}

#[test]
fn the_standard_body_contains_hostile_text_unchanged() {
    for text in HOSTILE {
        let body = WebhookBody::Standard.render(&hostile(text)).unwrap();
        assert!(!has_unsafe(&body), "{body}");
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["data"]["message"], text);
        assert_eq!(value.as_object().unwrap().len(), 4);
        assert_eq!(value["data"].as_object().unwrap().len(), 6);
    }
}

#[test]
fn a_preset_contains_the_text_of_the_notification() {
    for (preset, member, expected) in [
        ("slack", "/blocks/0/text/text", "Name: Ada \"Countess\" Lovelace"),
        ("slack", "/text", "Contact: Ada \"Countess\" Lovelace"),
        ("mattermost", "/text", "E-mail: ada@example.com\nMessage:\nOne\n{two}\\"),
        ("discord", "/content", "E-mail: ada@example.com\nMessage:\nOne\n{two}\\\\"),
    ] {
        let body = rendered(preset, &sample_notification(Topic::Submission));
        let text = body.pointer(member).and_then(Value::as_str).unwrap();
        assert!(text.contains(expected), "{preset}: {text}");
    }
}

#[test]
fn hostile_text_stays_text_in_every_preset() {
    for preset in ["slack", "mattermost", "discord"] {
        let shape = shape(&rendered(preset, &sample_notification(Topic::Submission)));
        for text in HOSTILE {
            let body = WebhookBody::parse(preset).unwrap().render(&hostile(text)).unwrap();
            assert!(!has_unsafe(&body), "{preset}: {body}");
            let value: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(self::shape(&value), shape, "{preset}: {body}");
            if preset == "slack" {
                assert!(!body.contains(['<', '>']), "{body}");
            }
        }
    }
    let loud = hostile("@everyone <!channel> ``` *b*");
    assert_eq!(rendered("discord", &loud)["allowed_mentions"], json!({ "parse": [] }));
    let mattermost = rendered("mattermost", &loud);
    assert!(
        mattermost["text"].as_str().unwrap().contains("＠everyone ＜!channel> ``` *b*\n````"),
        "{mattermost}"
    );
    let discord = rendered("discord", &loud);
    assert!(discord["content"].as_str().unwrap().contains(r"\<!channel\> \`\`\` \*b\*"), "{discord}");
    let slack = rendered("slack", &loud);
    assert!(
        slack.pointer("/blocks/0/text/text").unwrap().as_str().unwrap().contains("&lt;!channel&gt;"),
        "{slack}"
    );
}

#[test]
fn a_long_message_is_shortened_to_the_limit_of_the_service() {
    for (preset, member, limit) in [
        ("slack", "/blocks/0/text/text", 3_000),
        ("mattermost", "/text", 16_383),
        ("discord", "/content", 2_000),
    ] {
        for c in ["x", "*", "<", "&", "`", "🦀", "\u{1b}"] {
            let body = rendered(preset, &hostile(&c.repeat(20_000)));
            let text = body.pointer(member).and_then(Value::as_str).unwrap();
            let units = text.encode_utf16().count();
            assert!(units <= limit && units > limit / 2, "{preset} {c:?}: {units}");
        }
    }
}

#[test]
fn a_template_always_writes_complete_json_values() {
    for (source, expected) in [
        ("{ \"a\": {{ fields.message }} }", json!({ "a": "\"}, {\"x\":\"" })),
        ("{ \"a\": {{ fields.message | safe }} }", json!({ "a": "\"}, {\"x\":\"" })),
        (
            "{% autoescape false %}{ \"a\": {{ fields.message }} }{% endautoescape %}",
            json!({ "a": "\"}, {\"x\":\"" }),
        ),
        ("[{{ \"New: \" ~ form }}, {{ version }}, {{ fields.company }}]", json!(["New: contact", 1, null])),
        ("{{ fields }}", json!({ "name": "Ada", "message": "\"}, {\"x\":\"" })),
        ("{{ lines }}", json!([])),
        (
            "[{% for name in fields %}{{ name }}{% if not loop.last %},{% endif %}{% endfor %}]",
            json!(["name", "message"]),
        ),
        ("{% set a = form %}{{ a | upper }}", json!("CONTACT")),
        ("[{{ fields.company | shorten(3) }}, {{ id | shorten(5) }}]", json!(["", "0000…"])),
        ("{% if form == \"contact\" %}{{ type }}{% else %}0{% endif %}", json!("submission.created")),
        ("{{ fields.message | tojson }}", json!(r#""\"}, {\"x\":\"""#)),
    ] {
        let body = WebhookBody::parse(source).unwrap_or_else(|fault| panic!("{source}: {fault}"));
        let found = body.render(&hostile("\"}, {\"x\":\"")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), expected, "{source}");
    }
}

#[test]
fn a_template_that_produces_no_json_is_refused_with_its_line() {
    for (source, part) in [
        ("", "expected `standard`"),
        ("Slack", "expected `standard`"),
        ("{\n\"text\": \"{{ title }}\"\n}", "line 2): each `{{ … }}` adds its own quotes"),
        ("{ \"text\": {{ title }}", "is not JSON (error in line 1)"),
        ("{ \"text\": {{ title }} } x", "is not JSON"),
        ("{ \"text\":\n\n{{ title }", "line 3 of the template"),
        (
            "{ \"text\": {{ titel }} }",
            "there is no variable `titel`: expected one of type, version, timestamp, id, form, title",
        ),
        ("{ \"text\":\n{{ title | shout }} }", "line 2 of the template: filter shout is unknown"),
        ("[\n{{ fields.a.b }}]", "line 2 of the template: undefined value"),
        ("{% include \"/etc/passwd\" %}", "template not found"),
        ("[{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}]", "instructions"),
        ("{{ \"x\" * 2000000 }}", "bytes"),
        ("{{ \"x\" * 2000000000 }}", "line 1 of the template"),
        (&format!("{{{}", " ".repeat(MAX_TEMPLATE_BYTES)), "at most 65536"),
        // This template is valid for a submission, but not for a digest.
        ("{% if form %}{}{% endif %}", "is not JSON"),
    ] {
        let fault = WebhookBody::parse(source).unwrap_err();
        assert!(fault.contains(part), "{source}: {fault}");
    }
}

#[test]
fn a_template_error_on_a_notice_omits_its_content() {
    let body =
        WebhookBody::parse("{% if fields.name == \"secret\" %}{{ fields.name + 1 }}{% else %}1{% endif %}")
            .unwrap();
    let mut notice = hostile("x");
    notice.fields[0].1 = "secret".into();
    let fault = body.render(&notice).unwrap_err();
    assert!(fault.contains("line 1 of the template") && !fault.contains("secret"), "{fault}");
}

#[test]
fn the_documented_template_works_and_all_variables_are_documented() {
    let document = include_str!("../../../../../docs/pages/webhooks.md");
    let source = document.split("body = '''").nth(1).and_then(|rest| rest.split("'''").next()).unwrap();
    let body: Value =
        serde_json::from_str(&WebhookBody::parse(source).unwrap().render(&hostile("x")).unwrap()).unwrap();
    let expected = json!({ "summary": "New: Contact: x", "email": null, "form": "contact", "labels": [] });
    assert_eq!(body, expected);
    for (name, _) in template_variables(&hostile("x")) {
        assert!(document.contains(&format!("`{name}`")), "docs/pages/webhooks.md does not name `{name}`");
    }
}

/// A submission whose title and message are this text.
fn hostile(text: &str) -> Notification {
    Notification {
        may_be_there: true,
        title: format!("Contact: {text}"),
        fields: vec![("name".to_owned(), "Ada".into()), ("message".to_owned(), text.into())],
        ..sample_notification(Topic::Submission)
    }
}

fn rendered(preset: &str, notice: &Notification) -> Value {
    serde_json::from_str(&WebhookBody::parse(preset).unwrap().render(notice).unwrap()).unwrap()
}

/// The same value with all strings emptied, which leaves the structure that a receiver parses.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), shape(value))).collect::<Map<_, _>>().into()
        }
        value => value.clone(),
    }
}
