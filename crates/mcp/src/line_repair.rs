//! Repairs the lines that a client sends, so that the SDK answers each of them. The SDK drops lines that it
//! cannot parse, and a client whose request gets no answer waits forever.

use std::borrow::Cow;

use rmcp::model::ProtocolVersion;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

/// A message that the SDK answers with the error "Invalid Request" and without an id.
const INVALID_REQUEST: &[u8] = b"null";

/// The method name of the request that replaces an unreadable one. The replacement keeps the id.
pub const UNREADABLE: &str = "unreadable";

/// Copies lines until the input ends or fails, or the output is closed. Repairs each line ([`repair_line`]).
/// Replaces lines of more than `longest` bytes with [`INVALID_REQUEST`], and logs them. Adds the line feed
/// that the last line may lack.
pub async fn repair(input: impl AsyncRead + Unpin, mut output: impl AsyncWrite + Unpin, longest: usize) {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = longest as u64 + 1;
        match (&mut input).take(most).read_until(b'\n', &mut line).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                return tracing::error!(%error, "cannot read messages from the MCP client; the session ends");
            }
        }
        let is_too_long = line.len() > longest && !line.ends_with(b"\n");
        if is_too_long {
            tracing::error!(
                longest,
                "a message from the MCP client exceeds the maximum line length; answered with an error"
            );
            if discard_line(&mut input).await.is_err() {
                return;
            }
        }
        let repaired = if is_too_long { INVALID_REQUEST.into() } else { repair_line(line.trim_ascii()) };
        let written = async {
            output.write_all(&repaired).await?;
            output.write_all(b"\n").await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// Discards the input up to and including the next line feed, or up to its end.
async fn discard_line(input: &mut BufReader<impl AsyncRead + Unpin>) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf().await?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        input.consume(length);
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

/// Removes a byte order mark, replaces lone surrogates and repairs requests and notifications
/// ([`repair_request`]); other JSON, such as a list, stays. Returns [`UNREADABLE`] for a request with an id
/// whose JSON exceeds the limits of the parser, and [`INVALID_REQUEST`] for other lines that cannot be
/// parsed. Empty lines stay empty, because the SDK skips them.
fn repair_line(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    if line.is_empty() {
        return line.into();
    }
    let repaired = replace_lone_surrogates(line);
    match serde_json::from_slice(&repaired) {
        Ok(Value::Object(message)) if message.contains_key("method") => repair_request(message).into(),
        Ok(_) => repaired,
        Err(_) => unreadable_request(&repaired),
    }
}

/// The request [`UNREADABLE`] with the id of a request that has numbers beyond the range of 64-bit floats
/// (`1e400`), or 128 levels or more. [`INVALID_REQUEST`] for other lines, also if the id is missing or is
/// neither a string nor a signed integer of 64 bits.
fn unreadable_request(line: &[u8]) -> Cow<'static, [u8]> {
    /// Reads only the id. Serde skips the other members without converting numbers or limiting the nesting.
    #[derive(Deserialize)]
    struct Request {
        id: Value,
        #[serde(rename = "method")]
        _method: IgnoredAny,
    }
    match serde_json::from_slice(line) {
        Ok(Request { id, .. }) if id.is_string() || id.is_i64() => {
            json!({ "jsonrpc": "2.0", "id": id, "method": UNREADABLE }).to_string().into_bytes().into()
        }
        _ => INVALID_REQUEST.into(),
    }
}

/// Sets `jsonrpc` of a request or notification to `2.0`, and removes `params` that are not an object, which
/// no method of the protocol has. Otherwise the SDK's error would lack the request's id. Also removes
/// `arguments` and `_meta` that are an empty list, because PHP writes an empty object as one, and repairs the
/// parameters of `initialize` ([`repair_initialize`]).
fn repair_request(mut message: Map<String, Value>) -> Vec<u8> {
    message.insert("jsonrpc".to_owned(), "2.0".into());
    if message.get("params").is_some_and(|params| !params.is_object()) {
        message.remove("params");
    }
    let is_initialize = message.get("method").is_some_and(|method| method == "initialize");
    if is_initialize {
        message.entry("params").or_insert_with(|| json!({}));
    }
    if let Some(Value::Object(params)) = message.get_mut("params") {
        for name in ["arguments", "_meta"] {
            if params.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                params.remove(name);
            }
        }
        if is_initialize {
            repair_initialize(params);
        }
    }
    Value::Object(message).to_string().into_bytes()
}

