//! The results on labeled texts in `tests/data/screening/`, a folder for each author: fresh, after lessons,
//! and under attack.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::learned::{Lesson, LessonKind};

/// A labeled text, and the options of the site that it was written to.
struct Text {
    is_spam: bool,
    row: Value,
    options: ScreeningOptions,
}

impl Text {
    fn judge(&self, learned: Option<&Learned>) -> ScreeningVerdict {
        let entry = self.entry();
        let (extras, signals) = (Extras::default(), RequestSignals::default());
        screen_with(&TokenizedText::new(&entry), &extras, &signals, learned, &self.options)
    }

    fn entry(&self) -> Entry {
        parse_with_extras(&CONTACT, self.row.to_string().as_bytes()).unwrap().entry
    }

    /// The lesson as the operator teaches it after the text was screened without learned evidence.
    fn lesson(&self, kind: LessonKind) -> Option<Lesson> {
        let entry = self.entry();
        let points = self.judge(None).text_points();
        let tokens = lesson_tokens(&TokenizedText::new(&entry), points, &self.options.lexicon, &KEY)?;
        Some(Lesson { kind, age: Duration::ZERO, tokens })
    }
}

const KEY: TokenKey = [7; 16];

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/data/screening/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The texts of an author.
fn texts(author: &str) -> Vec<Text> {
    let lexicon = Lexicon::built_in();
    let mut profiles: HashMap<String, Arc<SiteProfile>> = HashMap::new();
    for company in lines(&format!("{author}/companies.jsonl")) {
        let pages = company["pages"].as_array().unwrap();
        let pages = pages.iter().map(|page| page["text"].as_str().unwrap());
        profiles.insert(company["company"].to_string(), Arc::new(SiteProfile::read(&lexicon, pages)));
    }
    let text = |row: Value| {
        let profile = profiles.get(&row["company"].to_string()).cloned().unwrap_or_default();
        let options = ScreeningOptions { profile, ..ScreeningOptions::default() };
        let body = json!({"name": row["name"], "email": row["email"], "message": row["message"], "firstname": row["firstname"],
                          "lastname": row["lastname"], "company": row.get("firstname").map(|_| row["company"].clone())});
        let fields: serde_json::Map<String, Value> =
            body.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
        Text { is_spam: row["label"] == "spam", row: Value::Object(fields), options }
    };
    let texts: Vec<Text> = lines(&format!("{author}/texts.jsonl")).into_iter().map(text).collect();
    assert!(texts.len() > 90, "{author} has {} texts", texts.len());
    texts
}

/// How many texts are [honest, honest and marked or held, honest and held, spam, spam and marked or held].
fn count(texts: &[&Text], learned: Option<&Learned>) -> [usize; 5] {
    let mut counts = [0; 5];
    for text in texts {
        let verdict = text.judge(learned);
        let is_caught = usize::from(verdict.suspicious || verdict.hold);
        if text.is_spam {
            counts[3] += 1;
            counts[4] += is_caught;
        } else {
            counts[0] += 1;
            counts[1] += is_caught;
            counts[2] += usize::from(verdict.hold);
        }
    }
    counts
}

/// The authors of `exam-…` had no part in the lexicon and its points: their shares are in
/// docs/pages/screening.md. The shares of the other authors are too optimistic, and are limited only to
/// notice a change for the worse.
#[test]
fn hardly_any_enquiry_is_marked_and_most_spam_is() {
    // The author, the maximum percentage of honest texts that may be marked, and the minimum percentage of
    // spam that must be.
    for (author, most_wrong, least) in [
        ("tuned", 4, 90),
        ("held-out", 5, 90),
        ("other-hand", 4, 85),
        ("unseen", 4, 85),
        ("fresh", 6, 80),
        ("companies-1", 3, 75),
        ("companies-2", 3, 70),
        ("trades-1", 3, 70),
        ("exam-1", 5, 70),
        ("exam-2", 5, 60),
        ("exam-3", 5, 70),
        ("exam-4", 6, 70),
    ] {
        let texts = texts(author);
        let [honest, wrong, held, spam, caught] = count(&texts.iter().collect::<Vec<_>>(), None);
        println!(
            "{author}: {wrong} of {honest} honest texts are marked or held, {held} held; {caught} of {spam} spam"
        );
        assert!(wrong * 100 <= most_wrong * honest, "{author}: {wrong} of {honest} honest texts");
        assert!(held * 100 <= honest, "{author}: {held} of {honest} honest texts are held");
        assert!(caught * 100 >= least * spam, "{author}: {caught} of {spam} spam");
    }
}

