//! Tests of the results of screening.

use super::*;
use frontdesk_limits::source::RefusedRequests;
use frontdesk_screening::verdict::Signal;

#[test]
fn a_listing_has_the_results_of_screening() {
    let inbox = held();
    let (_, out, _) = inbox.run("list --json");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&object["_score"], &object["_agent"]), (&60.into(), &"agent.example.com".into()));
    let reasons = r#"[{"signal":"links","points":60,"detail":"4 links"}]"#;
    assert_eq!(object["_reasons"].to_string(), reasons);
    assert!(object.get("_released_at").is_none());
    assert!(
        inbox.run("export --csv --all").1.ends_with(",60,links 60: 4 links,agent.example.com,,,,,,,\r\n")
    );
    assert!(inbox.run("list").1.contains("\t[links] · via agent.example.com · Ada"));
    inbox.run("release --all");
    let (_, out, _) = inbox.run(&format!("show --json {}", object["id"].as_str().unwrap()));
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["_released_at"], "2026-11-20T16:03:05.120Z");
    assert_eq!((object["_reasons"].to_string().as_str(), object.get("_held")), (reasons, None));
}

#[test]
fn stats_show_rate_limited_sources() {
    let inbox = held();
    inbox.work(
        |_| {},
        |store, runtime| {
            let refused =
                RefusedRequests { source: Some(Source::V4([192, 0, 2, 1])), form: "contact", count: 7 };
            let today = "2026-11-20".parse().unwrap();
            runtime.block_on(store.record_refusals(vec![refused], today)).unwrap();
        },
    );
    inbox.run("release --all");
    let (code, out, err) = inbox.run("stats --abuse --json --days 1");
    assert_eq!((code, err.as_str()), (ExitCode::SUCCESS, ""));
    let abuse: Value = serde_json::from_str(&out).unwrap();
    let listed: Value = serde_json::from_str(&inbox.run("list --json").1).unwrap();
    assert_eq!(abuse["sources"][0]["source"], listed["_source"]);
    assert_eq!((&abuse["sources"][0]["refused"], &abuse["signals"][0]["released"]), (&7.into(), &1.into()));
    let (_, out, _) = inbox.run("stats --abuse");
    assert!(out.starts_with("Since 2026-10-22: 1 submission, 1 held by screening (1 released), 7 "), "{out}");
    assert_eq!(Inbox::empty().run("stats --abuse").0, ExitCode::SUCCESS);
}

/// One submission that screening has held.
fn held() -> Inbox {
    let inbox = Inbox::empty();
    inbox.work(
        |_| {},
        |store, runtime| {
            let body = r#"{"name":"Ada","email":"ada@example.com","message":"Hello"}"#;
            let arrival = Arrival {
                entry: parse(&CONTACT, body.as_bytes()).unwrap(),
                idempotency_key: None,
                source: Source::V4([192, 0, 2, 1]),
                received_at: "2026-11-20T14:03:05.12Z".parse().unwrap(),
                evidence: Evidence::Verdict(ScreeningVerdict::default()),
                agent: Some("agent.example.com".to_owned()),
                lead: frontdesk_forms::LeadSource::default(),
            };
            runtime
                .block_on(store.accept_and_process(arrival.held_for(&[(Signal::Links, "4 links")])))
                .unwrap();
        },
    );
    inbox
}
