//! The requests of the group forms: invalid submissions to the operations that the API's description names,
//! and one request of an operation with GET.

use std::collections::BTreeMap;
use std::sync::Arc;

use frontdesk_convert::Url;
use http::{Method, StatusCode, header};
use serde_json::Value;

use super::files::FilesSurvey;
use crate::client::Client;
use crate::exchange::{Exchange, Request};
use crate::openapi::{DescribedOperation, OpenApi};
use crate::rule_group::Group;

/// Maximum number of operations to test: at most one GET operation, and otherwise POST operations.
const MAX_OPERATIONS: usize = 2;

/// The origin of the preflight request: one that no audited site trusts.
pub(crate) const FOREIGN_ORIGIN: &str = "https://frontdesk-audit.example";

/// The operations of the API, and their responses to the requests of the group `forms`.
#[derive(Default)]
pub struct FormsSurvey {
    /// The first GET operation that needs no credentials or parameters and documents a 200 response.
    pub get: Option<TestedGet>,
    /// POST operations that need no credentials.
    pub operations: Vec<TestedOperation>,
    /// The names of POST operations that were not tested, by reason, such as "credentials are needed".
    pub skipped: BTreeMap<String, Vec<String>>,
}

/// A GET operation, and the response to a valid request.
pub struct TestedGet {
    pub responses: DescribedResponses,
    pub exchange: Arc<Exchange>,
}

/// Maximum number of documented responses that are read for an operation. A response with `MAX_VALUES` values
/// or more is left out.
const MAX_RESPONSES: usize = 50;
const MAX_VALUES: usize = 10_000;

/// Whether there are fewer than `budget` values in `value`, which counts as one and may contain others.
/// Subtracts their number from `budget`, down to zero.
fn is_small(value: &Value, budget: &mut usize) -> bool {
    *budget = budget.saturating_sub(1);
    *budget > 0
        && match value {
            Value::Array(values) => values.iter().all(|value| is_small(value, budget)),
            Value::Object(values) => values.values().all(|value| is_small(value, budget)),
            _ => true,
        }
}

/// The documented responses by status code, range such as `4XX`, or `default`. Leaves out responses that are
/// too large or whose reference cannot be resolved.
pub struct DescribedResponses(Vec<(String, Value)>);

impl DescribedResponses {
    /// Reads the first [`MAX_RESPONSES`] responses of an operation, and resolves their references.
    fn read(api: &OpenApi, operation: &Value) -> DescribedResponses {
        let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
        let resolved = responses.take(MAX_RESPONSES).filter_map(|(name, value)| {
            let value = api.resolve(value).filter(|value| is_small(value, &mut { MAX_VALUES }))?;
            Some((name.clone(), value.clone()))
        });
        DescribedResponses(resolved.collect())
    }

    /// Whether the description documents exactly this status, not only a range or `default`.
    pub fn documents_exactly(&self, status: StatusCode) -> bool {
        self.0.iter().any(|(name, _)| name == status.as_str())
    }

    /// The documentation of a response with this status: the exact one, or else its range, or else `default`.
    pub fn documented(&self, status: StatusCode) -> Option<&Value> {
        let range = format!("{}XX", status.as_u16() / 100);
        [status.as_str(), &range, "default"].iter().find_map(|name| {
            self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        })
    }

    /// The documented media types of a response with this status; empty if it has no body or no
    /// documentation. Falls back to the range and `default`.
    pub fn media_types(&self, status: StatusCode) -> Vec<&str> {
        let content = self.documented(status).and_then(|response| response.get("content")?.as_object());
        content.into_iter().flat_map(|content| content.keys().map(String::as_str)).collect()
    }
}

/// A POST operation, and the responses to requests that it must refuse. A response is missing if the
/// request was not sent: because of the budget, because the server could take it for valid, or because only
/// the first operation gets all requests.
pub struct TestedOperation {
    pub url: Url,
    pub responses: DescribedResponses,
    /// Whether the description has a GET operation at the same path.
    pub describes_get: bool,
    /// The response to the invalid body `{`, sent as JSON.
    pub malformed: Option<Arc<Exchange>>,
    /// The response to `{}`, where the schema requires a property. The media type has the parameter
    /// `charset=utf-8`.
    pub empty: Option<Arc<Exchange>>,
    /// The response to GET at the URL of the operation.
    pub get: Option<Arc<Exchange>>,
    /// The response to the body `{`, sent as plain text.
    pub wrong_type: Option<Arc<Exchange>>,
    /// The response to a CORS preflight from [`FOREIGN_ORIGIN`].
    pub preflight: Option<Arc<Exchange>>,
    /// The response to a valid submission, which is sent only if the operator asked for it.
    pub submission: Option<Arc<Exchange>>,
}

