//! Code that rules of the group forms share.

use std::sync::Arc;

use frontdesk_convert::{HtmlElement, Url};
use serde_json::Value;

use crate::client::redirect_target;
use crate::exchange::{Exchange, Response};
use crate::page::Page;
use crate::rule::{Findings, Severity};
use crate::survey::forms::TestedOperation;

/// The operation's name in messages: `POST` and its path.
pub(super) fn name(tested: &TestedOperation) -> String {
    format!("POST {}", tested.url.path())
}

/// The responses to the invalid POST requests.
pub(super) fn refusals(tested: &TestedOperation) -> impl Iterator<Item = (&Arc<Exchange>, &Response)> {
    tested.refusals().filter_map(|exchange| Some((exchange, exchange.response()?)))
}

/// Reports a status of 200 to 299 for a body that must be refused; as advice if the body says that it was.
/// Also reports a 302 or 303 to another page, as after a submission; as advice if its URL names an error or a
/// login. `sent` describes the body, and `right` the expected answer.
pub(super) fn report_accepted(
    exchange: Option<&Arc<Exchange>>,
    sent: &str,
    right: &str,
    findings: &mut Findings,
) {
    let Some(exchange) = exchange else { return };
    let Some(response) = exchange.response() else { return };
    let (path, status) = (exchange.url().path(), response.status.as_u16());
    if let Some(target) = redirect_after_post(exchange) {
        // A site that refuses a submission with a redirect often names an error or a login in the target URL.
        let place = format!("{}?{}", target.path(), target.query().unwrap_or_default()).to_ascii_lowercase();
        let is_refusal = REFUSALS.iter().any(|word| place.contains(word));
        let severity = if is_refusal { Severity::Advice } else { Severity::Broken };
        let message = format!(
            "POST {path} with {sent} redirects to {target}, which clients take for success: return {right}"
        );
        findings.report_as(severity, &[exchange], message);
    }
    if !response.status.is_success() {
        return;
    }
    if names_error(response) {
        let message =
            format!("POST {path} with {sent} returns {status} with an error in the body: return {right}");
        findings.report_as(Severity::Advice, &[exchange], message);
    } else {
        findings.report(&[exchange], format!("POST {path} with {sent} returns {status}: return {right}"));
    }
}

/// Words in the target of a redirect that refuses a submission.
const REFUSALS: [&str; 6] = ["error", "invalid", "fail", "denied", "login", "signin"];

/// The target of a 302 or 303, which a client follows with GET. `None` if the redirect only corrects the URL.
fn redirect_after_post(exchange: &Exchange) -> Option<Url> {
    let status = exchange.response()?.status.as_u16();
    let target = redirect_target(exchange).filter(|_| matches!(status, 302 | 303))?;
    (!is_corrected(&target, exchange.url())).then_some(target)
}

/// The target of a redirect that corrects the URL of a POST, such as its final slash, with a status after
/// which clients send GET without the body (RFC 9110 §15.4.2, §15.4.3). `None` for a redirect to the same
/// URL, which may show a form again.
pub(super) fn redirect_that_loses_body(exchange: &Exchange) -> Option<Url> {
    let status = exchange.response()?.status.as_u16();
    let target = redirect_target(exchange).filter(|_| matches!(status, 301 | 302))?;
    (target != *exchange.url() && is_corrected(&target, exchange.url())).then_some(target)
}

/// Whether a redirect changes nothing but the scheme, the host, the port and `/` at the end of the path.
fn is_corrected(target: &Url, url: &Url) -> bool {
    let place = |url: &Url| (url.path().trim_end_matches('/').to_owned(), url.query().map(str::to_owned));
    place(target) == place(url)
}

/// Whether a JSON body reports a failure despite a successful status: `error` or `errors` has a value that is
/// neither null, false, zero nor empty, `ok` or `success` is false, or `status` is `error` or `fail`. False
/// for other bodies.
fn names_error(response: &Response) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(&response.body) else { return false };
    let has = |key: &str| match body.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(Value::Number(code)) => code.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(errors)) => !errors.is_empty(),
        Some(Value::Object(errors)) => !errors.is_empty(),
    };
    let is_false = |key: &str| body.get(key) == Some(&Value::Bool(false));
    let is_failed = |word: &str| body.get("status").and_then(Value::as_str) == Some(word);
    ["error", "errors"].into_iter().any(has)
        || ["ok", "success"].into_iter().any(is_false)
        || ["error", "fail"].into_iter().any(is_failed)
}

/// Maximum number of forms per page that are checked.
pub(super) const MAX_FORMS: usize = 10;

