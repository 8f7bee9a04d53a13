//! Planted faults of the group forms.

use std::time::Duration;

use frontdesk_audit::Options;
use frontdesk_audit::Severity::{Advice, Broken};

use crate::content;
use crate::site::{Answer, Asked, FakeSite, describe};

const API: &str = "/api/contact";

/// A site in which the answers of the API to a method are changed.
fn with_api(
    method: &'static str,
    change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static,
) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| {
        if asked.path() == API && asked.method == method { change(asked, answer) } else { answer }
    })
}

/// A site in which the description of the API is changed.
fn with_description(from: &'static str, to: &'static str) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| match asked.path() {
        "/openapi.json" => answer.replaced(from, to),
        _ => answer,
    })
}

/// A site whose home page has a form.
fn with_form(form: &'static str) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| match asked.path() {
        "/" => answer.replaced("</main>", &format!("{form}</main>")),
        _ => answer,
    })
}

fn posts(site: &FakeSite) -> Vec<Asked> {
    site.requests().into_iter().filter(|asked| asked.method == "POST").collect()
}

#[test]
fn only_invalid_submissions_are_sent() {
    let site = FakeSite::correct();
    site.assert_clean();
    let bodies: Vec<_> = posts(&site).into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies, ["{", "{}", "{"]);
}

/// Operations that might do their work for an invalid request get no POST.
#[test]
fn operations_that_may_accept_anything_get_no_body() {
    for (from, to) in [
        ("\"requestBody\"", "\"x-body\""),
        (
            "application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"email\"",
            "text/csv\":{\"schema\":{\"required\":[\"email\"",
        ),
        ("/api/contact", "/api/{id}"),
        ("\"operationId\"", "\"security\":[{\"key\":[]}],\"operationId\""),
        ("\"servers\":[{\"url\":\"http://", "\"servers\":[{\"url\":\"http://api.example.com/"),
    ] {
        let site = with_description(from, to);
        let report = site.audit();
        assert!(posts(&site).is_empty(), "{from}: {:?}", posts(&site));
        assert!(
            report.findings.iter().all(|finding| finding.severity == Advice),
            "{from}: {}",
            describe(&report)
        );
    }
    // Neither a required body nor a required property, and plain text is documented.
    let optional = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/openapi.json" => {
            answer.replaced("\"required\":true,", "").replaced("\"required\":[\"email\",\"message\"],", "")
        }
        _ => answer,
    });
    optional.assert_clean();
    assert!(posts(&optional).is_empty());
    let text = with_description(
        "\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"email\"",
        "\"content\":{\"text/plain\":{},\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"email\"",
    );
    text.assert_clean();
    assert!(posts(&text).iter().all(|asked| asked.header("content-type").starts_with("application/json")));
}

#[test]
fn untested_operations_are_named() {
    let report = with_description("\"operationId\"", "\"security\":[{\"key\":[]}],\"operationId\"").audit();
    assert!(
        report.not_judged.iter().any(|note| note.reason.contains("credentials")),
        "{}",
        describe(&report)
    );
}

#[test]
fn accepted_rubbish_is_found() {
    let thanks = || Answer::new(200, "application/json", "{\"ok\":true}").with("cache-control", "no-store");
    let is_text = |asked: &Asked| asked.header("content-type").starts_with("text/plain");
    with_api("POST", move |asked, answer| if is_text(asked) { thanks() } else { answer })
        .assert_finds("api-media-type-accepted", Broken);
    for body in ["{", "{}"] {
        with_api(
            "POST",
            move |asked, answer| if !is_text(asked) && asked.body == body { thanks() } else { answer },
        )
        .assert_finds("api-invalid-accepted", Broken);
    }
}

#[test]
fn an_error_with_a_status_of_success_is_advice() {
    let is_text = |asked: &Asked| asked.header("content-type").starts_with("text/plain");
    with_api("POST", move |asked, answer| {
        let status = if is_text(asked) { answer.status } else { 200 };
        Answer { status, ..answer }
    })
    .assert_finds("api-invalid-accepted", Advice);
    with_api("POST", move |asked, answer| {
        let failed = Answer::new(200, "application/json", "{\"success\":false}");
        if is_text(asked) { failed } else { answer }
    })
    .assert_finds("api-media-type-accepted", Advice);
}

#[test]
fn server_errors_for_invalid_submissions_are_found() {
    with_api("POST", |_, _| content::error(500, "TypeError")).assert_finds("api-server-error", Broken);
}

