//! Bodies and responses of Telegram, ntfy and Microsoft Teams, whose messages need more than a template: a
//! recipient in the JSON, or one element per line. Telegram and Teams report errors in the response's body,
//! as do the robots of DingTalk, WeCom and Feishu, which get a template's body.
//!
//! Text from visitors stays plain text: no parse mode, no Markdown, no mentions, no link previews. Text that
//! a service would refuse is shortened, and the last line names the command that shows the whole submission.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{self, LONGEST_RETRY_AFTER};
use super::chat_filters;
use super::text::{details_text, notification_text};
use crate::notification::{Notification, Topic};
use frontdesk_fetch::FetchResponse;
use frontdesk_forms::text::visible;
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};

/// Maximum length of a Telegram message, in UTF-16 code units.
const TELEGRAM_UNITS: usize = 4_096;

/// Maximum length of an ntfy message in bytes. The service's own limits are 4,096 bytes for the message and
/// 8,192 for the JSON, in which a quotation mark takes two bytes.
const NTFY_BYTES: usize = 3_500;

/// Maximum size of a card's text in bytes, and its maximum number of lines. Teams accepts messages of 28 KiB.
/// As JSON, the text takes at most 18,000 bytes, and each line adds 80.
const TEAMS_BYTES: usize = 9_000;
const TEAMS_LINES: usize = 100;

/// Maximum length of a title, in UTF-16 code units.
const TITLE_UNITS: usize = 200;

/// ntfy's priority for quiet messages: no sound or vibration. 3 is the default.
const LOW_PRIORITY: u8 = 2;
const DEFAULT_PRIORITY: u8 = 3;

/// The hosts of chat bots that also respond to errors with status 200, and name the error in the body:
/// DingTalk, WeCom, Feishu and Lark.
const BOT_HOSTS: [&str; 4] =
    ["oapi.dingtalk.com", "qyapi.weixin.qq.com", "open.feishu.cn", "open.larksuite.com"];

#[derive(Clone, PartialEq, Eq)]
pub enum ChatService {
    /// Posts to `sendMessage` of Telegram's Bot API. `chat` is a chat's id, or a public channel's `@name`.
    Telegram { chat: String },
    /// Posts JSON to the root of an ntfy server. Anyone who knows the topic can read it, so it is a secret.
    Ntfy { topic: String },
    /// Posts an Adaptive Card to the workflow "Post to a channel when a webhook request is received".
    Teams,
}

impl ChatService {
    /// The JSON to post, with text shortened to what the service accepts.
    pub(super) fn body(&self, notice: &Notification) -> Value {
        match self {
            ChatService::Telegram { chat } => telegram(chat, notice),
            ChatService::Ntfy { topic } => ntfy(topic, notice),
            ChatService::Teams => teams(notice),
        }
    }

    /// The outcome of an attempt, from the response's status and, where the service reports errors there, its
    /// body.
    pub(super) fn outcome(&self, response: &FetchResponse, now: Timestamp) -> Outcome {
        match self {
            ChatService::Telegram { .. } => telegram_outcome(response, now),
            ChatService::Ntfy { .. } => answer::outcome(response, now),
            ChatService::Teams => teams_outcome(response, now),
        }
    }
}

/// The body of `sendMessage`: plain text without link previews, in which mentions are disabled. Text over
/// [`TELEGRAM_UNITS`] is cut and ends in [`hint`]. A quiet notification makes no sound.
fn telegram(chat: &str, notice: &Notification) -> Value {
    // Without a parse mode, the text is plain. Telegram still recognizes mentions and addresses in it.
    let text = chat_filters::without_mentions(&notification_text(notice));
    json!({
        "chat_id": chat,
        "text": shortened(&text, TELEGRAM_UNITS, char::len_utf16, notice),
        "link_preview_options": { "is_disabled": true },
        "disable_notification": notice.is_quiet(),
    })
}

/// The body of an ntfy message. A quiet notification has a low priority; a suspicious one also has a warning
/// sign.
fn ntfy(topic: &str, notice: &Notification) -> Value {
    let priority = if notice.is_quiet() { LOW_PRIORITY } else { DEFAULT_PRIORITY };
    let tags: &[&str] = if notice.is_suspicious { &["warning"] } else { &[] };
    json!({
        "topic": topic,
        "title": chat_filters::shorten(&visible(&notice.title), TITLE_UNITS),
        "message": shortened(&details_text(notice), NTFY_BYTES, char::len_utf8, notice),
        "priority": priority,
        "tags": tags,
    })
}