/// Teaches one half of the texts and judges the other half, and then the other way round.
#[test]
fn lessons_keep_honest_messages_out_and_catch_most_spam() {
    let texts: Vec<Text> = ["exam-1", "exam-2", "exam-3", "exam-4"].into_iter().flat_map(texts).collect();
    let mut sums = [0; 5];
    for turn in 0..2 {
        let (taught, others): (Vec<_>, Vec<_>) = texts.iter().enumerate().partition(|(at, _)| at % 2 == turn);
        let lessons: Vec<Lesson> =
            taught.iter().filter_map(|(_, text)| text.lesson(decision(text))).collect();
        let learned = Learned { model: LearnedModel::new(&lessons, 50), key: KEY };
        let others: Vec<&Text> = others.into_iter().map(|(_, text)| text).collect();
        sums.iter_mut().zip(count(&others, Some(&learned))).for_each(|(sum, count)| *sum += count);
    }
    let [honest, wrong, held, spam, caught] = sums;
    println!(
        "after lessons: {wrong} of {honest} honest texts are marked or held, {held} held; {caught} of {spam} spam"
    );
    assert!(wrong * 100 <= 5 * honest && held * 100 <= honest, "{wrong} and {held} of {honest}");
    assert!(caught * 100 >= 80 * spam, "{caught} of {spam}");
}

fn decision(text: &Text) -> LessonKind {
    if text.is_spam { LessonKind::Spam } else { LessonKind::Honest }
}

/// The attacker's texts consist of the words of honest enquiries, and the operator calls all of them spam.
#[test]
fn a_thousand_poisoned_lessons_hold_no_honest_message() {
    let all = texts("unseen");
    let honest: Vec<&Text> = all.iter().filter(|text| !text.is_spam).collect();
    let words: Vec<&str> =
        honest.iter().flat_map(|text| text.row["message"].as_str().unwrap().split_whitespace()).collect();
    let poison = (0..1000).filter_map(|number| {
        let message: Vec<&str> =
            (0..40).map(|at| words[(number * 37 + at * (1 + number % 11)) % words.len()]).collect();
        let row = json!({"name": "Ada", "email": "a@example.com", "message": message.join(" ")});
        Text { is_spam: true, row, options: ScreeningOptions::default() }.lesson(LessonKind::Spam)
    });
    let (taught, others) = honest.split_at(honest.len() / 2);
    let lessons: Vec<Lesson> =
        poison.chain(taught.iter().filter_map(|text| text.lesson(LessonKind::Honest))).collect();
    assert!(lessons.len() > 1000);
    let learned = Learned { model: LearnedModel::new(&lessons, 50), key: KEY };
    let [honest, marked, held, ..] = count(others, Some(&learned));
    assert_eq!(held, 0);
    assert!(marked * 4 <= honest, "{marked} of {honest} are marked");
}

/// The texts of an attacker, who writes with the words of honest enquiries, must not hide spam that the
/// operator has taught as well.
#[test]
fn a_thousand_poisoned_lessons_hide_no_offer() {
    let all = texts("unseen");
    let (spam, honest): (Vec<&Text>, Vec<&Text>) = all.iter().partition(|text| text.is_spam);
    let words: Vec<&str> =
        honest.iter().flat_map(|text| text.row["message"].as_str().unwrap().split_whitespace()).collect();
    let poison = (0..1000).filter_map(|number| {
        let message: Vec<&str> =
            (0..40).map(|at| words[(number * 31 + at * (1 + number % 13)) % words.len()]).collect();
        let row = json!({"name": "Ada", "email": "a@example.com", "message": message.join(" ")});
        Text { is_spam: true, row, options: ScreeningOptions::default() }.lesson(LessonKind::Spam)
    });
    let lessons: Vec<Lesson> = poison
        .chain(honest.iter().take(12).filter_map(|text| text.lesson(LessonKind::Honest)))
        .chain(spam.iter().take(6).filter_map(|text| text.lesson(LessonKind::Spam)))
        .collect();
    let learned = Learned { model: LearnedModel::new(&lessons, 50), key: KEY };
    let (fresh, after) = (count(&spam, None)[4], count(&spam, Some(&learned))[4]);
    assert!(after * 100 >= fresh * 90, "{after} instead of {fresh} of {} are marked", spam.len());
}

