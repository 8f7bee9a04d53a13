//! Builds a valid value for a schema: the one real submission, which must be recognizable as a test.

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::{MAX_SCHEMAS, OpenApi};

/// The sample for strings without a format, truncated or padded with dots to the permitted length.
const TEXT: &str = "frontdesk audit: this is a test";

impl OpenApi {
    /// A value with the required properties only. `None` if a valid value cannot be derived, for example if
    /// the usual text does not match a `pattern`, or if no text would mark the value as a test.
    pub fn sample(&self, schema: &Value) -> Option<Value> {
        let value = self.sample_of(schema, "", &mut { MAX_SCHEMAS })?;
        value.to_string().contains("frontdesk").then_some(value)
    }

    /// Builds the value for one schema. `name` is the name of the property, from which an e-mail address is
    /// recognized. Prefers `const`, `default` and the first of `enum`; of `oneOf`, `anyOf` and several types,
    /// uses the first. `None` for `allOf`, unknown types and references, more than three items, a part
    /// without a value, and once `budget` is 0.
    fn sample_of(&self, schema: &Value, name: &str, budget: &mut usize) -> Option<Value> {
        let schema = self.resolve(schema).filter(|_| *budget > 0)?;
        *budget -= 1;
        let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|list| list.first());
        if let Some(value) = schema.get("const").or_else(|| schema.get("default")).or_else(|| first("enum")) {
            return Some(value.clone());
        }
        if let Some(alternative) = first("oneOf").or_else(|| first("anyOf")) {
            return self.sample_of(alternative, name, budget);
        }
        if schema.get("allOf").is_some() {
            return None;
        }
        let kind = schema.get("type");
        let kind = kind.and_then(Value::as_str).or_else(|| kind?.as_array()?.first()?.as_str());
        match kind {
            Some("string") => sample_text(schema, name).map(Value::from),
            Some("boolean") => Some((!is_honeypot(schema, name)).into()),
            Some(kind @ ("integer" | "number")) => sample_number(schema, kind == "integer"),
            Some("array") => {
                let count = usize::try_from(schema.get("minItems").map_or(Some(0), Value::as_u64)?).ok()?;
                let item = |_| self.sample_of(schema.get("items")?, name, budget);
                (count <= 3).then(|| (0..count).map(item).collect::<Option<Vec<_>>>())?.map(Value::from)
            }
            Some("object") => self.sample_object(schema, budget),
            None if schema.get("properties").is_some() => self.sample_object(schema, budget),
            _ => None,
        }
    }

    /// An object with the required properties. `None` if one of them is not described or has no sample.
    fn sample_object(&self, schema: &Value, budget: &mut usize) -> Option<Value> {
        let mut object = Map::new();
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let name = name.as_str()?;
            let property = schema.get("properties")?.get(name)?;
            object.insert(name.to_owned(), self.sample_of(property, name, budget)?);
        }
        Some(object.into())
    }
}

