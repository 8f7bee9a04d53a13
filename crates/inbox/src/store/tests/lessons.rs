//! Lessons from operators' decisions, and how they change later verdicts.

use std::collections::BTreeMap;

use super::screened::sealing;
use super::*;
use crate::change::Changes;
use frontdesk_screening::learned::LessonKind;
use frontdesk_screening::{Lexicon, RequestFacts, ScreeningOptions, TokenizedText, lesson_tokens};

fn now() -> Timestamp {
    "2026-11-20T15:00:00Z".parse().unwrap()
}

/// A submission that the processor screens.
fn fresh(text: &str) -> Arrival {
    Arrival { evidence: Evidence::Facts(RequestFacts::default()), ..contact(text) }
}

/// Texts about velvet curtains that the phrases of the lexicon know nothing of.
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

fn dull_offer(number: usize) -> String {
    format!("{} ({number})", OFFERS[number % OFFERS.len()])
}

fn honest(number: usize) -> String {
    format!("{} ({number})", QUESTIONS[number % QUESTIONS.len()])
}

fn lessons(fixture: &Fixture) -> Vec<LessonKind> {
    let lessons = fixture.reader().lessons(None, now()).unwrap().unwrap();
    lessons.lessons.iter().map(|lesson| lesson.kind).collect()
}

#[test]
fn each_decision_teaches_and_a_later_one_replaces_it() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    let mut changes = Changes::open(&fixture.options.url, &reader, "ada").unwrap();
    let id = fixture.accept_new(&fresh(&honest(1)));
    assert_eq!(lessons(&fixture), []);
    changes.set_done(id, true, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::WeakHonest]);
    changes.set_done(id, false, now()).unwrap();
    assert_eq!(lessons(&fixture), []);
    changes.editor.set_replied(id, true, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::WeakHonest]);
    changes.set_done(id, true, now()).unwrap();
    changes.set_done(id, false, now()).unwrap();
    assert_eq!(
        lessons(&fixture),
        [LessonKind::WeakHonest],
        "an open submission keeps the lesson of its reply"
    );
    changes.set_done(id, true, now()).unwrap();
    changes.editor.set_replied(id, false, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::WeakHonest], "it is still done");
    changes.set_done(id, false, now()).unwrap();
    assert_eq!(lessons(&fixture), []);
    changes.editor.set_replied(id, true, now()).unwrap();
    changes.editor.mark_spam(id, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::Spam]);
    changes.editor.set_replied(id, false, now()).unwrap();
    changes.set_done(id, true, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::Spam], "weak evidence does not replace a decision");
    changes.editor.mark_ham(id, &[], now()).unwrap();
    assert_eq!((lessons(&fixture), fixture.status(id)), (vec![LessonKind::Honest], Status::Kept));
    assert_eq!(changes.editor.mark_ham(Uuid::max(), &[], now()).unwrap(), Annotated::Missing);
}

#[test]
fn undoing_a_mark_removes_its_lesson_and_restores_a_weak_one() {
    let fixture = Fixture::new();
    let reader = fixture.reader();
    let mut changes = Changes::open(&fixture.options.url, &reader, "ada").unwrap();
    let (first, replied) = (fixture.accept_new(&fresh(&honest(1))), fixture.accept_new(&fresh(&honest(2))));
    assert_eq!(changes.editor.undo_spam(first, &[], now()).unwrap(), Annotated::Unchanged);
    changes.editor.mark_spam(first, now()).unwrap();
    assert_eq!((lessons(&fixture), fixture.status(first)), (vec![LessonKind::Spam], Status::Held));
    assert_eq!(changes.editor.undo_spam(first, &[], now()).unwrap(), Annotated::Changed);
    assert_eq!((lessons(&fixture), fixture.status(first)), (vec![], Status::Kept));
    // A reply had taught weakly before.
    changes.editor.set_replied(replied, true, now()).unwrap();
    changes.editor.mark_spam(replied, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::Spam], "one submission has one lesson");
    changes.editor.undo_spam(replied, &[], now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::WeakHonest]);
    // Screening held this one, and a repeat released it.
    let repeated = fixture.accept_new(&contact(&honest(3)).held_for(&[(Signal::Links, "4 links")]));
    fixture.sql("UPDATE submission SET held_at = NULL, released_at = 1 WHERE withheld = 1");
    changes.editor.mark_spam(repeated, now()).unwrap();
    changes.editor.undo_spam(repeated, &[], now()).unwrap();
    assert_eq!((lessons(&fixture), fixture.status(repeated)), (vec![LessonKind::WeakHonest], Status::Kept));
    assert_eq!(changes.editor.undo_spam(Uuid::max(), &[], now()).unwrap(), Annotated::Missing);
}