/// With lessons of one kind only, the model gives no result, so verdicts do not change.
#[test]
fn lessons_of_one_kind_say_nothing() {
    let texts = texts("unseen");
    let spam = texts.iter().filter(|text| text.is_spam);
    let lessons: Vec<Lesson> = spam.filter_map(|text| text.lesson(LessonKind::Spam)).collect();
    let learned = Learned { model: LearnedModel::new(&lessons, 50), key: KEY };
    for text in &texts {
        assert_eq!(text.judge(Some(&learned)), text.judge(None));
    }
}

/// With few honest lessons beside many spam lessons, rare words must not look honest.
#[test]
fn few_honest_lessons_beside_many_of_spam_hide_no_spam() {
    let others: Vec<Text> = ["exam-2", "exam-3", "exam-4", "unseen"].into_iter().flat_map(texts).collect();
    let (spam, honest): (Vec<&Text>, Vec<&Text>) = others.iter().partition(|text| text.is_spam);
    let exam = texts("exam-1");
    let exam: Vec<&Text> = exam.iter().collect();
    let fresh = count(&exam, None);
    for first in [0, 40, 80] {
        let taught = spam.iter().take(200).chain(honest.iter().skip(first).take(5));
        let lessons: Vec<Lesson> = taught.filter_map(|text| text.lesson(decision(text))).collect();
        assert!(lessons.len() > 190, "{}", lessons.len());
        let learned = Learned { model: LearnedModel::new(&lessons, 50), key: KEY };
        let after = count(&exam, Some(&learned));
        println!("fresh: {fresh:?}, after lessons: {after:?}");
        assert!(after[4] >= fresh[4], "{} instead of {} are caught", after[4], fresh[4]);
        assert!(after[1] * 100 <= 5 * after[0] && after[2] == 0, "{} of {} honest", after[1], after[0]);
    }
}

/// A long honest preface does not hide the words of spam that was taught, nor do they fill its lesson.
#[test]
fn the_end_of_a_long_text_teaches_and_is_recognized() {
    let all = texts("unseen");
    let honest: Vec<&Text> = all.iter().filter(|text| !text.is_spam).collect();
    let preface = |number: usize| -> String {
        let chosen = honest[number * 9..].iter().take(9);
        chosen.map(|text| text.row["message"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
    };
    let text = |message: String| Text {
        is_spam: true,
        row: json!({"name": "Ada", "email": "a@example.com", "message": message}),
        options: ScreeningOptions::default(),
    };
    let curtains = [
        "Velvet curtains by the metre, red and blue, sewn in Ghent and hung by two fitters",
        "The stage needs velvet curtains, heavy, flame retardant, with brass rings and rails",
        "Red velvet, blue velvet, black velvet curtains, all in stock, all sewn in Ghent by hand",
        "Brass rings, rails, weights and velvet curtains from Ghent arrive on one pallet",
        "A theatre in Bruges hung black velvet curtains, sewn in Ghent, with brass rings",
    ];
    let teach = |has_end: bool| {
        let end = |at: usize| if has_end { curtains[at] } else { "" };
        let spam =
            (0..4).filter_map(|at| text(format!("{}\n{}", preface(at), end(at))).lesson(LessonKind::Spam));
        let others = honest[50..].iter().filter_map(|text| text.lesson(LessonKind::Honest));
        let lessons: Vec<Lesson> = spam.chain(others).collect();
        Learned { model: LearnedModel::new(&lessons, 50), key: KEY }
    };
    let tokens = |message: &str| text(message.to_owned()).lesson(LessonKind::Spam).unwrap().tokens.hashes;
    let long = tokens(&format!("{}\n{}", preface(4), curtains[4]));
    assert_eq!(long.len(), learned::MAX_TOKENS);
    for token in tokens(curtains[4]).iter().filter(|token| **token & learned::WORD != 0) {
        assert!(long.contains(token), "the words at the end are tokens");
    }
    let score = |has_end: bool| text(curtains[4].to_owned()).judge(Some(&teach(has_end))).score;
    let (with, without) = (score(true), score(false));
    assert!(with >= without + 20, "{with} and {without}");
}
