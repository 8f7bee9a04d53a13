//! The requests to rspamd: a check of a message, and a ping.

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use uuid::Uuid;

use crate::message::{self, Content};
use crate::options::RspamdOptions;
use crate::reply::{self, Opinion};
use frontdesk_fetch::{FetchClient, FetchResponse, FetchTimeouts, NameResolver};

const QUEUE_ID: HeaderName = HeaderName::from_static("queue-id");
const PASSWORD: HeaderName = HeaderName::from_static("password");
/// The name of the client that sent the mail. Without it, Debian's rules give each submission 2.5 points,
/// because they expect a mail server. An address of this machine would have the same effect, but exclude
/// submissions from lists of URLs.
const HOSTNAME: (HeaderName, HeaderValue) =
    (HeaderName::from_static("hostname"), HeaderValue::from_static("frontdesk.invalid"));

/// A client whose requests have the time limit of the options, and read at most 64 KiB of a reply. It
/// connects to private addresses, too, because the operator's configuration names the server.
pub(crate) fn client(options: &RspamdOptions) -> FetchClient {
    let limit = options.timeout;
    let timeouts = FetchTimeouts { resolve: limit, connect: limit, tls: limit, answer: limit, body: limit };
    FetchClient::new(NameResolver::System, true, None, timeouts)
}

/// Asks rspamd for an opinion. The error says what is wrong, without quoting what the visitor wrote.
pub(crate) async fn ask(
    client: &FetchClient,
    options: &RspamdOptions,
    id: Uuid,
    content: &Content,
) -> Result<Opinion, String> {
    let mut headers = vec![HOSTNAME];
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        headers.push((QUEUE_ID, id));
    }
    let mail = message::compose(id, content);
    let response = send(client, options, Method::POST, "/checkv2", headers, mail).await?;
    let body = complete_body(&response)?;
    reply::parse(body).ok_or_else(|| "its reply is not that of rspamd".to_owned())
}

/// Checks that rspamd answers. The error says what is wrong.
pub async fn ping(options: &RspamdOptions) -> Result<(), String> {
    let response = send(&client(options), options, Method::GET, "/ping", Vec::new(), String::new()).await?;
    let body = complete_body(&response)?;
    if body.trim_ascii() == b"pong" { Ok(()) } else { Err("its reply is not that of rspamd".to_owned()) }
}

/// Sends one request, with the password if one is configured, and returns a response with any status. The
/// timeout of the options limits the request as a whole.
async fn send(
    client: &FetchClient,
    options: &RspamdOptions,
    method: Method,
    target: &str,
    mut headers: Vec<(HeaderName, HeaderValue)>,
    body: String,
) -> Result<FetchResponse, String> {
    headers.extend(options.password.as_ref().map(|password| (PASSWORD, password.header())));
    let url = options.url.with_target(target);
    let sent = client.send(method, &url, headers, body);
    match tokio::time::timeout(options.timeout, sent).await {
        Ok(response) => response.map_err(|error| error.sentence),
        Err(_) => Err(format!("no answer within {} s", options.timeout.as_secs_f32())),
    }
}

/// The body of a response that is complete and has the status 200. Otherwise, the error says what is wrong.
fn complete_body(response: &FetchResponse) -> Result<&[u8], String> {
    match response.status {
        StatusCode::OK if response.is_whole => Ok(&response.body),
        StatusCode::OK => Err("its reply is too long or incomplete".to_owned()),
        StatusCode::FORBIDDEN => Err("it refuses the password (403)".to_owned()),
        status => Err(format!("it answers {}", status.as_u16())),
    }
}
