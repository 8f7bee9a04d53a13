//! Fuzzes front matter: the parser never panics, reports an error for each page that it rejects, and returns
//! the rest of the file as the body.

#![no_main]

use frontdesk_site::fault::Severity;
use frontdesk_site::front_matter::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut faults = Vec::new();
    let parsed = parse("page.md", text, &mut faults);
    if parsed.is_none() {
        assert!(faults.iter().any(|fault| fault.severity == Severity::Error), "a rejection reports an error");
    }
    for fault in &faults {
        assert_eq!(fault.place, "page.md");
        // In YAML, a carriage return also ends a line.
        let lines = text.split(['\r', '\n']).count();
        assert!(fault.line.is_none_or(|line| line >= 1 && line <= lines + 1), "{fault}");
    }
    if let Some(parsed) = parsed {
        assert!(text.ends_with(parsed.body), "the body is the rest of the file");
    }
});
