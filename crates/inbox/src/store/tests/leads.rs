//! The source of a lead is stored, counted, encrypted and copied with its submission.

use super::*;
use crate::testing::generate_key_texts;
use frontdesk_age::{AgeIdentity, Recipient};
use frontdesk_forms::LeadSource;

fn lead(page: &str, referrer: &str) -> LeadSource {
    let mut lead = LeadSource::default();
    lead.complete_from(page);
    lead.set("referrer", referrer);
    lead
}

fn from(arrival: Arrival, page: &str, referrer: &str) -> Arrival {
    Arrival { lead: lead(page, referrer), ..arrival }
}

#[test]
fn the_source_of_a_lead_stays_with_its_submission() {
    let fixture = Fixture::new();
    let first = from(contact("one"), "/pricing/?utm_source=\"x\"'&ref=ü", "search.example.com");
    let id = fixture.accept_new(&first);
    assert_eq!(fixture.reader().get(id).unwrap().unwrap().lead, first.lead);
    // Another source does not make another submission.
    fixture.accept_repeat(&from(contact("one"), "/other/", "news.example.com"), id);
    assert_eq!(fixture.reader().get(id).unwrap().unwrap().lead, first.lead);
    let unknown = fixture.accept_new(&contact("two"));
    assert!(fixture.reader().get(unknown).unwrap().unwrap().lead.is_empty());
}

#[test]
fn leads_are_counted_since_a_time_without_held_ones() {
    let fixture = Fixture::new();
    for (n, page) in ["/b/?ref=letter", "/b/?utm_campaign=spring&ref=x", "/a/?ref=letter"].iter().enumerate()
    {
        fixture.accept_new(&from(
            contact(&format!("{n}")),
            page,
            if n == 0 { "" } else { "search.example.com" },
        ));
    }
    let held = fixture.accept_new(&from(contact("held"), "/held/", ""));
    assert!(fixture.editor().hold(held, "wait", contact("x").received_at).unwrap());
    let start = contact("x").received_at;
    let counts = |from, most| fixture.reader().lead_counts(from, start + 2 * DAY, most).unwrap();
    let named = |name: &str, count| (name.to_owned(), count);
    let found = counts(start - DAY, 9);
    assert_eq!(found.pages, [named("/b/", 2), named("/a/", 1)]);
    assert_eq!(found.referrers, [named("search.example.com", 2)]);
    assert_eq!(found.campaigns, [named("letter", 2), named("spring", 1)]);
    assert_eq!(counts(start - DAY, 1).pages, [named("/b/", 2)]);
    assert!(counts(start + DAY, 9).is_empty() && !found.is_cut);
    assert!(fixture.reader().lead_counts(start - DAY, start, 9).unwrap().is_empty());
}

#[test]
fn leads_are_counted_by_form_in_each_period_without_held_ones() {
    let fixture = Fixture::new();
    let start = contact("x").received_at;
    fixture.accept_new(&contact("first"));
    fixture.accept_new(&contact("spam").held_for(&[(Signal::Links, "odd")]));
    fixture.accept_new(&later(&contact("second"), DAY));
    fixture.accept_new(&later(&waitlist("ada@example.com"), DAY));
    fixture.accept_new(&later(&waitlist("eve@example.com"), DAY + Duration::from_hours(23)));
    let count = |bounds: &[Timestamp]| fixture.reader().leads_by_form(bounds).unwrap();
    let named = |form: &str, counts: &[usize]| (form.to_owned(), counts.to_vec());
    let found = count(&[start - DAY, start, start + DAY, start + 2 * DAY]);
    assert_eq!(found, [named("contact", &[0, 1, 1]), named("waitlist", &[0, 0, 2])]);
    assert_eq!(count(&[start + DAY, start + DAY]), [named("contact", &[0]), named("waitlist", &[0])]);
    assert_eq!(count(&[start]), []);
}

#[test]
fn only_the_sources_of_the_newest_leads_are_counted() {
    let fixture = Fixture::new();
    let start = contact("x").received_at;
    fixture.accept_new(&from(contact("old"), "/old/", ""));
    add_leads(&fixture, MAX_LEADS - 1, start + DAY);
    let counts = || fixture.reader().lead_counts(start - DAY, start + 9 * DAY, 9).unwrap();
    let page = |page: &str, count| (page.to_owned(), count);
    assert_eq!(counts().pages, [page("/1/", 9999), page("/old/", 1)]);
    add_leads(&fixture, 5, start + 2 * DAY);
    assert_eq!((counts().pages, counts().is_cut), (vec![page("/1/", MAX_LEADS)], true));
}

