//! Reads OpenAPI descriptions (versions 3.0 to 3.2) to check them and to call their operations.

mod sample;

use frontdesk_convert::Url;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::exchange::Exchange;

/// Maximum number of references that are followed in a row, because references may be circular.
const MAX_REFERENCES: usize = 16;

/// Maximum length of a server URL in bytes.
const MAX_URL: usize = 2_000;

/// Maximum number of schemas that are read for one value, because schemas may be recursive.
const MAX_SCHEMAS: usize = 200;

/// Maximum number of servers to read per operation.
const MAX_SERVERS: usize = 10;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// An OpenAPI description of an API.
pub struct OpenApi {
    /// The URL of the description, against which relative URLs are resolved.
    pub url: Url,
    pub document: Value,
}

/// An operation in an API description.
#[derive(Clone, Copy)]
pub struct DescribedOperation<'a> {
    /// The path as written in the description, with its parameters in braces.
    pub path: &'a str,
    /// The HTTP method in lower case.
    pub method: &'static str,
    pub operation: &'a Value,
    /// The path item: the object that describes all methods of the path.
    pub item: &'a Value,
}

/// The JSON request body of an operation, as the API description defines it.
#[derive(Clone, Copy)]
pub struct JsonBody<'a> {
    /// `application/json`, or a type with the suffix `+json`.
    pub media_type: &'a str,
    pub schema: &'a Value,
    pub is_required: bool,
    /// Whether the API description also permits bodies of type `text/*` or `*/*`.
    pub takes_text: bool,
}