/// Screening finds the features of the site's own phrases, so lessons must have them, too.
#[test]
fn decisions_teach_with_the_phrases_of_the_site() {
    let own = "[phrases]\nneed = [\"velvet =4\"]\nask = [\"curtain =4\"]";
    let own = BTreeMap::from([("own.toml".to_owned(), own.to_owned())]);
    let lexicon = Arc::new(Lexicon::with_files(&own).unwrap());
    let fixture = Fixture::new();
    let id = fixture.accept_new(&fresh(&dull_offer(0)));
    let tokens = |editor: &mut Editor| {
        editor.set_spam(id, true, now()).unwrap();
        let lessons = fixture.reader().lessons(None, now()).unwrap().unwrap();
        (lessons.lessons[0].tokens.clone(), lessons.key)
    };
    let (built_in, _) = tokens(&mut fixture.editor());
    let (with_own, key) = tokens(&mut fixture.editor().teaching_with(&lexicon));
    assert_ne!(built_in, with_own);
    // They are the tokens with which screening compares the text.
    let entry = fresh(&dull_offer(0)).entry;
    let text = TokenizedText::new(&entry);
    let points = u32::from(with_own.points);
    assert_eq!(lesson_tokens(&text, points, &lexicon, &key).unwrap(), with_own);
}

#[test]
fn a_release_teaches_if_screening_held_and_a_discards_lesson_stays() {
    let fixture = Fixture::new();
    let held = |text: &str| contact(text).held_for(&[(Signal::Links, "4 links")]);
    let (released, discarded) =
        (fixture.accept_new(&held(&honest(1))), fixture.accept_new(&held(&dull_offer(1))));
    let by_hand = fixture.accept_new(&fresh(&honest(2)));
    let mut editor = fixture.editor();
    assert!(editor.hold(by_hand, "odd", now()).unwrap());
    assert!(editor.release(by_hand, &[], now()).unwrap());
    assert_eq!(lessons(&fixture), [], "screening did not hold it");
    assert!(editor.release(released, &[], now()).unwrap());
    assert_eq!(lessons(&fixture), [LessonKind::Honest]);
    assert!(editor.hold(released, "after all", now()).unwrap());
    assert_eq!(lessons(&fixture), [], "the release was taken back");
    assert_eq!(editor.discard(&[discarded, released], now()).unwrap().submissions, 2);
    assert_eq!(lessons(&fixture), [LessonKind::Spam, LessonKind::Spam]);
    assert_eq!(editor.erase("ada@example.com").unwrap().submissions, 1);
    assert_eq!(lessons(&fixture), [], "erasing a person removes the lessons of removed submissions, too");
}

/// A flood is held because of its rate, which says nothing about the texts.
#[test]
fn the_release_or_discard_of_a_flood_teaches_nothing() {
    let fixture = Fixture::new();
    let held = |text: &str| fixture.accept_new(&contact(text).held_for(&[(Signal::FormRate, "the quota")]));
    let [released, discarded, done] = [1, 2, 3].map(|number| held(&honest(number)));
    fixture.sql("UPDATE submission SET flood = 1");
    let reader = fixture.reader();
    let mut changes = Changes::open(&fixture.options.url, &reader, "ada").unwrap();
    assert!(changes.editor.release(released, &[], now()).unwrap());
    assert_eq!(changes.editor.discard(&[discarded], now()).unwrap().submissions, 1);
    assert_eq!(lessons(&fixture), []);
    changes.set_done(done, true, now()).unwrap();
    assert_eq!(lessons(&fixture), [LessonKind::WeakHonest]);
    assert!(changes.editor.hold(done, "odd", now()).unwrap());
    assert_eq!(lessons(&fixture), [], "the operator holds it now");
    // Neither does a decision about it after the flood, unless the operator judges the text.
    assert!(changes.editor.hold(released, "odd", now()).unwrap());
    assert!(changes.editor.release(released, &[], now()).unwrap());
    assert_eq!(lessons(&fixture), []);
    changes.editor.mark_spam(released, now()).unwrap();
    let decisions = fixture.abuse("1970-01-01").decisions;
    assert_eq!((decisions.held_spam, decisions.missed_spam), (0, 1), "screening did not hold it");
}

