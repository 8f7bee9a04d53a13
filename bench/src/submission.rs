//! Form submissions from visitors, each with a different e-mail address and message.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::http::Response;
use crate::load::Script;

/// Eight of the ten headers of a request from a script in a browser. The others, `X-Forwarded-For` and
/// `Content-Length`, are added later.
const HEAD: &str = "Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) \
    AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
    Content-Type: application/json\r\n\
    Accept: */*\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: cors\r\n";

/// Words for the messages. None of them raises the screening score.
static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "about after again agents response before between both build change checks colleagues company could data \
     day deploy developers different during each engineers evaluate every first from have hosted how \
     integration keep know laptops later like many meeting month need next office other our people plan policy \
     question records region review rollout rules second security several should still team their tools under \
     week which would"
        .split(' ')
        .collect()
});

const MESSAGE_WORDS: usize = 72;

/// Number of source addresses, in 300 networks.
const SOURCES: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub path: &'static str,
    /// Whether the form has fields for a name and a message in addition to the e-mail address.
    pub has_message: bool,
}

/// The request of visitor number 0.
pub fn fixed_request(form: Form) -> Vec<u8> {
    compose_request(form, 0, &mut fastrand::Rng::with_seed(0))
}

/// Composes the request of visitor `number`, with a random message and source address.
fn compose_request(form: Form, number: u64, random: &mut fastrand::Rng) -> Vec<u8> {
    let email = format!("ada.{number:x}@example.com");
    let body = if form.has_message {
        let words = [(); MESSAGE_WORDS].map(|()| WORDS[random.usize(..WORDS.len())]).join(" ");
        format!(r#"{{"name":"Ada Lovelace","email":"{email}","message":"Hello, {words} {number:x}."}}"#)
    } else {
        format!(r#"{{"email":"{email}"}}"#)
    };
    let source = random.usize(..SOURCES);
    let address = format!("10.{}.{}.{}", source % 3, source / 3 % 100, source / 300 + 1);
    let (path, length) = (form.path, body.len());
    format!(
        "POST {path} HTTP/1.1\r\n{HEAD}X-Forwarded-For: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A script in which each request comes from a different visitor. `round` makes their numbers unique.
pub fn visitors<'a>(form: Form, expected: &'a Response, round: u64) -> impl Fn(usize) -> Script<'a> {
    move |first| {
        let mut number = (round << 48) | (first as u64) << 32;
        let mut random = fastrand::Rng::with_seed(number);
        Box::new(move || {
            number += 1;
            (Cow::Owned(compose_request(form, number, &mut random)), expected)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_send_different_messages_and_ten_headers() {
        let form = Form { path: "/api/contact", has_message: true };
        let expected = Response::default();
        let mut next = visitors(form, &expected, 1)(0);
        let mut bodies = std::collections::HashSet::new();
        for _ in 0..100 {
            let request = String::from_utf8(next().0.into_owned()).expect("text");
            let (head, body) = request.split_once("\r\n\r\n").expect("a head and a body");
            assert_eq!(head.lines().count(), 11, "{head}");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
            let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
            let message = body["message"].as_str().expect("a message");
            assert!((350..650).contains(&message.len()), "{message}");
            assert!(bodies.insert(message.to_owned()));
        }
    }
}
