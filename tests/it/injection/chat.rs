//! Delivered webhooks: one JSON value of a known shape, with texts that have no effect in the chat that
//! displays them.

use serde_json::{Value, json};

use super::{Sent, assert_inert, steers};
use crate::support::http_peer::Request;

/// Frontdesk's own JSON: every value exactly as sent.
pub(super) fn check_standard(request: &Request, sent: &Sent) {
    let mut data = serde_json::Map::new();
    data.insert("id".to_owned(), sent.id.as_str().into());
    data.insert("form".to_owned(), "contact".into());
    data.insert("received_at".to_owned(), sent.received_at.as_str().into());
    data.insert("suspicious".to_owned(), false.into());
    for (name, value) in &sent.fields {
        data.insert((*name).to_owned(), value.as_str().into());
    }
    let expected =
        json!({ "type": "submission.created", "version": 1, "timestamp": sent.received_at, "data": data });
    assert_eq!(body(request).to_string(), expected.to_string());
}

/// In Slack, `<` begins mentions and links, and three entities are decoded.
pub(super) fn check_slack(request: &Request, sent: &Sent) {
    let body = body(request);
    let (title, text) = (&body["text"], &body["blocks"][0]["text"]["text"]);
    let section = json!({ "type": "section", "text": { "type": "mrkdwn", "text": text, "verbatim": true } });
    let expected =
        json!({ "text": title, "blocks": [section], "unfurl_links": false, "unfurl_media": false });
    assert_eq!(body.to_string(), expected.to_string());
    for (text, most) in [(title, 200), (text, 3000)] {
        let text = text.as_str().expect("a text");
        assert_inert(&text.replace('\t', " "));
        assert!(text.encode_utf16().count() <= most);
        assert!(!text.contains(['<', '>']), "{text}");
        let is_entity = |rest: &str| ["amp;", "lt;", "gt;"].iter().any(|entity| rest.starts_with(entity));
        assert!(text.split('&').skip(1).all(is_entity), "{text}");
    }
    let shown =
        text.as_str().expect("a text").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_shown(&shown, sent);
}

/// Mattermost shows a code block, which no line of the text may close.
pub(super) fn check_mattermost(request: &Request, sent: &Sent) {
    let body = body(request);
    let text = body["text"].as_str().expect("a text");
    assert_eq!(body.to_string(), json!({ "text": text }).to_string());
    assert_inert(&text.replace('\t', " "));
    let fence = text.split_once('\n').expect("a line of its own").0;
    assert!(fence.len() >= 3 && fence.bytes().all(|byte| byte == b'`'), "{text}");
    let inner = text.strip_prefix(fence).and_then(|rest| rest.strip_suffix(fence)).expect("two fences");
    assert!(!inner.contains(fence), "{text}");
    assert!(!inner.contains('<'), "{text}");
    let mut before = ' ';
    for c in inner.chars() {
        assert!(c != '@' || before.is_alphanumeric(), "{text}");
        before = c;
    }
    assert_shown(&inner.replace('＠', "@").replace('＜', "<"), sent);
}

/// Discord renders Markdown: formatting characters are escaped with a backslash, and mentions are disabled.
pub(super) fn check_discord(request: &Request, sent: &Sent) {
    let body = body(request);
    let content = body["content"].as_str().expect("a text");
    let expected = json!({ "content": content, "allowed_mentions": { "parse": [] }, "flags": 4 });
    assert_eq!(body.to_string(), expected.to_string());
    assert_inert(&content.replace('\t', " "));
    assert!(content.encode_utf16().count() <= 2000);
    let mut characters = content.chars();
    let mut shown = String::new();
    while let Some(c) = characters.next() {
        if c == '\\' {
            let escaped = characters.next().expect("something is escaped");
            assert!(escaped.is_ascii_punctuation(), "{content}");
            shown.push(escaped);
        } else {
            assert!(!"`*_~|[]<>#".contains(c), "{content}");
            shown.push(c);
        }
    }
    assert_shown(&shown, sent);
}