impl OpenApi {
    /// Reads JSON or YAML from a response of any status, without checking that it is OpenAPI. An exchange
    /// without a response is read as an empty text. The error is a clause.
    pub fn parse(exchange: &Exchange) -> Result<OpenApi, String> {
        let text = exchange.response().map(|response| response.text()).unwrap_or_default();
        let text = text.trim_start_matches('\u{feff}');
        let document = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| format!("it is not JSON ({error})"))?
        } else {
            serde_saphyr::from_str(text).map_err(|_| "it is neither JSON nor YAML".to_owned())?
        };
        Ok(OpenApi { url: exchange.url().clone(), document })
    }

    /// The version, such as `3.1.0`, or of its predecessor Swagger, `2.0`; empty if there is none. A number,
    /// as YAML may have, is returned as text.
    pub fn version(&self) -> String {
        match self.document.get("openapi").or_else(|| self.document.get("swagger")) {
            Some(Value::String(version)) => version.clone(),
            Some(Value::Number(version)) => version.to_string(),
            _ => String::new(),
        }
    }

    /// Follows local references. `None` if one is unresolved, circular, or to another document, or if there
    /// are [`MAX_REFERENCES`] in a row.
    pub fn resolve<'a>(&'a self, mut node: &'a Value) -> Option<&'a Value> {
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = node.get("$ref").and_then(Value::as_str) else { return Some(node) };
            node = self.find(reference)?;
        }
        None
    }

    /// The target of a local reference such as `#/components/schemas/Contact` (RFC 6901 §6). `None` for a
    /// reference that leads nowhere or to another document.
    pub fn find(&self, reference: &str) -> Option<&Value> {
        // The reference is a URL fragment, so it may be percent-encoded.
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        self.document.pointer(&pointer)
    }

    /// All operations in the order of the paths, and of each path in that of [`METHODS`]. Skips paths whose
    /// reference cannot be resolved.
    pub fn operations(&self) -> Vec<DescribedOperation<'_>> {
        let mut operations = Vec::new();
        let paths = self.document.get("paths").and_then(Value::as_object);
        for (path, item) in paths.into_iter().flatten() {
            let Some(item) = self.resolve(item) else { continue };
            for method in METHODS {
                let operation = item.get(method).filter(|operation| operation.is_object());
                operations.extend(operation.map(|operation| DescribedOperation {
                    path,
                    method,
                    operation,
                    item,
                }));
            }
        }
        operations
    }

    /// The absolute URLs of the first [`MAX_SERVERS`] servers of an operation, otherwise of its path,
    /// otherwise of the document, with the default values of their variables. Leaves out invalid URLs. The
    /// host of the description if the first list found is empty or there is none.
    pub fn servers(&self, operation: &DescribedOperation<'_>) -> Vec<Url> {
        let places = [operation.operation, operation.item, &self.document];
        let servers = places.iter().find_map(|place| place.get("servers")?.as_array());
        let named = servers.into_iter().flatten().take(MAX_SERVERS);
        let named: Vec<_> = named.filter_map(|server| self.server_url(server)).collect();
        if servers.is_none_or(Vec::is_empty) { self.url.join("/").into_iter().collect() } else { named }
    }

    /// The absolute URL of a server object, with the default values of its variables; a variable without
    /// one is left out. `None` if the URL is invalid, or too long because of its variables.
    pub fn server_url(&self, server: &Value) -> Option<Url> {
        let variables = server.get("variables");
        let mut parts = server.get("url")?.as_str()?.split('{');
        let mut url = parts.next()?.to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}')?;
            let default = variables.and_then(|variables| variables.get(name)?.get("default")?.as_str());
            url = url + default.unwrap_or_default() + rest;
            if url.len() > MAX_URL {
                return None;
            }
        }
        self.url.join(&url).ok()
    }

    /// Whether an operation needs credentials: it or else the document lists security requirements, and none
    /// of these alternatives is empty.
    pub fn needs_credentials(&self, operation: &Value) -> bool {
        let requirement = operation.get("security").or_else(|| self.document.get("security"));
        let alternatives = requirement.and_then(Value::as_array);
        alternatives.is_some_and(|alternatives| {
            let is_open = |alternative: &Value| alternative.as_object().is_some_and(Map::is_empty);
            !alternatives.is_empty() && !alternatives.iter().any(is_open)
        })
    }

    /// Whether a valid request needs more than a body: a required parameter, or one whose reference cannot be
    /// resolved.
    pub fn needs_parameters(&self, described: &DescribedOperation<'_>) -> bool {
        let lists = [described.item, described.operation].map(|place| place.get("parameters"));
        let parameters = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        let is_required = |parameter: &Value| parameter.get("required") == Some(&Value::Bool(true));
        parameters.into_iter().any(|parameter| self.resolve(parameter).is_none_or(is_required))
    }

    /// The first JSON body of an operation's request. `None` if the description has no JSON body or no
    /// schema for it.
    pub fn json_body<'a>(&'a self, operation: &'a Value) -> Option<JsonBody<'a>> {
        let body = self.resolve(operation.get("requestBody")?)?;
        let content = body.get("content")?.as_object()?;
        let (media_type, media) = content.iter().find(|(kind, _)| is_json(kind))?;
        let is_required = body.get("required") == Some(&Value::Bool(true));
        let is_text = |kind: &String| {
            let kind = kind.to_ascii_lowercase();
            kind.starts_with("text/") || kind.starts_with("*/")
        };
        let takes_text = content.keys().any(is_text);
        Some(JsonBody { media_type, schema: media.get("schema")?, is_required, takes_text })
    }

    /// Whether `{}` is certainly invalid. False if the schema cannot be understood, or if each required
    /// property has a default or is only for responses.
    pub fn rejects_empty_object(&self, schema: &Value) -> bool {
        self.rejects_empty(schema, &mut { MAX_SCHEMAS })
    }

    /// Whether the schema, its `allOf`, or every part of its `oneOf` and `anyOf` requires a property that has
    /// no default and is not only for responses. False once `budget` is 0, and if the schema has a default.
    fn rejects_empty(&self, schema: &Value, budget: &mut usize) -> bool {
        let mut parts = Vec::new();
        self.collect_parts(schema, &mut parts, budget);
        if *budget == 0 || parts.iter().any(|part| part.get("default").is_some()) {
            return false;
        }
        let list =
            |name: &'static str| parts.iter().filter_map(move |part| part.get(name)?.as_array()).flatten();
        let mut names = list("required").filter_map(Value::as_str);
        let is_needed = |name: &str| {
            let definitions = parts.iter().filter_map(|part| part.get("properties")?.get(name));
            !definitions.into_iter().any(|own| self.may_be_left_out(own, &mut { MAX_SCHEMAS }))
        };
        let mut alternatives = list("oneOf").chain(list("anyOf")).peekable();
        names.any(is_needed)
            || (alternatives.peek().is_some() && alternatives.all(|part| self.rejects_empty(part, budget)))
    }

    /// Adds to `parts` the schema, what it refers to, and all parts of `allOf`, also of nested ones. Ends
    /// early once `budget` is 0.
    fn collect_parts<'a>(&'a self, schema: &'a Value, parts: &mut Vec<&'a Value>, budget: &mut usize) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        parts.push(schema);
        let Some(resolved) = self.resolve(schema) else { return };
        if !std::ptr::eq(resolved, schema) {
            parts.push(resolved);
        }
        for part in resolved.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.collect_parts(part, parts, budget);
        }
    }

    /// Whether a required property has a default or is only for responses, in any part of its schema. True if
    /// the schema cannot be resolved or the budget is used up.
    fn may_be_left_out(&self, schema: &Value, budget: &mut usize) -> bool {
        if *budget == 0 {
            return true;
        }
        *budget -= 1;
        let says = |schema: &Value| {
            schema.get("default").is_some() || schema.get("readOnly") == Some(&Value::Bool(true))
        };
        let Some(resolved) = self.resolve(schema) else { return true };
        let parts = ["allOf", "oneOf", "anyOf"].into_iter().filter_map(|name| resolved.get(name)?.as_array());
        says(schema) || says(resolved) || parts.flatten().any(|part| self.may_be_left_out(part, budget))
    }
}

