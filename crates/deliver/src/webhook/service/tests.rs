//! Tests bodies and outcomes of Telegram, ntfy and Teams.

use http::HeaderMap;

use super::*;
use crate::webhook::body::{WebhookBody, sample_notification};

/// Text that a chat service could take for a mention, a link, formatting or a command.
const HOSTILE: [&str; 6] = [
    "@here @channel <at>everyone</at> <!channel> (@ada)",
    "[your bank](https://evil.example.com) <https://evil.example.com|your bank>",
    "# *bold* _x_ ~y~ `z` ```\n- item\n> quote",
    "{{DATE(2026-11-20T00:00:00Z, SHORT)}} @{triggerBody()} &lt;",
    "\u{202e}fdp.exe \u{1b}[31m \u{0} \u{2028}",
    r#"", "parse_mode": "HTML"}, {"x": ""#,
];

#[test]
fn telegram_gets_plain_text_for_one_chat() {
    let expected = json!({
        "chat_id": "-1001",
        "text": "Contact: Ada \"Countess\" Lovelace\n\nName: Ada \"Countess\" Lovelace\nE-mail: ada@example.com\nMessage:\nOne\n{two}\\",
        "link_preview_options": { "is_disabled": true },
        "disable_notification": false,
    });
    assert_eq!(rendered(&services()[0], &sample_notification(Topic::Submission)), expected);
    let suspicious = Notification { is_suspicious: true, ..sample_notification(Topic::Submission) };
    assert_eq!(rendered(&services()[0], &suspicious)["disable_notification"], true);
    let text = rendered(&services()[0], &hostile(HOSTILE[0]))["text"].to_string();
    assert!(text.contains("＠here ＠channel <at>everyone</at> <!channel> (＠ada)"), "{text}");
}

#[test]
fn ntfy_gets_topic_title_and_priority() {
    let mut notice = sample_notification(Topic::Submission);
    let mut expected = json!({
        "topic": "desk",
        "title": "Contact: Ada \"Countess\" Lovelace",
        "message": "Name: Ada \"Countess\" Lovelace\nE-mail: ada@example.com\nMessage:\nOne\n{two}\\",
        "priority": 3,
        "tags": [],
    });
    assert_eq!(rendered(&services()[1], &notice), expected);
    notice.is_suspicious = true;
    expected["priority"] = 2.into();
    expected["tags"] = json!(["warning"]);
    assert_eq!(rendered(&services()[1], &notice), expected);
}

#[test]
fn teams_gets_a_card_with_one_element_per_line() {
    let card = rendered(&ChatService::Teams, &hostile("One\n\nTwo"));
    let content = &card["attachments"][0]["content"];
    assert_eq!((&content["type"], &content["version"]), (&json!("AdaptiveCard"), &json!("1.4")));
    let line =
        |text: &str, spacing| json!({ "type": "RichTextBlock", "spacing": spacing, "inlines": [text] });
    let body = content["body"].as_array().unwrap();
    assert_eq!(body[0]["inlines"][0]["text"], "Contact: One⏎⏎Two");
    let expected =
        [line("Name: Ada", "Medium"), line("Message:", "None"), line("One", "None"), line("Two", "Medium")];
    assert_eq!(body[1..], expected);
}

