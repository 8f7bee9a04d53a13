//! Injection into operators' output: tables and exports.

use std::collections::HashMap;

use super::{CHANNELS, Sent, assert_inert};
use crate::support::channel_site::ChannelSite;
use frontdesk_forms::CONTACT;

/// The number of submissions to show with `inbox show`; each takes a separate process.
const SHOWN: usize = 60;

/// Checks all commands that print submissions.
pub(super) fn check(site: &ChannelSite, sent: &[Sent]) {
    check_list(&site.inbox(&["list"]), sent);
    for one in sent.iter().step_by((sent.len() / SHOWN).max(1)) {
        check_shown(&site.inbox(&["show", &one.id]), one);
    }
    let json = site.inbox(&["list", "--json"]);
    assert_inert(&json);
    assert_eq!(json.lines().count(), sent.len(), "a line each");
    assert_eq!(site.inbox(&["export", "--jsonl"]), json);
    check_csv(&site.inbox(&["export", "--csv"]), sent);
}

/// Checks that the table has a header line and one line per submission, newest first.
fn check_list(text: &str, sent: &[Sent]) {
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), sent.len() + 1);
    assert!(lines[0].starts_with("ID\t"), "{text}");
    for (line, one) in lines[1..].iter().zip(sent.iter().rev()) {
        // Tabs are between the columns, and in no value.
        let cells: Vec<&str> = line.split('\t').collect();
        for cell in &cells {
            assert_inert(cell);
        }
        assert_eq!((cells[0], cells.len()), (&*one.id, 6), "{line}");
    }
}

/// Checks the output of `inbox show`. Lines without indentation are labels or channel lines, each exactly
/// once. Receivers' replies are indented by two more columns than attempts.
fn check_shown(text: &str, sent: &Sent) {
    assert_inert(text);
    let fields = sent.fields.iter().map(|(name, _)| CONTACT.field(name).expect("a field").label);
    let channels = CHANNELS.map(|channel| format!("{channel}: delivered"));
    let mut expected: Vec<&str> = ["id", "form", "received at", "status", "score", "sent again", "source"]
        .into_iter()
        .chain(fields)
        .chain(channels.iter().map(String::as_str))
        .collect();
    let lines = || text.lines().filter(|line| !line.is_empty());
    let mut found: Vec<&str> = lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split_once("  ").map_or(line, |(label, _)| label))
        .collect();
    // Screening may add one line of reasons.
    expected.extend(found.contains(&"reasons").then_some("reasons"));
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "{text}");
    let attempts =
        lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).collect::<Vec<_>>();
    assert_eq!(attempts.len(), CHANNELS.len(), "{text}");
    assert!(attempts.iter().all(|line| line.starts_with("  1. ")), "{text}");
}

/// Checks that every record has as many cells as the header, with the submitted values and no formula.
fn check_csv(text: &str, sent: &[Sent]) {
    let records = parse_csv(text.strip_prefix('\u{feff}').expect("a byte order mark"));
    let (head, rows) = records.split_first().expect("a head");
    assert_eq!(rows.len(), sent.len());
    for (row, one) in rows.iter().zip(sent.iter().rev()) {
        assert_eq!(row.len(), head.len());
        let row: HashMap<&str, &str> =
            head.iter().map(String::as_str).zip(row.iter().map(String::as_str)).collect();
        assert_eq!(row["id"], one.id);
        for (name, value) in &row {
            let is_field =
                !matches!(*name, "id" | "form" | "received_at" | "status") && !name.starts_with('_');
            let expected = one.get(name).unwrap_or_default();
            let unguarded = [value, value.strip_prefix('\'').unwrap_or(value)].map(without_guards);
            assert!(!is_field || unguarded.contains(&without_guards(expected)), "{name}: {value:?}");
            let start = value.trim_start_matches(|c: char| c.is_whitespace() && !matches!(c, '\t' | '\r'));
            let start = start.trim_start_matches('\u{feff}');
            assert!(
                !start.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']),
                "{name}: {value:?}"
            );
        }
    }
}

/// A value without the marks before formulas that other separators than commas would separate.
fn without_guards(value: &str) -> String {
    ["\n", "\r", ";", "\t"]
        .iter()
        .fold(value.to_owned(), |text, separator| text.replace(&format!("{separator}'"), separator))
}

/// Parses CSV as defined in RFC 4180: CRLF between records, and quotes around cells with quotes, commas or
/// line breaks.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' if is_quoted => {
                is_quoted = false;
                assert!(
                    matches!(characters.peek(), Some(',' | '\r')),
                    "something follows a quoted cell: {cell:?}"
                );
            }
            '"' => {
                assert!(cell.is_empty(), "a quote in the middle of a cell: {cell:?}");
                is_quoted = true;
            }
            c if is_quoted => cell.push(c),
            ',' => record.push(std::mem::take(&mut cell)),
            '\r' => {
                assert_eq!(characters.next(), Some('\n'));
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            c => {
                assert!(c != '\n', "a bare line feed");
                cell.push(c);
            }
        }
    }
    assert!(cell.is_empty() && record.is_empty() && !is_quoted);
    records
}