#[test]
fn a_lesson_has_no_readable_word_and_is_not_made_from_encrypted_ones() {
    let fixture = Fixture::in_file();
    let id = fixture.accept_new(&fresh("Sesame opens the cave of the forty thieves"));
    fixture.editor().set_spam(id, true, now()).unwrap();
    let connection = rusqlite::Connection::open(fixture.options.url.file().unwrap()).unwrap();
    let tokens: Vec<u8> = connection.query_row("SELECT tokens FROM lesson", [], |row| row.get(0)).unwrap();
    assert!(tokens.len() > 4 * 15, "words and pairs: {}", tokens.len());
    assert!(!tokens.windows(6).any(|window| window.eq_ignore_ascii_case(b"sesame")));
    let sealed = sealing(&[]);
    let id = sealed.accept_new(&fresh("Sesame opens the cave of the forty thieves"));
    sealed.editor().set_spam(id, true, now()).unwrap();
    assert_eq!(lessons(&sealed), []);
}

#[test]
fn what_was_taught_adds_points_but_never_holds_alone() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor();
    for number in 0..8 {
        let (offer, question) =
            (fixture.accept_new(&fresh(&dull_offer(number))), fixture.accept_new(&fresh(&honest(number))));
        editor.set_spam(offer, true, now()).unwrap();
        editor.set_spam(question, false, now()).unwrap();
    }
    // The processor looks for new lessons once a second.
    std::thread::sleep(Duration::from_millis(1100));
    let like_spam = fixture.get(
        fixture.accept_new(&fresh("Blue velvet curtains for the stage, sewn in Ghent, with brass rings")),
    );
    let screening = like_spam.screening.unwrap();
    let learned = screening.reasons.iter().find(|reason| reason.signal == Signal::Learned);
    assert!(learned.is_some_and(|reason| reason.points > 20) && like_spam.held.is_none(), "{screening:?}");
    let like_honest = fixture
        .get(fixture.accept_new(&fresh("Does the orchestra have a place for my daughter with her flute?")))
        .screening
        .unwrap();
    assert!(!like_honest.suspicious, "{like_honest:?}");
    // Learning is switched off: what was taught does not count, and nothing is taught.
    let mut options = fixture.options.clone();
    options.intake.screening = ScreeningOptions { learn: false, ..ScreeningOptions::default() };
    fixture.store.reconfigure(&options);
    std::thread::sleep(Duration::from_millis(1100));
    let unlearned = fixture
        .get(fixture.accept_new(&fresh("Black velvet curtains, sewn in Ghent, with rails")))
        .screening
        .unwrap();
    assert!(!unlearned.suspicious);
    editor.set_spam(fixture.accept_new(&fresh(&dull_offer(79))), true, now()).unwrap();
    assert_eq!(lessons(&fixture).len(), 16);
}

#[test]
fn old_lessons_expire_and_a_discard_teaches_a_bounded_number() {
    let fixture = Fixture::new();
    let held = |text: &str| contact(text).held_for(&[(Signal::Links, "4 links")]);
    for number in 0..40 {
        fixture.accept_new(&held(&dull_offer(number)));
    }
    assert_eq!(fixture.editor().discard_held(&HeldFilter::default(), now()).unwrap().submissions, 40);
    let taught = lessons(&fixture).len();
    assert_eq!(taught, 20);
    let expire = |at: Timestamp| fixture.store.change_blocking(move |tx| tx.expire_lessons(at)).unwrap();
    expire(now() + Duration::from_hours(24 * 700));
    assert_eq!(lessons(&fixture).len(), taught);
    expire(now() + Duration::from_hours(24 * 731));
    assert_eq!(lessons(&fixture), []);
}
