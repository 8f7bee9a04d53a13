//! Fuzzes screening: the verdict is deterministic, and its score is the sum of its reasons.

#![no_main]

use std::time::Duration;

use frontdesk_forms::{CONTACT, Extras, parse_with_extras};
use frontdesk_screening::verdict::{ScreeningVerdict, Signal};
use frontdesk_screening::{Origin, Rate, RequestSignals, ScreeningOptions, TokenizedText, screen};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|input: &str| {
    let (name, message) = input.split_once('\n').unwrap_or(("Ada", input));
    let body = json!({"name": name, "email": "ada@example.com", "message": message}).to_string();
    let Ok(parsed) = parse_with_extras(&CONTACT, body.as_bytes()) else { return };
    let options = ScreeningOptions::default();
    let bits = input.len();
    let extras = Extras {
        honeypot: bits & 1 > 0,
        time_to_fill: (bits & 2 > 0).then(|| Duration::from_millis(bits as u64)),
    };
    let signals = RequestSignals {
        rate: Rate::most_used([(30, 30), (300 - u32::try_from(bits % 300).unwrap_or_default(), 300)]),
        repeats: u32::try_from(bits % 7).unwrap_or_default(),
        origin: Origin::classify(Some(name), None, &["https://www.example.com"]),
        agent: None,
    };
    let verdict = screen(&TokenizedText::new(&parsed.entry), &extras, &signals, &options);
    assert_eq!(
        verdict,
        screen(&TokenizedText::new(&parsed.entry), &extras, &signals, &options),
        "the same verdict each time"
    );
    check(&verdict);
    assert_eq!(verdict.reasons.iter().any(|reason| reason.signal == Signal::Honeypot), extras.honeypot);

    let plain =
        screen(&TokenizedText::new(&parsed.entry), &Extras::default(), &RequestSignals::default(), &options);
    assert!(plain.score <= verdict.score, "signals from the request never lower the score");
    let linked = json!({"name": name, "email": "ada@example.com", "message": format!("{message} https://www.example.com/a")});
    if let Ok(linked) = parse_with_extras(&CONTACT, linked.to_string().as_bytes()) {
        let linked = screen(
            &TokenizedText::new(&linked.entry),
            &Extras::default(),
            &RequestSignals::default(),
            &options,
        );
        assert!(linked.score >= plain.score, "a link never lowers the score");
    }
});

fn check(verdict: &ScreeningVerdict) {
    assert_eq!(verdict.score, verdict.reasons.iter().map(|reason| reason.points).sum::<u32>());
    let of_rate = verdict.reasons.iter().find(|reason| reason.signal == Signal::Rate);
    let without_rate = verdict.score - of_rate.map_or(0, |reason| reason.points);
    assert_eq!(verdict.hold, without_rate >= verdict.threshold);
    assert!(!(verdict.hold && verdict.suspicious));
    assert!(verdict.reasons.is_sorted_by(|a, b| a.points >= b.points));
    assert!(!verdict.because().contains(char::is_control), "one line");
    for reason in &verdict.reasons {
        assert!(reason.points > 0 && !reason.detail.is_empty());
        assert_eq!(Signal::from_name(reason.signal.name()), Some(reason.signal));
    }
}
