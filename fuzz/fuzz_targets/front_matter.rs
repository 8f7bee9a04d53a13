//! Front matter, as an operator writes it or another generator has left it: faults, never a panic, and what is read is usable.

#![no_main]

use frontdesk::fault::Severity;
use frontdesk::pages::front_matter::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut faults = Vec::new();
    let parsed = parse("page.md", text, &mut faults);
    if parsed.is_none() {
        assert!(
            faults.iter().any(|fault| fault.severity == Severity::Error),
            "nothing is refused without a word"
        );
    }
    for fault in &faults {
        assert_eq!(fault.place, "page.md");
        // For YAML a carriage return ends a line as well.
        let lines = text.split(['\r', '\n']).count();
        assert!(fault.line.is_none_or(|line| line >= 1 && line <= lines + 1), "{fault}");
    }
    if let Some(parsed) = parsed {
        assert!(text.ends_with(parsed.body), "what follows it is the page");
    }
});