#[test]
fn operations_that_do_not_exist_are_found() {
    with_description("\"/api/contact\"", "\"/api/kontakt\"").assert_finds("api-path-missing", Broken);
    with_api("POST", |_, _| content::error(405, "Use PUT.").with("allow", "PUT"))
        .assert_finds("api-path-missing", Broken);
    for status in [301, 302, 308] {
        let site =
            with_api("POST", move |_, _| Answer::new(status, "", "").with("location", "/api/contact/"));
        if status == 308 { site.assert_clean() } else { site.assert_finds("api-path-missing", Broken) }
    }
}

#[test]
fn wrong_answers_to_get_are_found() {
    with_api("GET", |_, _| content::error(500, "x")).assert_finds("api-method-not-allowed", Broken);
    with_api("GET", |_, answer| answer.with("allow", "")).assert_finds("api-method-not-allowed", Advice);
    with_api("GET", |_, _| Answer::new(200, "text/html", "<!doctype html><p>App"))
        .assert_finds("api-method-not-allowed", Advice);
    for action in ["", " action=/api/contact", " action='?lang=en'"] {
        let html = format!("<!doctype html><form method=POST{action}>");
        with_api("GET", move |_, _| Answer::new(200, "text/html", &*html)).assert_clean();
    }
    with_api("GET", |_, _| Answer::new(200, "text/html", "<!doctype html><form method=post action=/login>"))
        .assert_finds("api-method-not-allowed", Advice);
    with_api("GET", |_, _| content::error(404, "x")).assert_clean();
}

#[test]
fn errors_that_are_not_documented_are_found() {
    with_description("\"415\":", "\"418\":").assert_finds("api-error-undocumented", Advice);
    with_description("\"415\":", "\"4XX\":").assert_clean();
    with_description("\"415\":", "\"default\":").assert_clean();
}

#[test]
fn errors_in_another_form_than_documented_are_found() {
    let page = "<!doctype html><title>Error</title><h1>Bad request";
    with_api("POST", move |_, answer| {
        Answer { body: page.into(), ..answer }.with("content-type", "text/html")
    })
    .assert_finds("api-error-format", Broken);
    with_api("POST", |_, answer| Answer { body: b"bad request".to_vec(), ..answer })
        .assert_finds("api-error-format", Broken);
    with_api("POST", |_, answer| answer.replaced("\"error\"", "\"message\""))
        .assert_finds("api-error-format", Advice);
    // The same if the schema is a reference.
    let site = FakeSite::with_fault(|asked, answer| {
        match asked.path() {
        "/openapi.json" => answer
            .replaced("\"schema\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"string\"}}}", "\"schema\":{\"$ref\":\"#/components/schemas/Error\"}")
            .replaced("\"paths\":", "\"components\":{\"schemas\":{\"Error\":{\"required\":[\"reason\"]}}},\"paths\":"),
        _ => answer,
    }
    });
    site.assert_finds("api-error-format", Advice);
}

#[test]
fn credentials_for_any_origin_are_found() {
    let cors = |origin: Option<&'static str>| {
        with_api("OPTIONS", move |asked, answer| {
            let own = asked.header("origin");
            answer
                .with("access-control-allow-origin", origin.unwrap_or(&own))
                .with("access-control-allow-credentials", "true")
        })
    };
    cors(None).assert_finds("api-cors-open", Broken);
    cors(Some("*")).assert_finds("api-cors-open", Advice);
    cors(Some("https://app.example.com")).assert_clean();
    with_api("OPTIONS", |_, answer| answer.with("access-control-allow-origin", "*")).assert_clean();
}

#[test]
fn responses_that_caches_may_store_are_found() {
    with_api("POST", |_, answer| answer.with("cache-control", "public, max-age=600"))
        .assert_finds("api-cacheable", Advice);
    with_api("POST", |_, answer| answer.with("cache-control", "")).assert_clean();
}

