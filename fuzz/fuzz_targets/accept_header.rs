//! Fuzzes `Accept` and `Accept-Encoding`: each line of the input is a header line.
//!
//! Uses the input twice: as raw bytes, to check general properties; and as a seed for a well-formed header,
//! to compare the choice with that of a simple reference implementation.

#![no_main]

use frontdesk_negotiate::{Codings, Encoding, Media, choose};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    laws(input);
    encoding_laws(input);
    rule(input);
});

fn laws(input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let chosen = choose(lines.iter().copied());

    let upper = input.to_ascii_uppercase();
    assert_eq!(choose(upper.split(|byte| *byte == b'\n')), chosen, "case does not matter");

    let with_malformed = lines.iter().copied().chain([b"nonsense, /, text/html;q=oops".as_slice()]);
    assert_eq!(choose(with_malformed), chosen, "a malformed member does not affect others");

    // Skip inputs with quotes: after joining, a quoted string could continue in the next line.
    if !input.contains(&b'"') {
        assert_eq!(choose([lines.join(b", ".as_slice()).as_slice()]), chosen, "header lines can be joined");
    }

    let readable = choose(lines.iter().copied().chain([b"image/png".as_slice()]));
    assert!(
        readable == chosen || (readable.is_none() && chosen == Some(Media::Html)),
        "an unavailable type has no effect"
    );

    let names = |name: &[u8]| upper.windows(name.len()).any(|part| part == name);
    let wildcard = names(b"*/*") || names(b"TEXT/*");
    match readable {
        Some(Media::Markdown) => {
            assert!(wildcard || names(b"TEXT/MARKDOWN"), "served a type that was not requested")
        }
        Some(Media::Html) => assert!(wildcard || names(b"TEXT/HTML"), "served a type that was not requested"),
        None => {}
    }
}

fn encoding_laws(input: &[u8]) {
    let lines = || input.split(|byte| *byte == b'\n');
    let upper = input.to_ascii_uppercase();
    for prepared in [&[][..], &[Encoding::Gzip], &Encoding::PREFERENCE] {
        let chosen = Codings::parse(lines()).choose(|encoding| prepared.contains(&encoding));
        assert!(
            chosen == Encoding::Identity || prepared.contains(&chosen),
            "selected an encoding that is not available"
        );
        if let Some(token) = chosen.token() {
            let token = token.to_ascii_uppercase();
            let named = upper.windows(token.len()).any(|part| part == token.as_bytes());
            assert!(named || upper.contains(&b'*'), "selected an encoding that was not requested");
        }
    }
}

const RANGES: [&str; 6] = ["text/html", "text/markdown", "text/*", "*/*", "application/json", "image/*"];
const PARAMETERS: [&str; 4] = ["", ";charset=utf-8", "; variant=GFM", ";a=\"x, text/html\""];

/// Compares the choice with that of a reference implementation. Each three bytes of input make one member:
/// the first byte selects the media range and its spelling, the other two select the weight.
fn rule(input: &[u8]) {
    let members: Vec<(&str, u16)> = input
        .chunks_exact(3)
        .take(12)
        .map(|bytes| {
            (RANGES[usize::from(bytes[0]) % RANGES.len()], u16::from_be_bytes([bytes[1], bytes[2]]) % 1001)
        })
        .collect();
    if members.is_empty() {
        return;
    }
    let written: Vec<String> = members
        .iter()
        .zip(input.chunks_exact(3))
        .map(|((range, weight), bytes)| {
            let range = if bytes[0] & 64 == 0 { (*range).to_owned() } else { range.to_ascii_uppercase() };
            let parameter = PARAMETERS[usize::from(bytes[0] >> 3) % PARAMETERS.len()];
            format!("{range}{parameter};q={}.{:03}", weight / 1000, weight % 1000)
        })
        .collect();

    let weight = |name: &str| {
        [name, "text/*", "*/*"]
            .iter()
            .find_map(|wanted| {
                members.iter().filter(|(range, _)| range == wanted).map(|(_, weight)| *weight).max()
            })
            .unwrap_or(0)
    };
    let (html, markdown) = (weight("text/html"), weight("text/markdown"));
    let named = members.iter().any(|(range, _)| *range == "text/markdown");
    let expected = match (html, markdown) {
        (0, 0) => None,
        _ if markdown > html || (markdown == html && named) => Some(Media::Markdown),
        _ => Some(Media::Html),
    };
    let header = written.join(", ");
    let chosen = choose([header.as_bytes()]);
    assert_eq!(chosen, expected, "{header}");
    assert!(chosen != Some(Media::Html) || html > 0, "q=0 was served: {header}");
    assert!(chosen != Some(Media::Markdown) || markdown > 0, "q=0 was served: {header}");
}