/// Teams gets a card whose lines are inline texts, in which Markdown and mentions have no effect.
pub(super) fn check_teams(request: &Request, sent: &Sent) {
    let body = body(request);
    let content = &body["attachments"][0]["content"];
    let elements = content["body"].as_array().expect("a list of elements");
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": { "width": "Full" },
        "body": elements,
    });
    let attachment = json!({ "contentType": "application/vnd.microsoft.card.adaptive", "content": card });
    assert_eq!(body, json!({ "type": "message", "attachments": [attachment] }));
    assert!(body.to_string().len() <= 28 * 1024);
    let title = &elements[0]["inlines"][0]["text"];
    let run = json!({ "type": "TextRun", "text": title, "weight": "Bolder", "size": "Medium" });
    assert_eq!(elements[0], json!({ "type": "RichTextBlock", "inlines": [run] }));
    let mut shown = Vec::new();
    for element in &elements[1..] {
        let (text, spacing) = (&element["inlines"][0], &element["spacing"]);
        assert_eq!(*element, json!({ "type": "RichTextBlock", "spacing": spacing, "inlines": [text] }));
        let text = text.as_str().expect("a text");
        assert!(!text.contains('\n'), "{text}");
        assert_inert(&text.replace('\t', " "));
        shown.push(text);
    }
    assert_shown(&shown.join("\n"), sent);
}

pub(super) const TELEGRAM_KEYS: &str = "token = \"1:SesameSesameSesameSesame\"\nchat = \"-1001\"\n";

/// Telegram gets plain text: no parse mode and no entities, and no `@` before a name.
pub(super) fn check_telegram(request: &Request, sent: &Sent) {
    let body = body_at(request, "/in/bot1:SesameSesameSesameSesame/sendMessage");
    let text = body["text"].as_str().expect("a text");
    let expected = json!({
        "chat_id": "-1001",
        "text": text,
        "link_preview_options": { "is_disabled": true },
        "disable_notification": false,
    });
    assert_eq!(body, expected);
    assert_inert(&text.replace('\t', " "));
    assert!(text.encode_utf16().count() <= 4096);
    let mut before = ' ';
    for c in text.chars() {
        assert!(c != '@' || before.is_alphanumeric(), "{text}");
        before = c;
    }
    assert_shown(&text.replace('＠', "@"), sent);
}

/// ntfy gets plain text: no Markdown, actions, icons or attachments.
pub(super) fn check_ntfy(request: &Request, sent: &Sent) {
    let body = body_at(request, "/");
    let (title, message) = (&body["title"], &body["message"]);
    let expected = json!({ "topic": "in", "title": title, "message": message, "priority": 3, "tags": [] });
    assert_eq!(body, expected);
    assert!(body.to_string().len() <= 8192);
    let message = message.as_str().expect("a text");
    assert_inert(&message.replace('\t', " "));
    assert_inert(title.as_str().expect("a text"));
    assert_shown(message, sent);
}

/// Harmless text is shown unchanged, unless it was truncated.
fn assert_shown(shown: &str, sent: &Sent) {
    let is_shortened = shown.ends_with('…') || shown.ends_with(&format!("frontdesk inbox show {}", sent.id));
    for value in sent.plain_values().filter(|_| !is_shortened) {
        assert!(shown.contains(value), "{value:?} is not there: {shown}");
    }
}

/// Returns the body. Checks that the request has only expected headers, and that the body is one JSON value
/// without duplicate members.
fn body(request: &Request) -> Value {
    body_at(request, "/in")
}

fn body_at(request: &Request, target: &str) -> Value {
    assert_eq!((&*request.method, &*request.target), ("POST", target));
    let mut names: Vec<_> = request.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort();
    let expected = [
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "webhook-id",
        "webhook-timestamp",
    ];
    assert_eq!(names, expected);
    let raw = std::str::from_utf8(&request.body).expect("it is UTF-8");
    assert!(!raw.contains(steers), "{raw:?}");
    let value: Value = serde_json::from_str(raw).unwrap_or_else(|error| panic!("{error}: {raw}"));
    // Serialized again, the value has the same length as the body apart from escapes, so the body has no
    // duplicate members and no other bytes.
    let unescaped = |text: &str| {
        let mut units = 0;
        let mut characters = text.chars();
        while let Some(c) = characters.next() {
            if c == '\\' && characters.next() == Some('u') {
                characters.nth(3);
                units += 1;
            } else {
                units += c.len_utf16();
            }
        }
        units
    };
    assert_eq!(unescaped(raw), unescaped(&value.to_string()), "{raw}");
    value
}