/// A card whose text is in `TextRun` elements: unlike in `TextBlock`, Markdown has no effect there. Mentions
/// would need a list of entities, which the card does not have. Each line is an element of its own, because
/// Teams ignores line breaks within one; empty lines become spacing. Text over [`TEAMS_LINES`] or
/// [`TEAMS_BYTES`] is cut and ends in [`hint`].
fn teams(notice: &Notification) -> Value {
    let title = chat_filters::shorten(&visible(&notice.title), TITLE_UNITS);
    let title = json!({ "type": "TextRun", "text": title, "weight": "Bolder", "size": "Medium" });
    let mut elements = vec![json!({ "type": "RichTextBlock", "inlines": [title] })];
    let text = details_text(notice);
    let mut lines: Vec<&str> = text.split('\n').collect();
    let is_long = lines.len() > TEAMS_LINES;
    lines.truncate(TEAMS_LINES);
    let text = lines.join("\n");
    let mut text = shortened(&text, TEAMS_BYTES, char::len_utf8, notice);
    if is_long && !text.ends_with(&hint(notice)) {
        text.push_str(&hint(notice));
    }
    let mut spacing = "Medium";
    for line in text.split('\n') {
        if line.trim().is_empty() {
            spacing = "Medium";
            continue;
        }
        elements.push(json!({ "type": "RichTextBlock", "spacing": spacing, "inlines": [line] }));
        spacing = "None";
    }
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "msteams": { "width": "Full" },
                "body": elements,
            },
        }],
    })
}

/// Shortens text to `limit`, in the unit that `length` measures. Shortened text ends in [`hint`].
fn shortened(text: &str, limit: usize, length: fn(char) -> usize, notice: &Notification) -> String {
    let total = |text: &str| text.chars().map(length).sum::<usize>();
    if total(text) <= limit {
        return text.to_owned();
    }
    let hint = hint(notice);
    let mut room = limit.saturating_sub(total(&hint));
    let fits = |c: &char| {
        let fits = length(*c) <= room;
        room = room.saturating_sub(length(*c));
        fits
    };
    text.chars().take_while(fits).chain(hint.chars()).collect()
}

/// The end of shortened text. For a submission, it names the command that shows the whole text.
fn hint(notice: &Notification) -> String {
    match notice.topic {
        Topic::Submission => format!("…\n\nShortened. Whole text: frontdesk inbox show {}", notice.id),
        _ => "…".to_owned(),
    }
}

/// The outcome of a request to Telegram, which describes errors in JSON: `ok` is false, also with status 200,
/// `parameters.retry_after` is in seconds, and `parameters.migrate_to_chat_id` is the group's new id. A 400
/// counts as unclear, because Telegram's is about the chat, not the text.
fn telegram_outcome(response: &FetchResponse, now: Timestamp) -> Outcome {
    let said: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let parameter = |name: &str| said["parameters"][name].as_i64();
    let outcome = if response.status.is_success() && said["ok"] == false {
        let description = said["description"].as_str().map(Cow::from);
        let words = description.unwrap_or_else(|| String::from_utf8_lossy(&response.body));
        Outcome::failed(Cause::Unclear, answer::excerpt_of(&words))
    } else {
        answer::outcome(response, now)
    };
    let Outcome::Failed(mut failure) = outcome else { return outcome };
    if let Some(seconds) = parameter("retry_after").and_then(|seconds| u64::try_from(seconds).ok()) {
        failure.retry_after = Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
    }
    if response.status == StatusCode::BAD_REQUEST {
        failure.cause = Cause::Unclear;
    }
    if let Some(id) = parameter("migrate_to_chat_id") {
        failure.answer = format!("the group has a new id: set `chat` to \"{id}\"");
    }
    Outcome::Failed(failure)
}

/// The outcome of a request to Teams, which may answer 200 to a card that it has not posted, with "… returned
/// HTTP error 429 …" in the body. The status in the body then replaces that of the response.
fn teams_outcome(response: &FetchResponse, now: Timestamp) -> Outcome {
    let body = String::from_utf8_lossy(&response.body);
    let reported = body.split("returned HTTP error ").nth(1).and_then(|rest| rest.get(..3));
    let reported = reported.and_then(|digits| StatusCode::from_bytes(digits.as_bytes()).ok());
    match reported.filter(|status| response.status.is_success() && !status.is_success()) {
        Some(status) => answer::outcome(&FetchResponse { status, ..response.clone() }, now),
        None => answer::outcome(response, now),
    }
}

/// The outcome of a request to a webhook at `host` that gets the standard body or a template. If `host` is
/// one of [`BOT_HOSTS`], JSON with an error code other than 0 is a failure, also with status 200.
pub(super) fn outcome_of_host(host: &str, response: &FetchResponse, now: Timestamp) -> Outcome {
    if !response.status.is_success() || !BOT_HOSTS.contains(&host) {
        return answer::outcome(response, now);
    }
    let said: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let code = ["errcode", "code"].iter().find_map(|name| said[*name].as_i64());
    match code.filter(|code| *code != 0) {
        Some(code) => {
            let words = ["errmsg", "msg"].iter().find_map(|name| said[*name].as_str()).unwrap_or_default();
            Outcome::failed(Cause::Unclear, format!("{code} {}", answer::excerpt_of(words)))
        }
        None => answer::outcome(response, now),
    }
}

#[cfg(test)]
mod tests;