/// The forms of a page with a field for an e-mail address (by its type, or named `email`), a telephone number
/// or a password, each with the method, in lower case, that a browser uses: `post` if a button uses it, or
/// else the method of the first button, or the form's own method if it has no button; empty if the HTML sets
/// none. Ignores the method `dialog`, which sends nothing, and skips forms that have no other method.
pub(super) fn personal_forms(page: &Page) -> Vec<(HtmlElement<'_>, String)> {
    let kind = |control: &HtmlElement<'_>| control.attribute("type").unwrap_or_default().to_ascii_lowercase();
    let is_personal = |control: &HtmlElement<'_>| {
        let is_named = control.attribute("name") == Some("email");
        control.name() == "input" && (is_named || matches!(&*kind(control), "email" | "tel" | "password"))
    };
    let is_sending = |control: &&HtmlElement<'_>| match control.name() {
        "button" => !matches!(&*kind(control), "button" | "reset"),
        _ => control.name() == "input" && matches!(&*kind(control), "submit" | "image"),
    };
    let forms = page.tree.forms().into_iter().filter(|(_, controls)| controls.iter().any(is_personal));
    let forms = forms.filter_map(|(form, controls)| {
        let own = form.attribute("method").unwrap_or_default();
        let buttons = controls.iter().filter(is_sending);
        let mut methods: Vec<_> = buttons.map(|one| one.attribute("formmethod").unwrap_or(own)).collect();
        if methods.is_empty() {
            methods.push(own);
        }
        let methods = methods.into_iter().map(|method| method.trim().to_ascii_lowercase());
        // `min_by_key` returns the first of equal keys: the first `post`, or else the first other method.
        let method = methods.filter(|method| method != "dialog").min_by_key(|method| method != "post")?;
        Some((form, method))
    });
    forms.collect()
}

/// Whether an `action` is a URL to which a browser sends the form, not empty, a fragment or a script.
pub(super) fn is_address(action: &str) -> bool {
    let action = action.trim();
    !action.is_empty() && !action.starts_with('#') && !action.to_ascii_lowercase().starts_with("javascript:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixtures::response;

    #[test]
    fn the_buttons_decide_how_a_form_is_sent() {
        let mail = "<input type=email>";
        for (html, expected) in [
            (format!("<form method=Get>{mail}</form>"), &["get"][..]),
            (format!("<form>{mail}<button formmethod=post></form>"), &["post"]),
            (format!("<form>{mail}<button type=button formmethod=post></button><button></form>"), &[""]),
            (format!("<form method=get>{mail}<input type=submit formmethod=POST></form>"), &["post"]),
            ("<form id=a method=get></form><input name=email form=a>".to_owned(), &["get"]),
            (format!("<form method=dialog>{mail}</form>"), &[]),
            (format!("<form method=get>{mail}<button formmethod=dialog></form>"), &[]),
            (format!("<form method=get><button formmethod=dialog></button>{mail}<button></form>"), &["get"]),
            (format!("<form method=post><button formmethod=get></button>{mail}<button></form>"), &["post"]),
            (format!("<form method=get>{mail}<button></button><button formmethod=POST></form>"), &["post"]),
            (format!("<template><form>{mail}</form></template>"), &[]),
            ("<form method=get><input type=search></form>".to_owned(), &[]),
        ] {
            let page = Page::read(&crate::rules::fixtures::page("https://example.com/", &[], &html)).unwrap();
            let methods: Vec<_> = personal_forms(&page).into_iter().map(|(_, method)| method).collect();
            assert_eq!(methods, expected, "{html}");
        }
    }

    #[test]
    fn a_body_without_an_error_names_none() {
        for (body, expected) in [
            (r#"{"errors": ["x"]}"#, true),
            (r#"{"errors": {"email": "x"}}"#, true),
            (r#"{"error": "x"}"#, true),
            (r#"{"error": true}"#, true),
            (r#"{"error": 7}"#, true),
            (r#"{"errors": [], "ok": false}"#, true),
            (r#"{"success": false}"#, true),
            (r#"{"status": "fail"}"#, true),
            (r#"{"errors": []}"#, false),
            (r#"{"errors": {}}"#, false),
            (r#"{"errors": null}"#, false),
            (r#"{"error": false}"#, false),
            (r#"{"error": ""}"#, false),
            (r#"{"error": 0}"#, false),
            (r#"{"status": "ok"}"#, false),
            ("[]", false),
            ("error", false),
        ] {
            assert_eq!(names_error(&response(200, &[], body)), expected, "{body}");
        }
    }
}