/// Whether a media type is JSON: `application/json` or one with the suffix `+json`.
pub(crate) fn is_json(media_type: &str) -> bool {
    let kind = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn read(text: &str) -> Result<OpenApi, String> {
        OpenApi::parse(&Exchange::with_body("https://example.com/api/openapi.json", text))
    }

    #[test]
    fn yaml_and_json_are_read() {
        assert_eq!(read("openapi: 3.1.0\npaths: {}\n").unwrap().version(), "3.1.0");
        assert_eq!(read("swagger: 2.0\n").unwrap().version(), "2.0");
        assert_eq!(read("\u{feff}{\"swagger\": \"2.0\"}").unwrap().version(), "2.0");
        assert!(read("{\"openapi\":").is_err_and(|error| error.contains("not JSON")));
        assert!(read("a: b: c").is_err());
        let aliases = "a: &a [x, x]\n".to_owned()
            + &(1..40).map(|n| format!("b{n}: &b{n} [*a, *a]\na: &a [*b{n}, *b{n}]\n")).collect::<String>();
        assert!(read(&aliases).is_err(), "aliases must not expand without limit");
    }

    #[test]
    fn an_empty_object_that_may_be_valid_is_not_sent() {
        let api = read(
            &json!({"openapi": "3.1.0", "components": {"schemas": {"name": {"type": "string"}}}}).to_string(),
        );
        let api = api.unwrap();
        let name = json!({"$ref": "#/components/schemas/name"});
        let with = |property: Value| json!({"required": ["a"], "properties": {"a": property}});
        assert!(api.rejects_empty_object(&with(name)));
        assert!(api.rejects_empty_object(
            &json!({"allOf": [{"required": ["a"]}, {"properties": {"b": {"default": 1}}}]})
        ));
        for schema in [
            with(json!({"$ref": "#/components/schemas/name", "default": "x"})),
            with(json!({"allOf": [{"readOnly": true}]})),
            with(json!({"oneOf": [{"default": "x"}, {"type": "string"}]})),
            with(json!({"$ref": "#/missing"})),
            json!({"allOf": [{"required": ["a"]}, {"properties": {"a": {"default": 1}}}]}),
            json!({"default": {"a": 1}, "required": ["a"]}),
            json!({"required": [null]}),
            json!({}),
        ] {
            assert!(!api.rejects_empty_object(&schema), "{schema}");
        }
    }

    #[test]
    fn variables_of_a_server_do_not_expand_without_limit() {
        let value = |name: &str| json!({"default": format!("{{{name}}}").repeat(10)});
        let variables = json!({"a": value("b"), "b": value("c"), "c": {"default": "x".repeat(10)}});
        let api = read("openapi: 3.1.0").unwrap();
        let server = json!({"url": "https://example.com/{a}", "variables": variables});
        assert!(api.server_url(&server).is_some_and(|url| url.as_str().len() < 200));
        let long =
            json!({"url": "https://example.com/{a}", "variables": {"a": {"default": "x".repeat(5_000)}}});
        assert_eq!(api.server_url(&long), None);
    }

    #[test]
    fn servers_and_credentials_of_operations() {
        let api = |document: Value| read(&document.to_string()).unwrap();
        let first = api(json!({"paths": {"/a": {"post": {"security": []}}}, "security": [{"key": []}]}));
        let operations = first.operations();
        assert_eq!(first.servers(&operations[0])[0].as_str(), "https://example.com/");
        assert!(!first.needs_credentials(operations[0].operation));
        let second = api(json!({
            "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "api.example.com"}}}],
            "security": [{"key": []}],
            "paths": {"/a": {"post": {}}, "/b": {"servers": [{"url": "v2"}], "get": {"security": [{"key": []}, {}]}}},
        }));
        let operations = second.operations();
        assert_eq!(second.servers(&operations[0])[0].as_str(), "https://api.example.com/v1");
        assert!(second.needs_credentials(operations[0].operation));
        assert_eq!(second.servers(&operations[1])[0].as_str(), "https://example.com/api/v2");
        assert!(!second.needs_credentials(operations[1].operation));
    }

    #[test]
    fn an_empty_object_is_sent_only_where_it_is_invalid() {
        for (schema, expected) in [
            (json!({"required": ["a"]}), true),
            (json!({"type": "object", "properties": {"a": {}}}), false),
            (json!({"required": ["id"], "properties": {"id": {"readOnly": true}}}), false),
            (json!({"required": ["a"], "properties": {"a": {"default": 1}}}), false),
            (json!({"allOf": [{}, {"$ref": "#/s/needs~1a"}]}), true),
            (json!({"oneOf": [{"required": ["a"]}, {"$ref": "#/s/needs~1a"}]}), true),
            (json!({"anyOf": [{"required": ["a"]}, {}]}), false),
            (json!({"oneOf": []}), false),
            (json!({"$ref": "#/s/circle"}), false),
            (json!({"allOf": [{"$ref": "#/s/deep"}]}), false),
            (json!({"$ref": "#/s/wide"}), false),
            (json!({"$ref": "other.json#/x"}), false),
            (json!({"$ref": "#/s/needs%7E1a"}), true),
            (json!(true), false),
        ] {
            let document = json!({"s": {
                "needs/a": {"required": ["a"]},
                "circle": {"$ref": "#/s/circle"},
                "deep": {"allOf": [{"$ref": "#/s/deep"}]},
                "wide": {"allOf": vec![json!({"$ref": "#/s/wide"}); 20]},
            }});
            let api = read(&document.to_string()).unwrap();
            assert_eq!(api.rejects_empty_object(&schema), expected, "{schema}");
        }
    }
}
