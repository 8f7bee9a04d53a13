//! Operators' decisions change how the server screens later submissions.

use serde_json::{Value, json};

use super::{NO_LIMITS, command, post};
use crate::support::channel_site::until;
use crate::support::{TestServer, small_site};

/// Texts about velvet curtains, which no phrase of the lexicon knows.
const OFFERS: [&str; 8] = [
    "Velvet curtains by the metre, red and blue, sewn in Ghent",
    "The stage needs velvet: heavy curtains, flame retardant, with brass rings",
    "Old curtains fade. Velvet curtains from Ghent hang for thirty years",
    "Red velvet, blue velvet, black velvet, all in stock, all sewn by hand",
    "Curtains for theatres, halls and schools, velvet or satin, hung by two fitters",
    "Brass rings, rails, weights and velvet curtains arrive on one pallet",
    "A theatre in Bruges took black velvet curtains last spring and wrote a kind letter",
    "Satin tears and velvet stays: curtains of 500 grams, lined with cotton",
];

const QUESTIONS: [&str; 8] = [
    "My child plays the piano and wants to join the orchestra on Monday",
    "Is the orchestra rehearsal on Tuesday open to parents of small children?",
    "The violin of my daughter needs new strings before the rehearsal",
    "When does the youth orchestra start again after the holidays?",
    "We forgot a flute in the rehearsal room on Friday, has anybody found it?",
    "My son is nine and plays the drum, is he too young for the orchestra?",
    "Can a beginner on the cello come to the rehearsal and listen?",
    "The orchestra played so well on Sunday that my mother cried",
];

/// Sends a message, and returns the submission.
fn send(server: &TestServer, number: usize, message: &str) -> Value {
    let email = format!("visitor{number}@example.com");
    let body = json!({ "name": "Ada Lovelace", "email": email, "message": message });
    assert_eq!(post(server, &body, &[]).status, 200);
    find(server, &email)
}

fn find(server: &TestServer, email: &str) -> Value {
    server.inbox().into_iter().find(|submission| submission["email"] == email).expect("it is kept")
}

fn id(submission: &Value) -> &str {
    submission["id"].as_str().expect("an id")
}

fn decisions(server: &TestServer) -> Value {
    let abuse: Value = serde_json::from_str(&command(server, &["stats", "--abuse", "--json"])).expect("JSON");
    abuse["decisions"].clone()
}

fn has_learned(submission: &Value) -> bool {
    let mut reasons = submission["_reasons"].as_array().expect("reasons").iter();
    reasons.any(|reason| reason["signal"] == "learned")
}

#[test]
fn what_the_operator_calls_spam_is_held_and_marks_the_next_one() {
    let server = TestServer::with(&small_site(), &[NO_LIMITS]);
    server.expect_anything();
    // Half of the points of a mark, for the short link.
    let offer = |number: usize| {
        format!(
            "Blue velvet curtains for stage {number}, sewn in Ghent, with brass rings and rails: https://bit.ly/ghent"
        )
    };
    let fresh = send(&server, 100, &offer(100));
    assert_eq!((&fresh["_suspicious"], &fresh["_score"]), (&json!(false), &json!(25)), "{fresh}");
    let submissions: Vec<(Value, Value)> = (0..8)
        .map(|at| (send(&server, 2 * at, OFFERS[at]), send(&server, 2 * at + 1, QUESTIONS[at])))
        .collect();
    let said = command(&server, &["spam", id(&submissions[0].0)]);
    assert_eq!(said, format!("{} is marked as spam.\n", id(&submissions[0].0)));
    assert_eq!(find(&server, "visitor0@example.com")["status"], "held");
    assert_eq!(
        command(&server, &["spam", id(&submissions[0].0)]),
        format!("{} is already marked as spam.\n", id(&submissions[0].0))
    );
    let others: Vec<&str> = submissions[1..].iter().map(|(offer, _)| id(offer)).collect();
    command(&server, &[&["spam"], &others[..]].concat());
    let questions: Vec<&str> = submissions.iter().map(|(_, question)| id(question)).collect();
    let said = command(&server, &[&["ham"], &questions[..]].concat());
    let expected = "was not marked or held as spam; screening learns that it is not spam.";
    assert_eq!(said.lines().filter(|line| line.ends_with(expected)).count(), 8, "{said}");
    // Screening delivered all of them: it missed eight.
    assert_eq!(
        decisions(&server),
        json!({ "marked_spam": 0, "marked_honest": 0, "held_spam": 0, "held_honest": 0, "missed_spam": 8 })
    );
    let mut number = 200;
    let like_spam = until(|| {
        number += 1;
        Some(send(&server, number, &offer(number))).filter(has_learned)
    });
    let like_spam = like_spam.expect("the lessons are used");
    assert_eq!(
        (&like_spam["_suspicious"], &like_spam["status"]),
        (&json!(true), &json!("kept")),
        "{like_spam}"
    );
    let like_honest =
        send(&server, 300, "Does the orchestra have a place for my daughter with her flute on Monday?");
    assert_eq!(like_honest["_suspicious"], false, "{like_honest}");
    // The marked one was spam, too.
    command(&server, &["spam", id(&like_spam)]);
    let text = command(&server, &["stats", "--abuse"]);
    assert!(
        text.contains("1 of 1 marked were spam (100 %)")
            && text.contains("8 spam messages delivered unmarked"),
        "{text}"
    );
}

#[test]
fn ham_releases_what_screening_held_and_is_its_only_lesson() {
    let server = TestServer::with(&small_site(), &[NO_LIMITS]);
    server.expect(1);
    assert_eq!(post(&server, &super::spam(1), &[]).status, 200);
    let held = find(&server, "offer1@mailinator.com");
    assert_eq!(held["status"], "held", "{held}");
    let counts = |held_spam: usize, held_honest: usize| {
        json!({ "marked_spam": 0, "marked_honest": 0, "held_spam": held_spam, "held_honest": held_honest,
                "missed_spam": 0 })
    };
    command(&server, &["spam", id(&held)]);
    assert_eq!(decisions(&server), counts(1, 0));
    let said = command(&server, &["ham", id(&held)]);
    assert_eq!(said, format!("{} is no longer spam.\n", id(&held)));
    assert_eq!(find(&server, "offer1@mailinator.com")["status"], "kept");
    assert_eq!(decisions(&server), counts(0, 1), "the later decision replaces the earlier one");
}