/// Matches a description that calls the field a honeypot, but not a mention of another field or a product.
const ABOUT_HONEYPOT: &str = r"(?xi)
    ^ (?:an?\s|hidden\s|spam\s|anti-?spam\s)* honeypot (?:\sfield|\strap)? \s* (?:[^\s\w]|$)
    | honeypot [^`]* \b (?:leave|keep) (?:\sit|\sthis|\sfield)* \s (?:empty|blank)
    | \b (?:leave|keep) (?:\sit|\sthis|\sfield)* \s (?:empty|blank) [^`]* honeypot
    | ^ must\s(?:be|stay|remain)\s(?:empty|blank) [^`]* honeypot";

/// Whether a field's name or description ([`ABOUT_HONEYPOT`]) marks it as a honeypot, which must stay empty.
fn is_honeypot(schema: &Value, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    ["honeypot", "gotcha", "botcheck", "bot-field"].iter().any(|word| name.contains(word))
        || description.to_ascii_lowercase().contains("honeypot")
            && Regex::new(ABOUT_HONEYPOT).is_ok_and(|about| about.is_match(description))
}

/// A text of the format; without a format an e-mail address if `name` contains `mail`, or else [`TEXT`],
/// truncated or padded to the permitted length; empty for a honeypot ([`is_honeypot`]). `None` if the format
/// is unknown, if a honeypot has a format, if another text than [`TEXT`] has a wrong length, if over 1,000
/// characters are required, or if `pattern` does not match.
fn sample_text(schema: &Value, name: &str) -> Option<String> {
    let is_address = name.to_ascii_lowercase().contains("mail");
    let text = match schema.get("format").and_then(Value::as_str) {
        format if is_honeypot(schema, name) => format.is_none().then_some("")?,
        Some("email" | "idn-email") => "frontdesk-audit@example.com",
        Some("uri" | "url" | "iri") => "https://example.com/frontdesk-audit",
        Some("date") => "2026-01-01",
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        None if is_address => "frontdesk-audit@example.com",
        None => TEXT,
        Some(_) => return None,
    };
    let length = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let (least, most) = (length("minLength").unwrap_or(0), length("maxLength").unwrap_or(usize::MAX));
    let text = match text.len() {
        long if long > most => (text == TEXT).then(|| TEXT[..most].to_owned()),
        short if short < least => (text == TEXT && least <= 1_000).then(|| format!("{TEXT:.<least$}")),
        _ => Some(text.to_owned()),
    };
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    // Return no sample if the pattern is not supported, because the text may not match it.
    let pattern = Regex::new(pattern).ok()?;
    text.filter(|text| pattern.is_match(text))
}

/// The minimum, or else the maximum, or else 1; for an integer, the next integer within the limits. `None` if
/// there is none, if a limit is exclusive or no number, or if `multipleOf` is set.
fn sample_number(schema: &Value, is_integer: bool) -> Option<Value> {
    let hard_to_meet = ["exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
    // In OpenAPI 3.0, `exclusiveMinimum` is a boolean, and `false` sets no exclusive limit.
    if hard_to_meet.iter().any(|key| schema.get(key).is_some_and(|value| *value != Value::Bool(false))) {
        return None;
    }
    let (least, most) = (schema.get("minimum"), schema.get("maximum"));
    let Some(limit) = least.or(most) else { return Some(1.into()) };
    let value = if is_integer && !limit.is_i64() && !limit.is_u64() {
        let limit = limit.as_f64()?;
        let next = if least.is_some() { limit.ceil() } else { limit.floor() };
        // `f64` formats an integral number without a decimal point, and never with an exponent.
        Value::from(next.to_string().parse::<i64>().ok()?)
    } else {
        limit.clone()
    };
    let number = value.as_f64()?;
    let is_permitted = |most: &Value| most.as_f64().is_some_and(|most| number <= most);
    most.is_none_or(is_permitted).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::read;
    use super::*;

    #[test]
    fn values_satisfy_their_schema_or_are_not_built() {
        let document = json!({"s": {"mail": {"type": "string"}, "deep": {"$ref": "#/s/list"},
            "list": {"type": "array", "minItems": 1, "items": {"$ref": "#/s/deep"}}}});
        let api = read(&document.to_string()).unwrap();
        let object = |properties: Value| {
            let required: Vec<_> = properties.as_object().unwrap().keys().collect();
            json!({"type": "object", "required": required, "properties": properties})
        };
        for (schema, expected) in [
            (
                object(
                    json!({"email": {"$ref": "#/s/mail"}, "n": {"type": ["integer", "null"], "minimum": 3}}),
                ),
                Some(json!({"email": "frontdesk-audit@example.com", "n": 3})),
            ),
            (
                object(json!({"a": {"type": "string", "maxLength": 9}, "b": {"type": "boolean"}})),
                Some(json!({"a": "frontdesk", "b": true})),
            ),
            (
                object(json!({"a": {"type": "string", "minLength": 33}, "c": {"const": 1}})),
                Some(json!({"a": "frontdesk audit: this is a test..", "c": 1})),
            ),
            (
                object(json!({"a": {"type": "string", "pattern": "^[^\\u0000-\\u001f]*$"}})),
                Some(json!({"a": "frontdesk audit: this is a test"})),
            ),
            (
                object(json!({"a": {"type": "string"}, "Gotcha": {"type": "string"},
                    "website": {"type": "string", "description": "Honeypot: leave empty"}})),
                Some(json!({"a": "frontdesk audit: this is a test", "Gotcha": "", "website": ""})),
            ),
            (object(json!({"a": {"type": "string"}, "gotcha": {"type": "string", "minLength": 1}})), None),
            (object(json!({"a": {"type": "string"}, "gotcha": {"type": "string", "format": "email"}})), None),
            (object(json!({"a": {"type": "string", "pattern": "^x$"}})), None),
            (object(json!({"a": {"type": "string", "pattern": "(?=unread)"}})), None),
            (object(json!({"a": {"enum": ["no mark"]}})), None),
            (object(json!({"a": {"type": "string"}, "b": {"$ref": "#/s/list"}})), None),
            (object(json!({"a": {"type": "string"}, "b": {"type": "number", "multipleOf": 7}})), None),
            (json!({"type": "object", "required": ["undescribed"]}), None),
            (json!({"type": "string", "format": "ipv4"}), None),
        ] {
            assert_eq!(api.sample(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn a_honeypot_is_a_field_that_calls_itself_so() {
        for (name, description, expected) in [
            ("website", "Honeypot: leave empty", true),
            ("website", "Honeypot", true),
            ("website", "A hidden honeypot field.", true),
            ("website", "Leave this field empty (honeypot).", true),
            ("website", "Must be empty: a honeypot for bots", true),
            ("website", "This is a honeypot for bots. Leave it blank.", true),
            ("my_gotcha", "", true),
            ("email", "Work e-mail. Leave the honeypot `website` empty", false),
            ("email", "Work e-mail. `website` is a honeypot: leave `website` empty.", false),
            ("email", "Work e-mail. The honeypot `website` is for bots. Leave it blank.", false),
            ("product", "honeypot sensors", false),
            ("product", "Leave empty for all products", false),
        ] {
            assert_eq!(is_honeypot(&json!({"description": description}), name), expected, "{description}");
        }
    }

    #[test]
    fn numbers_are_within_their_limits() {
        let one = Some(json!(1));
        for (schema, integer, number) in [
            (json!({}), one.clone(), one.clone()),
            (json!({"minimum": 1.5}), Some(json!(2)), Some(json!(1.5))),
            (json!({"minimum": -1.5}), Some(json!(-1)), Some(json!(-1.5))),
            (json!({"minimum": 2.0}), Some(json!(2)), Some(json!(2.0))),
            (json!({"maximum": -1.5}), Some(json!(-2)), Some(json!(-1.5))),
            (json!({"minimum": 1.2, "maximum": 1.8}), None, Some(json!(1.2))),
            (json!({"minimum": 1.2, "maximum": 2}), Some(json!(2)), Some(json!(1.2))),
            (json!({"minimum": 3, "maximum": 2}), None, None),
            (json!({"minimum": u64::MAX}), Some(json!(u64::MAX)), Some(json!(u64::MAX))),
            (json!({"minimum": 1e300}), None, Some(json!(1e300))),
            (json!({"minimum": "3"}), None, None),
            (json!({"minimum": 1, "maximum": "3"}), None, None),
            (json!({"minimum": 1, "exclusiveMinimum": false}), one.clone(), one),
            (json!({"minimum": 1, "exclusiveMinimum": true}), None, None),
            (json!({"exclusiveMaximum": 9}), None, None),
            (json!({"multipleOf": 7}), None, None),
        ] {
            assert_eq!(sample_number(&schema, true), integer, "integer {schema}");
            assert_eq!(sample_number(&schema, false), number, "number {schema}");
        }
    }
}