/// Replaces the members of `initialize` that this server does not use, and that clients write in many shapes,
/// by ones that the SDK accepts. A missing `protocolVersion` becomes the newest that has `initialize`.
/// Otherwise the SDK would read the request as one of a later revision, and end the session with an error
/// about `_meta`. Keeps a request that is of such a revision.
fn repair_initialize(params: &mut Map<String, Value>) {
    if params.get("_meta").is_some_and(|meta| meta.get("io.modelcontextprotocol/protocolVersion").is_some()) {
        return;
    }
    let text = |name| params.get("clientInfo")?.get(name)?.as_str();
    let client =
        json!({ "name": text("name").unwrap_or("unknown"), "version": text("version").unwrap_or("") });
    params.insert("clientInfo".to_owned(), client);
    params.insert("capabilities".to_owned(), json!({}));
    if !params.get("protocolVersion").is_some_and(Value::is_string) {
        params.insert("protocolVersion".to_owned(), json!(ProtocolVersion::LATEST_WITH_INITIALIZE));
    }
}

/// Replaces escapes of lone surrogates (`\ud83d`) with `\ufffd`. JSON's grammar permits them (RFC 8259 §8.2),
/// and clients send them if they cut a text within an emoji.
fn replace_lone_surrogates(line: &[u8]) -> Cow<'_, [u8]> {
    let unit = |at: usize| -> Option<u16> {
        let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut repaired = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = line[at..].iter().position(|byte| *byte == b'\\') {
        at += next;
        let is_lone = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => {
                at += 12;
                continue;
            }
            (Some(0xd800..0xe000), _) => true,
            _ => false,
        };
        if is_lone {
            repaired.extend_from_slice(&line[copied..at]);
            repaired.extend_from_slice(b"\\ufffd");
            at += 6;
            copied = at;
        } else {
            // Skip the escaped character as well: it may be a backslash.
            at = line.len().min(at + 2);
        }
    }
    if copied == 0 {
        return line.into();
    }
    repaired.extend_from_slice(&line[copied..]);
    repaired.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(line: &str) -> String {
        String::from_utf8(repair_line(line.as_bytes()).into_owned()).expect("text")
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
        for (line, expected) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00b\ud83d\ud83d\ude00""#, r#""\ufffdb\ufffd\ud83d\ude00""#),
            (r#""\ud83d\ude00 \\ud83d \u00e9 \n""#, r#""\ud83d\ude00 \\ud83d \u00e9 \n""#),
            (r#""\ud83dx\ude00""#, r#""\ufffdx\ufffd""#),
            (r#""\uD83D\uDE00\uDbff""#, r#""\uD83D\uDE00\ufffd""#),
        ] {
            assert_eq!(repaired(line), expected, "{line}");
        }
    }

    #[test]
    fn other_lines_are_answered_with_an_error() {
        for line in [
            "not JSON",
            "{",
            "\\",
            "\"\\",
            "\"\\ud8",
            "{\"id\":1e999}",
            "[1,]",
            r#"{"id":1,"method":"ping","#,
            r#"{"id":1e999,"method":"ping"}"#,
            r#"{"id":1,"result":1e999}"#,
        ] {
            assert_eq!(repaired(line), "null", "{line}");
        }
        assert_eq!(&*repair_line(b"\"\xff\""), b"null");
        assert_eq!(repaired("\u{feff}[1]"), "[1]");
        assert_eq!(repaired(""), "");
    }

    #[test]
    fn a_request_keeps_its_id_whatever_else_is_wrong_with_it() {
        let expected = r#"{"id":1,"jsonrpc":"2.0","method":"ping"}"#;
        for line in [
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"ping","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
            r#"{"jsonrpc":"2.0","id":0,"id":1,"method":"pong","method":"ping"}"#,
        ] {
            let sorted: Map<String, Value> = serde_json::from_str(&repaired(line)).expect("an object");
            let sorted: std::collections::BTreeMap<_, _> = sorted.into_iter().collect();
            assert_eq!(serde_json::to_string(&sorted).expect("JSON"), expected, "{line}");
        }
        for (arguments, is_kept) in [("[]", false), ("[1]", true), ("{}", true)] {
            let line = format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"a","arguments":{arguments}}}}}"#
            );
            assert_eq!(repaired(&line).contains("arguments"), is_kept, "{line}");
        }
        for (value, id) in [
            ("1e400", "7"),
            ("-1e400", r#""a""#),
            (&format!("{0}1{1}", "[".repeat(200), "]".repeat(200)), "-3"),
        ] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"a":{value}}}}}"#);
            let message: Value = serde_json::from_str(&repaired(&line)).expect("JSON");
            let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{UNREADABLE}"}}"#);
            assert_eq!(message, serde_json::from_str::<Value>(&expected).expect("JSON"), "{line}");
        }
        let response = r#"{"id":1,"result":{}}"#;
        assert_eq!(repaired(response), response);
    }

    #[test]
    fn initialize_is_accepted_whatever_its_unused_members_are() {
        use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};

        let client = r#""clientInfo":{"name":"t","version":"1"}"#;
        let newest = ProtocolVersion::LATEST_WITH_INITIALIZE.to_string();
        for (params, name, version) in [
            (r#""protocolVersion":"2025-06-18","capabilities":{}"#, "unknown", "2025-06-18"),
            (&format!(r#""protocolVersion":"2024-11-05","capabilities":[],{client}"#), "t", "2024-11-05"),
            (&format!(r#""protocolVersion":"1.0","capabilities":null,{client}"#), "t", "1.0"),
            (
                &format!(r#""protocolVersion":20250618,"capabilities":{{"roots":true}},{client}"#),
                "t",
                &newest,
            ),
            (&format!(r#""_meta":[],"capabilities":{{"experimental":{{"x":true}}}},{client}"#), "t", &newest),
            (
                r#""_meta":{"x":1},"clientInfo":{"name":"t","version":1,"icons":[{"sizes":"any"}]}"#,
                "t",
                &newest,
            ),
            (r#""clientInfo":{"version":"1"}"#, "unknown", &newest),
            (r#""clientInfo":"t""#, "unknown", &newest),
            ("", "unknown", &newest),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{{params}}}}}"#);
            let message: ClientJsonRpcMessage = serde_json::from_str(&repaired(&line)).expect("a message");
            let JsonRpcMessage::Request(request) = message else { panic!("{line}") };
            let ClientRequest::InitializeRequest(request) = request.request else { panic!("{line}") };
            assert_eq!(request.params.client_info.name, name, "{line}");
            assert_eq!(request.params.protocol_version.to_string(), version, "{line}");
        }
        for params in ["", r#","params":null"#, r#","params":[]"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize"{params}}}"#);
            assert!(repaired(&line).contains("clientInfo"), "{line}");
        }
        // The revision without `initialize` has its own error.
        let later = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let line = format!(r#"{{"id":1,"method":"initialize","params":{later}}}"#);
        assert!(!repaired(&line).contains("clientInfo"));
        assert!(!repaired(r#"{"id":1,"method":"ping","params":{}}"#).contains("clientInfo"));
    }

    #[test]
    fn long_lines_are_replaced_and_the_last_line_is_completed() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let copy = |input: &str| {
            let mut output = Vec::new();
            runtime.block_on(repair(input.as_bytes(), &mut output, 10));
            String::from_utf8(output).expect("text")
        };
        assert_eq!(copy("1234567890\n2\n"), "1234567890\n2\n");
        assert_eq!(copy("12345678901\n2\n3"), "null\n2\n3\n");
        assert_eq!(copy(&format!("{}\n2", "1".repeat(50_000))), "null\n2\n");
        assert_eq!(copy(&"1".repeat(11)), "null\n");
        assert_eq!(copy("\r\n\n2\r\n"), "\n\n2\n");
    }
}