#[test]
fn a_valid_submission_is_sent_on_request_only() {
    let options = Options { submits: true, pace: Duration::ZERO, ..Options::default() };
    let site = FakeSite::correct();
    let report = site.audit_with(&options);
    assert!(report.findings.is_empty(), "{}", describe(&report));
    let sent = posts(&site);
    let last = sent.last().expect("a submission");
    assert!(last.body.contains("frontdesk audit") && last.body.contains("@example.com"), "{}", last.body);
    // A parameter is required that the audit does not know.
    let site = with_description("\"operationId\"", "\"parameters\":[{\"required\":true}],\"operationId\"");
    site.audit_with(&options);
    assert!(posts(&site).iter().all(|asked| asked.body.len() <= 2), "{:?}", posts(&site));
    for (status, severity) in [(500, Broken), (422, Advice), (201, Advice)] {
        let site = with_api("POST", move |asked, answer| {
            let is_valid = asked.body.contains("frontdesk audit");
            if is_valid { content::error(status, "x") } else { answer }
        });
        let report = site.audit_with(&options);
        let found: Vec<_> = report.findings.iter().map(|found| (found.rule.id, found.severity)).collect();
        assert_eq!(found, [("api-valid-refused", severity)], "{}", describe(&report));
    }
}

#[test]
fn forms_that_disclose_personal_data_are_found() {
    with_form("<form method=get action=/join><input type=email name=e aria-label=E-mail></form>")
        .assert_finds("form-get-personal-data", Broken);
    with_form("<form action=/join><input type=password name=p aria-label=Password></form>")
        .assert_finds("form-get-personal-data", Advice);
    with_form("<form><input type=email name=e aria-label=E-mail></form>")
        .assert_finds("form-no-method-fallback", Advice);
    with_form("<form action='javascript:send()'><input name=email aria-label=E-mail></form>")
        .assert_finds("form-no-method-fallback", Advice);
    for form in [
        "<form method=post action=/join><input type=email name=e aria-label=E-mail></form>",
        "<form action=/search><input type=search name=q aria-label=Search></form>",
        "<form method=dialog><input type=email name=e aria-label=E-mail></form>",
    ] {
        with_form(form).assert_clean();
    }
}

#[test]
fn redirects_after_invalid_submissions_are_found() {
    for (status, target, severity) in [
        (303, "/about/?sent=1", Some(Broken)),
        (302, "/api/contact?sent=1", Some(Broken)),
        (302, "/about/?error=1", Some(Advice)),
        (302, "/api/contact", None),
        (308, "/about/", None),
    ] {
        let site = with_api("POST", move |asked, answer| match &*asked.header("content-type") {
            "text/plain" => answer,
            _ => Answer::new(status, "", "").with("location", target),
        });
        match severity {
            Some(severity) => site.assert_finds("api-invalid-accepted", severity),
            None => site.assert_clean(),
        }
    }
}

#[test]
fn json_that_is_refused_because_of_a_parameter_is_found() {
    with_api("POST", |asked, answer| match &*asked.header("content-type") {
        "application/json" => answer,
        _ => content::error(415, "Send application/json."),
    })
    .assert_finds("api-charset-refused", Broken);
    // The operation takes no JSON at all.
    let found = with_api("POST", |_, _| content::error(415, "Send a form.")).found_in("forms");
    assert!(found.iter().all(|(rule, _)| *rule != "api-charset-refused"), "{found:?}");
}

#[test]
fn documented_operations_with_get_that_fail_are_found() {
    let site = |answer: Answer| {
        FakeSite::with_fault(move |asked, right| {
            match asked.path() {
            "/openapi.json" => right.replaced(
                "\"paths\":{",
                "\"paths\":{\"/api/a\":{\"get\":{\"parameters\":[{\"required\":true}],\"responses\":{\"200\":{\"content\":{\"a/b\":{}}}}}},\
                 \"/api/list\":{\"get\":{\"responses\":{\"200\":{\"description\":\"x\",\"content\":{\"application/json\":{}}}}}},\
                 \"/api/second\":{\"post\":{\"responses\":{\"200\":{\"description\":\"x\"}}}},",
            ),
            "/api/list" => answer.clone(),
            _ => right,
        }
        })
    };
    let json = |kind: &str| Answer::new(200, kind, "[]");
    let right = site(json("application/json; charset=utf-8"));
    right.assert_clean();
    let requests = right.requests();
    let of_api: Vec<_> = requests.iter().filter(|asked| asked.path().starts_with("/api/")).collect();
    assert!(of_api.len() <= 6 && of_api.iter().all(|asked| asked.path() != "/api/a"), "{of_api:?}");
    for (answer, severity) in [
        (content::error(404, "x"), Broken),
        (content::error(503, "x"), Broken),
        (Answer::new(200, "text/html", "<!doctype html><p>App"), Broken),
        (Answer::new(200, "text/plain", "one, two"), Broken),
        (json("text/json"), Advice),
    ] {
        site(answer).assert_finds("api-get-broken", severity);
    }
    site(content::error(401, "x")).assert_clean();
}