impl TestedOperation {
    /// The responses to the POST requests that must be refused.
    pub fn refusals(&self) -> impl Iterator<Item = &Arc<Exchange>> {
        [&self.malformed, &self.empty, &self.wrong_type].into_iter().flatten()
    }
}

impl FormsSurvey {
    /// Sends the requests of the group; none unless the site has a description of its API that can be read.
    /// Notes in `skipped` which operations with POST are not tested, apart from those with a parameter in the
    /// path, which are ignored.
    pub(crate) async fn survey(client: &Client, files: &FilesSurvey) -> FormsSurvey {
        let mut survey = FormsSurvey::default();
        let Some(api) = &files.api else { return survey };
        survey.get = get(client, api).await;
        let max_posts = MAX_OPERATIONS - usize::from(survey.get.is_some());
        for described in api.operations() {
            if described.method != "post" || described.path.contains('{') {
                continue;
            }
            let skipped = match locate(client, api, &described) {
                Ok(url) if survey.operations.len() < max_posts => {
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

/// The URL of an operation at the first of its servers that is on this site. The error says why the operation
/// is not tested: it needs credentials, or has no such server or no valid URL.
fn locate(client: &Client, api: &OpenApi, described: &DescribedOperation<'_>) -> Result<Url, String> {
    if api.needs_credentials(described.operation) {
        return Err("credentials are needed".to_owned());
    }
    let servers = api.servers(described);
    let Some(server) = servers.iter().find(|server| client.is_same_site(server)) else {
        return Err(servers.first().map_or_else(
            || "the URL of the server is invalid".to_owned(),
            |server| format!("the server is {server}, another site, to which the audit sends nothing"),
        ));
    };
    let address = format!("{}{}", server.as_str().trim_end_matches('/'), described.path);
    Url::parse(&address).map_err(|_| "the URL is invalid".to_owned())
}

/// Requests the first operation with GET on this site that needs neither credentials nor parameters, and for
/// whose 200 response the description (also as `2XX` or `default`) has media types, but no event stream,
/// which does not end. `None` if there is none or if the request may not be sent.
async fn get(client: &Client, api: &OpenApi) -> Option<TestedGet> {
    let operations = api.operations().into_iter();
    let mut gets = operations.filter(|described| described.method == "get" && !described.path.contains('{'));
    let (request, responses) = gets.find_map(|described| {
        let responses = DescribedResponses::read(api, described.operation);
        let media_types = responses.media_types(StatusCode::OK).join(", ");
        // Skip event streams, which do not end.
        let is_tested = !media_types.is_empty() && !media_types.contains("event-stream");
        let url = locate(client, api, &described).ok()?;
        let is_tested = is_tested && !api.needs_parameters(&described);
        is_tested.then(|| (Request::get(&url).accept(&media_types), responses))
    })?;
    let exchange = client.send(Group::Forms, request).await.ok()?;
    Some(TestedGet { responses, exchange })
}

/// Sends the requests for one operation; fewer unless it is the first. Sends no invalid body that the
/// operation could take for valid: `{` only if a body is required or its schema refuses `{}`, and `{}` only
/// in the latter case. Submits valid values if the operator asked for it and they can be derived.
async fn test(
    client: &Client,
    api: &OpenApi,
    described: DescribedOperation<'_>,
    url: Url,
    is_first: bool,
) -> TestedOperation {
    let operation = described.operation;
    // Send no invalid body to an operation that may accept any: its body is undocumented, or is optional and
    // has a schema that does not refuse `{}`.
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
        responses: DescribedResponses::read(api, operation),
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

/// Adds `charset=utf-8` to a media type without parameters, as many clients do.
fn with_charset(media_type: &str) -> String {
    if media_type.contains(';') { media_type.to_owned() } else { format!("{media_type}; charset=utf-8") }
}
