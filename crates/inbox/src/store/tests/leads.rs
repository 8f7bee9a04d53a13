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
    let id = fixture.keep_new(&first);
    assert_eq!(fixture.reader().get(id).unwrap().unwrap().lead, first.lead);
    // Another source does not make another submission.
    fixture.keep_again(&from(contact("one"), "/other/", "news.example.com"), id);
    assert_eq!(fixture.reader().get(id).unwrap().unwrap().lead, first.lead);
    let unknown = fixture.keep_new(&contact("two"));
    assert!(fixture.reader().get(unknown).unwrap().unwrap().lead.is_empty());
}

#[test]
fn leads_are_counted_since_a_time_without_held_ones() {
    let fixture = Fixture::new();
    for (n, page) in ["/b/?ref=letter", "/b/?utm_campaign=spring&ref=x", "/a/?ref=letter"].iter().enumerate()
    {
        fixture.keep_new(&from(
            contact(&format!("{n}")),
            page,
            if n == 0 { "" } else { "search.example.com" },
        ));
    }
    let held = fixture.keep_new(&from(contact("held"), "/held/", ""));
    assert!(fixture.editor().hold(held, "wait", contact("x").received_at).unwrap());
    let start = contact("x").received_at;
    let counts = |from, most| fixture.reader().lead_counts(from, most).unwrap();
    let named = |name: &str, count| (name.to_owned(), count);
    let found = counts(start - DAY, 9);
    assert_eq!(found.pages, [named("/b/", 2), named("/a/", 1)]);
    assert_eq!(found.referrers, [named("search.example.com", 2)]);
    assert_eq!(found.campaigns, [named("letter", 2), named("spring", 1)]);
    assert_eq!(counts(start - DAY, 1).pages, [named("/b/", 2)]);
    assert!(counts(start + DAY, 9).is_empty());
}

#[test]
fn an_encrypted_submission_has_its_lead_only_inside() {
    let (secret, public) = generate_key_texts();
    let recipient = Recipient::parse(&public).unwrap();
    let fixture = Fixture::with_options(|options| options.intake.recipient = Some(recipient));
    let sent = from(contact("sesame"), "/sesame/?ref=sesame", "sesame.example.com");
    let id = fixture.keep_new(&sent);
    let mut submission = fixture.reader().get(id).unwrap().unwrap();
    assert!(submission.lead.is_empty() && submission.sealed.is_some());
    assert!(fixture.reader().lead_counts(sent.received_at - DAY, 9).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), secret).unwrap();
    submission.decrypt(&AgeIdentity::read(&folder.path().join("key")).unwrap()).unwrap();
    assert_eq!(submission.lead, sent.lead);
    assert_eq!(submission.fields.len(), 3);
}

#[test]
fn encrypting_later_removes_the_lead_from_the_row() {
    let fixture = Fixture::new();
    let id = fixture.keep_new(&from(contact("later"), "/later/", ""));
    assert!(fixture.runtime.block_on(fixture.store.seal(id, b"sealed".to_vec())).unwrap());
    assert!(fixture.reader().get(id).unwrap().unwrap().lead.is_empty());
}