#[test]
fn hostile_text_changes_no_structure_and_enables_no_markup() {
    for service in services() {
        for text in HOSTILE {
            let value = rendered(&service, &hostile(text));
            let raw = WebhookBody::Service(service.clone()).render(&hostile(text)).unwrap();
            assert!(!raw.chars().any(frontdesk_forms::text::is_unsafe), "{raw}");
            let keys = ["parse_mode", "TextBlock", "entities", "markdown", "actions", "click", "attach"];
            let found = member_names(&value);
            assert!(keys.iter().all(|key| !found.iter().any(|name| name == key)), "{found:?}");
            if let ChatService::Teams = service {
                assert!(!raw.contains(r#""type":"TextBlock""#), "{raw}");
            }
        }
    }
}

#[test]
fn long_text_is_shortened_and_names_the_command() {
    let hint = format!("Shortened. Whole text: frontdesk inbox show {}", uuid::Uuid::nil());
    for c in ["x", "\"", "\n", "\t", "ü", "🦀", "@", "\u{1b}", "a\n"] {
        let notice = hostile(&format!("x{}x", c.repeat(20_000)));
        let telegram = rendered(&services()[0], &notice);
        let units = telegram["text"].as_str().unwrap().encode_utf16().count();
        assert!((TELEGRAM_UNITS - 12..=TELEGRAM_UNITS).contains(&units), "{c:?}: {units}");
        let ntfy = rendered(&services()[1], &notice);
        assert!(ntfy["message"].as_str().unwrap().len() <= NTFY_BYTES, "{c:?}");
        assert!(ntfy.to_string().len() <= 8_192, "{c:?}: {}", ntfy.to_string().len());
        let teams = rendered(&services()[2], &notice);
        assert!(teams.to_string().len() <= 28 * 1024, "{c:?}: {}", teams.to_string().len());
        for text in [&telegram["text"], &ntfy["message"]] {
            assert!(text.as_str().unwrap().ends_with(&hint), "{c:?}: {text}");
        }
        assert!(teams.to_string().contains(&hint), "{c:?}");
    }
    let digest = Notification { lines: vec!["x".repeat(20_000)], ..sample_notification(Topic::Digest) };
    let text = rendered(&services()[0], &digest)["text"].to_string();
    assert!(text.ends_with("x…\""), "a digest is not in the inbox");
}

#[test]
fn a_telegram_error_says_when_to_retry_and_where() {
    let telegram = &services()[0];
    for (status, body, cause, text, retry_after) in [
        (
            429,
            r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 35","parameters":{"retry_after":35}}"#,
            Cause::Deferred,
            "Too Many Requests: retry after 35",
            Some(35),
        ),
        (
            400,
            r#"{"ok":false,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1009}}"#,
            Cause::Unclear,
            "the group has a new id: set `chat` to \"-1009\"",
            None,
        ),
        (
            400,
            r#"{"ok":false,"description":"Bad Request: chat not found"}"#,
            Cause::Unclear,
            "chat not found",
            None,
        ),
        (401, r#"{"ok":false,"description":"Unauthorized"}"#, Cause::Unclear, "Unauthorized", None),
        (429, r#"{"parameters":{"retry_after":99999999999}}"#, Cause::Deferred, "429", Some(86_400)),
        (429, r#"{"parameters":{"retry_after":-1}}"#, Cause::Deferred, "429", None),
        (502, "<html>", Cause::Unclear, "502 Bad Gateway", None),
    ] {
        let Outcome::Failed(failure) = telegram.outcome(&response(status, body), Timestamp::UNIX_EPOCH)
        else {
            panic!("{status} {body}");
        };
        assert!(failure.answer.contains(text), "{}", failure.answer);
        let expected = (cause, retry_after.map(Duration::from_secs));
        assert_eq!((failure.cause, failure.retry_after), expected, "{status} {body}");
    }
    for (body, text) in [
        (r#"{"ok":false,"description":"Say \"later\""}"#, r#"Say "later""#),
        (r#"{"ok":false,"error_code":500}"#, r#"{"ok":false,"error_code":500}"#),
    ] {
        let outcome = telegram.outcome(&response(200, body), Timestamp::UNIX_EPOCH);
        assert_eq!(outcome, Outcome::failed(Cause::Unclear, text.to_owned()));
    }
    for body in [r#"{"ok":true,"result":{}}"#, ""] {
        let outcome = telegram.outcome(&response(200, body), Timestamp::UNIX_EPOCH);
        assert_eq!(outcome, Outcome::Delivered("200 OK".to_owned()));
    }
}

#[test]
fn an_error_code_of_a_robot_in_a_200_is_a_failure() {
    let keyword = r#"{"errcode":310000,"errmsg":"keywords not in content"}"#;
    let is_sent = r#"{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}"#;
    for (host, status, body, expected) in [
        ("oapi.dingtalk.com", 200, keyword, Err("310000 keywords not in content")),
        ("qyapi.weixin.qq.com", 200, r#"{"errcode":93000,"errmsg":"invalid key"}"#, Err("93000 invalid key")),
        (
            "open.feishu.cn",
            200,
            r#"{"code":19024,"msg":"Key Words Not Found"}"#,
            Err("19024 Key Words Not Found"),
        ),
        ("open.larksuite.com", 200, is_sent, Ok("200 OK")),
        ("oapi.dingtalk.com", 200, r#"{"errcode":0,"errmsg":"ok"}"#, Ok("200 OK")),
        ("oapi.dingtalk.com", 200, "ok", Ok("200 OK")),
        ("oapi.dingtalk.com", 502, keyword, Err("502 Bad Gateway: {\"errcode\":310000")),
        ("www.example.com", 200, keyword, Ok("200 OK")),
    ] {
        match (outcome_of_host(host, &response(status, body), Timestamp::UNIX_EPOCH), expected) {
            (Outcome::Delivered(text), Ok(expected)) => assert_eq!(text, expected, "{host} {body}"),
            (Outcome::Failed(failure), Err(expected)) => {
                assert!(failure.answer.starts_with(expected), "{host} {body}: {}", failure.answer);
                assert_eq!(failure.cause, Cause::Unclear, "{host} {body}");
            }
            (outcome, _) => panic!("{host} {body}: {outcome:?}"),
        }
    }
}

#[test]
fn a_teams_error_in_a_200_is_a_failure() {
    let body = |status| {
        format!(
            "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error {status} with ContextId x"
        )
    };
    for (status, body, cause) in [
        (200, body("429"), Some(Cause::Deferred)),
        (200, body("403"), Some(Cause::Unclear)),
        (200, body("413"), Some(Cause::Notification)),
        (429, String::new(), Some(Cause::Deferred)),
        (202, String::new(), None),
        (200, "1".to_owned(), None),
        (200, body("200"), None),
        (200, body("x"), None),
    ] {
        let found = match ChatService::Teams.outcome(&response(status, &body), Timestamp::UNIX_EPOCH) {
            Outcome::Delivered(_) => None,
            Outcome::Failed(failure) => Some(failure.cause),
        };
        assert_eq!(found, cause, "{status} {body}");
    }
}

fn services() -> [ChatService; 3] {
    [
        ChatService::Telegram { chat: "-1001".to_owned() },
        ChatService::Ntfy { topic: "desk".to_owned() },
        ChatService::Teams,
    ]
}

fn rendered(service: &ChatService, notice: &Notification) -> Value {
    serde_json::from_str(&WebhookBody::Service(service.clone()).render(notice).unwrap()).unwrap()
}

/// A submission whose title and message are this text.
fn hostile(text: &str) -> Notification {
    Notification {
        title: format!("Contact: {text}"),
        fields: vec![("name".to_owned(), "Ada".into()), ("message".to_owned(), text.into())],
        ..sample_notification(Topic::Submission)
    }
}

/// The names of all members of an object and of the objects within it.
fn member_names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| [vec![name.clone()], member_names(value)].concat())
            .collect(),
        Value::Array(items) => items.iter().flat_map(member_names).collect(),
        _ => Vec::new(),
    }
}

fn response(status: u16, body: &str) -> FetchResponse {
    FetchResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.as_bytes().to_vec(),
        is_whole: true,
        time_to_header: Duration::ZERO,
    }
}
