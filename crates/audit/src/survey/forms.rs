//! The requests of the group forms: invalid submissions to the operations that the API's description names.

use std::collections::BTreeMap;
use std::sync::Arc;

use frontdesk_convert::Url;
use http::{Method, header};
use serde_json::Value;

use super::files::FilesSurvey;
use crate::client::Client;
use crate::exchange::{Exchange, Request};
use crate::group::Group;
use crate::openapi::{DescribedOperation, OpenApi};

/// The most operations that are tested.
const MAX_OPERATIONS: usize = 2;

/// The origin of the preflight request: one that no audited site trusts.
pub(crate) const FOREIGN_ORIGIN: &str = "https://frontdesk-audit.example";

/// The operations of the API, and their responses to the requests of the group forms.
#[derive(Default)]
pub struct FormsSurvey {
    /// Operations with POST that need no credentials, at most [`MAX_OPERATIONS`].
    pub operations: Vec<TestedOperation>,
    /// Operations that were not tested: their names by reason, which is a clause.
    pub skipped: BTreeMap<String, Vec<String>>,
}

/// An operation with POST, and the responses to requests that it must refuse. A response is missing if the
/// request was not sent: because of the budget, or because the server could take it for valid.
pub struct TestedOperation {
    pub url: Url,
    /// The documented responses, without references: status codes, ranges such as `4XX`, or `default`.
    pub responses: Vec<(String, Value)>,
    /// Whether the description has another method for GET.
    pub describes_get: bool,
    /// `{`, as JSON.
    pub malformed: Option<Arc<Exchange>>,
    /// `{}`, where the schema requires a property. The media type has the parameter `charset=utf-8`.
    pub empty: Option<Arc<Exchange>>,
    pub get: Option<Arc<Exchange>>,
    /// `{`, as plain text.
    pub wrong_type: Option<Arc<Exchange>>,
    /// A CORS preflight from [`FOREIGN_ORIGIN`].
    pub preflight: Option<Arc<Exchange>>,
    /// A valid submission, only if the operator asked for it.
    pub submission: Option<Arc<Exchange>>,
}

impl TestedOperation {
    /// The responses to the POST requests that must be refused.
    pub fn refusals(&self) -> impl Iterator<Item = &Arc<Exchange>> {
        [&self.malformed, &self.empty, &self.wrong_type].into_iter().flatten()
    }

    /// Whether the description names exactly this status.
    pub fn documents_exactly(&self, status: http::StatusCode) -> bool {
        self.responses.iter().any(|(name, _)| name == status.as_str())
    }

    /// The description of a response with this status: the exact one, otherwise its range or `default`.
    pub fn documented(&self, status: http::StatusCode) -> Option<&Value> {
        let range = format!("{}XX", status.as_u16() / 100);
        [status.as_str(), &range, "default"].iter().find_map(|name| {
            self.responses.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        })
    }
}

impl FormsSurvey {
    /// Sends the requests of the group.
    pub(crate) async fn survey(client: &Client, files: &FilesSurvey) -> FormsSurvey {
        let mut survey = FormsSurvey::default();
        let Some(api) = &files.api else { return survey };
        for described in api.operations() {
            if described.method != "post" || described.path.contains('{') {
                continue;
            }
            let skipped = match locate(client, api, &described) {
                Ok(url) if survey.operations.len() < MAX_OPERATIONS => {
                    let is_first = survey.operations.is_empty();
                    survey.operations.push(test(client, api, described, url, is_first).await);
                    continue;
                }
                Ok(_) => format!("at most {MAX_OPERATIONS} operations are tested"),
                Err(reason) => reason,
            };
            survey.skipped.entry(skipped).or_default().push(format!("POST {}", described.path));
        }
        survey
    }
}

/// The URL of an operation, or why it is not tested.
fn locate(client: &Client, api: &OpenApi, described: &DescribedOperation<'_>) -> Result<Url, String> {
    if api.needs_credentials(described.operation) {
        return Err("it needs credentials".to_owned());
    }
    let servers = api.servers(described);
    let Some(server) = servers.iter().find(|server| client.is_same_site(server)) else {
        let server = servers.first().map_or("an invalid URL", Url::as_str);
        return Err(format!("the server is {server}, to which this audit sends nothing"));
    };
    let address = format!("{}{}", server.as_str().trim_end_matches('/'), described.path);
    Url::parse(&address).map_err(|_| "the URL is invalid".to_owned())
}

/// Sends the requests for one operation; fewer unless it is the first.
async fn test(
    client: &Client,
    api: &OpenApi,
    described: DescribedOperation<'_>,
    url: Url,
    is_first: bool,
) -> TestedOperation {
    let operation = described.operation;
    let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
    let responses = responses.filter_map(|(name, value)| Some((name.clone(), api.resolve(value)?.clone())));
    // A server that documents no body, or an optional one, may do its work no matter what it gets.
    let body = api.json_body(operation);
    let refuses_empty = body.is_some_and(|body| api.rejects_empty_object(body.schema));
    let is_tested = refuses_empty || body.is_some_and(|body| body.is_required);
    let takes_text = body.is_some_and(|body| body.takes_text);
    let json = body.map_or("application/json", |body| body.media_type);
    let post = |kind: &str, body: &str| {
        Request::new(Method::POST, &url)
            .accept("application/json")
            .header(header::CONTENT_TYPE, kind)
            .body(body)
    };
    let send = async |request: Request, is_wanted: bool| {
        if is_wanted { client.send(Group::Forms, request).await.ok() } else { None }
    };
    let preflight = Request::new(Method::OPTIONS, &url)
        .header(header::ORIGIN, FOREIGN_ORIGIN)
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "content-type");
    let is_submitted = client.options().submits && !api.needs_parameters(&described);
    let sample = body.filter(|_| is_submitted).and_then(|body| api.sample(body.schema));
    TestedOperation {
        responses: responses.collect(),
        describes_get: described.item.get("get").is_some(),
        malformed: send(post(json, "{"), is_tested && (is_first || !refuses_empty)).await,
        empty: send(post(&with_charset(json), "{}"), refuses_empty).await,
        get: send(Request::get(&url).accept("application/json"), is_first || !is_tested).await,
        wrong_type: send(post("text/plain", "{"), is_first && is_tested && !takes_text).await,
        preflight: send(preflight, is_first).await,
        submission: match sample {
            Some(sample) => send(post(json, &sample.to_string()), true).await,
            None => None,
        },
        url,
    }
}

/// A media type with a parameter, as many clients send it.
fn with_charset(media_type: &str) -> String {
    if media_type.contains(';') { media_type.to_owned() } else { format!("{media_type}; charset=utf-8") }
}