/// Adds copies of the first submission, one each second from `start` on.
fn add_leads(fixture: &Fixture, count: usize, start: Timestamp) {
    let first = start.as_millisecond();
    let id = match fixture.options.url {
        DatabaseUrl::Sqlite(_) => format!("unhex(printf('%012x7%019x', {first} + n * 1000, n))"),
        DatabaseUrl::Postgres(_) => format!(
            "CAST(lpad(to_hex({first} + n * 1000), 12, '0') || '7' || lpad(to_hex(n), 19, '0') AS uuid)"
        ),
    };
    fixture.sql(&format!(
        "INSERT INTO submission (id, form, received_at, source, fields, lead)
         WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count}),
         example (form, source, fields) AS (SELECT form, source, fields FROM submission ORDER BY id LIMIT 1)
         SELECT {id}, form, {first} + n * 1000, source, fields, '{{\"page\":\"/1/\"}}' FROM number, example"
    ));
}

#[test]
fn an_encrypted_submission_has_its_lead_only_inside() {
    let (secret, public) = generate_key_texts();
    let recipient = Recipient::parse(&public).unwrap();
    let fixture = Fixture::with_options(|options| options.intake.recipient = Some(recipient));
    let sent = from(contact("sesame"), "/sesame/?ref=sesame", "sesame.example.com");
    let id = fixture.accept_new(&sent);
    let mut submission = fixture.reader().get(id).unwrap().unwrap();
    assert!(submission.lead.is_empty() && submission.sealed.is_some());
    assert!(fixture.reader().lead_counts(sent.received_at - DAY, Timestamp::MAX, 9).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), secret).unwrap();
    submission.decrypt(&AgeIdentity::read(&folder.path().join("key")).unwrap()).unwrap();
    assert_eq!(submission.lead, sent.lead);
    assert_eq!(submission.fields.len(), 3);
}

#[test]
fn encrypting_later_removes_the_lead_from_the_row() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&from(contact("later"), "/later/", ""));
    assert!(fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
    assert!(fixture.reader().get(id).unwrap().unwrap().lead.is_empty());
}

/// Prints how long the queries of the statistics page take with 100,000 leads and a year of page views.
#[test]
#[ignore = "a measurement; run by `scripts/bench statistics`"]
fn durations_of_the_statistics_queries() {
    const DAYS: i32 = 365;
    let fixture = Fixture::open(Fresh::place, |_| {});
    let start = contact("x").received_at;
    fixture.accept_new(&from(contact("old"), "/old/", ""));
    for part in 0..10 {
        add_leads(&fixture, 10_000, start + DAY * (36 * part));
    }
    fixture.sql("UPDATE submission SET form = 'waitlist' WHERE received_at % 3000 < 1000");
    let first = views::date(20_777);
    fixture.sql(&format!(
        "INSERT INTO page_view (day, path, representation, agent, views)
         WITH RECURSIVE day (d) AS (SELECT 20777 UNION ALL SELECT d + 1 FROM day WHERE d < 20777 + {DAYS}),
         page (p) AS (SELECT 0 UNION ALL SELECT p + 1 FROM page WHERE p < 29),
         kind (r, a) AS (VALUES ('html', 'browser'), ('html', 'GPTBot'), ('markdown', 'ClaudeBot'),
             ('html', 'Googlebot'), ('html', 'other bot'), ('markdown', 'tool'))
         SELECT d, '/documentation/chapter-' || p || '/', r, a, 7 FROM day, page, kind"
    ));
    fixture.sql("ANALYZE");
    let reader = fixture.reader();
    let months: Vec<Timestamp> = (0..13).map(|month| start + DAY * (30 * month)).collect();
    let days: Vec<Timestamp> = (0..181).map(|day| start + DAY * day).collect();
    let filter = |from| ViewFilter { from, ..views::view_filter(0) };
    for _ in 0..3 {
        let time = |what: &str, read: &dyn Fn()| {
            let began = std::time::Instant::now();
            read();
            println!("{what}: {:.1?}", began.elapsed());
        };
        time("leads by month", &|| assert!(!reader.leads_by_form(&months).unwrap().is_empty()));
        time("leads by day", &|| assert!(!reader.leads_by_form(&days).unwrap().is_empty()));
        time("sources", &|| assert!(reader.lead_counts(start, start + DAY * 366, 9).unwrap().is_cut));
        time("first day", &|| assert!(reader.first_view_day(first, 40_000).unwrap() > first));
        let cut = reader.first_view_day(first, 40_000).unwrap();
        time("views by day", &|| assert!(!reader.view_days(&filter(cut)).unwrap().is_empty()));
        time("views by page", &|| assert!(reader.viewed_pages(&filter(cut)).unwrap().0 > 0));
        time("a report of a year", &|| assert!(reader.page_views(&filter(first)).unwrap().total.all > 0));
    }
}
