//! Writes submissions as CSV (RFC 4180, UTF-8) that is safe to open in a spreadsheet.
//!
//! A text that a spreadsheet would evaluate as a formula gets a leading `'`. JSON lines contain every value
//! as it is stored.

use std::borrow::Cow;
use std::io::Write;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::{annotated, submission_json};
use crate::time::format_local;
use frontdesk_forms::lead_source::{LEAD_COLUMNS, LEAD_MEMBERS};
use frontdesk_forms::text::visible_lines;
use frontdesk_forms::{EXPORT_COLUMNS, Form, FormSet};
use frontdesk_inbox::store::{InboxReader, Note};
use frontdesk_inbox::submission::Submission;
use frontdesk_screening::verdict::ScreeningReason;

/// Writes a byte order mark, a header, and one record per submission. Returns the number of submissions. The
/// columns are [`EXPORT_COLUMNS`], each field of the built-in forms and of `definitions`, [`LEAD_COLUMNS`]
/// and, with `all`, the repeats, the source, the result of screening, the agent, the time of confirmation,
/// and the annotations and notes that `reader` finds. Other fields of a submission are left out. Only the
/// time of arrival and the days of notes are in `zone`; the other times are in UTC. Puts `'` before texts
/// that a spreadsheet would evaluate as formulas. For a terminal, leaves out the mark and makes control
/// characters visible. Stops at the first error.
pub fn write<E: From<std::io::Error>>(
    submissions: &mut dyn Iterator<Item = Result<Submission, E>>,
    reader: Option<&InboxReader>,
    definitions: &[&'static Form],
    all: bool,
    zone: &TimeZone,
    to_terminal: bool,
    out: &mut dyn Write,
) -> Result<usize, E> {
    // The columns that `all` adds, named after the JSON members. Lists are joined into one text per cell.
    const OTHERS: [&str; 12] = [
        "_repeats",
        "_source",
        "_score",
        "_reasons",
        "_agent",
        "_confirmed_at",
        "_done_at",
        "_assignee",
        "_follow_up",
        "_replied_at",
        "_replied_by",
        "_notes",
    ];
    let others = if all { &OTHERS[..] } else { &[] };
    let columns = [&EXPORT_COLUMNS[..], &field_names(definitions), &LEAD_COLUMNS, others].concat();
    if !to_terminal {
        // Without a byte order mark, Excel decodes the file with the Windows code page.
        write!(out, "\u{feff}")?;
    }
    write_record(columns.iter().map(|name| (*name, false)), to_terminal, out)?;
    annotated::for_each(submissions, reader.filter(|_| all), &mut |found| {
        let submission = &found.submission;
        let object = submission_json::annotated_object(found);
        let lead = |column: &str| {
            let member = LEAD_COLUMNS.iter().position(|name| *name == column).map(|at| LEAD_MEMBERS[at]);
            member.map(|name| submission.lead.get(name).unwrap_or_default().to_owned())
        };
        let own = |name: &str| match (name, &object[name]) {
            ("received_at", _) => format_local(submission.received_at, zone),
            ("_reasons", _) => {
                let screening = submission.screening.as_ref();
                screening.map(|screening| format_reasons(&screening.reasons)).unwrap_or_default()
            }
            ("_notes", _) => format_notes(&found.notes, zone),
            (_, Value::Null) => String::new(),
            (_, Value::String(text)) => text.clone(),
            (_, other) => other.to_string(),
        };
        let value = |name: &&str| match lead(name) {
            Some(text) => (text, false),
            None => (own(name), object[*name].is_number()),
        };
        let values: Vec<(String, bool)> = columns.iter().map(value).collect();
        let values = values.iter().map(|(text, is_number)| (text.as_str(), *is_number));
        Ok(write_record(values, to_terminal, out)?)
    })
}

/// Joins notes, oldest first, with line breaks. Each is written as `2026-11-27 ada: Called back`.
fn format_notes(notes: &[Note], zone: &TimeZone) -> String {
    let describe =
        |note: &Note| format!("{} {}: {}", note.at.to_zoned(zone.clone()).date(), note.user, note.text);
    notes.iter().map(describe).collect::<Vec<_>>().join("\n")
}

/// Joins reasons with their points: `honeypot 100: hidden field filled in; links 3: 4 links among 100 words`.
fn format_reasons(reasons: &[ScreeningReason]) -> String {
    let describe = |reason: &ScreeningReason| {
        let detail = if reason.detail.is_empty() { String::new() } else { format!(": {}", reason.detail) };
        format!("{} {}{detail}", reason.signal.name(), reason.points)
    };
    reasons.iter().map(describe).collect::<Vec<_>>().join("; ")
}

/// The field names of the built-in forms and these definitions, without duplicates. The built-in ones are
/// always there, so that exports begin with the same columns.
fn field_names(definitions: &[&'static Form]) -> Vec<&'static str> {
    let mut names = Vec::new();
    let forms = FormSet::built_in().iter().chain(definitions.iter().copied());
    for field in forms.flat_map(Form::all_fields) {
        if !names.contains(&field.name) {
            names.push(field.name);
        }
    }
    names
}

/// Characters that can begin a formula. Spreadsheets also accept the full-width signs.
const FORMULA_SIGNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Writes one record. Each value is a text and whether that is a number in the JSON format. Puts values with
/// separators (also `;` and tabs), quotation marks or line breaks in quotation marks, and `'` before texts,
/// but not numbers, that a spreadsheet would evaluate as formulas. For a terminal, makes control characters
/// visible.
fn write_record<'a>(
    values: impl Iterator<Item = (&'a str, bool)>,
    to_terminal: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    for (i, (value, is_number)) in values.enumerate() {
        let value = if to_terminal { Cow::Owned(visible_lines(value)) } else { Cow::Borrowed(value) };
        if i > 0 {
            out.write_all(b",")?;
        }
        // Spreadsheets skip leading blanks, line feeds and byte order marks, and accept full-width signs.
        let start = value.trim_start_matches([' ', '\n', '\u{feff}']);
        let is_formula = start.starts_with(FORMULA_SIGNS) || start.starts_with(['\t', '\r']);
        let guard = if is_formula && !is_number { "'" } else { "" };
        if value.contains([',', ';', '"', '\r', '\n', '\t']) {
            write!(out, "\"{guard}{}\"", guard_cells(&value).replace('"', "\"\""))?;
        } else {
            write!(out, "{guard}{value}")?;
        }
    }
    out.write_all(b"\r\n")
}

/// Puts `'` before formulas inside of a value. If a spreadsheet splits at `;` or tabs, most quotation marks
/// are not at the start of its cells, so it ignores them: each of these separators and line breaks in a value
/// then begins a new cell.
fn guard_cells(value: &str) -> Cow<'_, str> {
    let is_formula = |rest: &str| rest.trim_start_matches(' ').starts_with(FORMULA_SIGNS);
    let starts: Vec<usize> = value
        .match_indices(['\n', '\r', ';', '\t'])
        .map(|(at, _)| at + 1)
        .filter(|at| is_formula(&value[*at..]))
        .collect();
    if starts.is_empty() {
        return Cow::Borrowed(value);
    }
    let (mut guarded, mut copied) = (String::with_capacity(value.len() + starts.len()), 0);
    for at in starts {
        guarded.push_str(&value[copied..at]);
        guarded.push('\'');
        copied = at;
    }
    guarded.push_str(&value[copied..]);
    Cow::Owned(guarded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_every_form_has_a_column() {
        assert_eq!(field_names(&[]), ["email", "name", "message", "firstname", "lastname", "company"]);
    }

    #[test]
    fn commas_quotes_and_line_breaks_are_quoted() {
        check(&["a", "b c", ""], "a,b c,\r\n");
        check(
            &["a,b", "say \"hi\"", "one\ntwo", "three\r\nfour"],
            "\"a,b\",\"say \"\"hi\"\"\",\"one\ntwo\",\"three\r\nfour\"\r\n",
        );
        check(&["Grüße 🙂"], "Grüße 🙂\r\n");
    }

    #[test]
    fn a_spreadsheet_that_splits_at_other_separators_finds_no_formula() {
        check(&["Hello\n=HYPERLINK(1)\n\r+1"], "\"Hello\n'=HYPERLINK(1)\n\r'+1\"\r\n");
        check(&["a; -1;b", "a\t@x", "1-2; a=b"], "\"a;' -1;b\",\"a\t'@x\",\"1-2; a=b\"\r\n");
    }

    #[test]
    fn notes_are_joined_with_their_days_and_authors() {
        let note = |at: &str, user: &str, text: &str| Note {
            id: uuid::Uuid::nil(),
            at: at.parse().unwrap(),
            user: user.to_owned(),
            text: text.to_owned(),
        };
        let notes = [
            note("2026-11-27T23:30:00Z", "ada", "Called"),
            note("2026-11-28T09:00:00Z", "grace", "Two\nlines"),
        ];
        assert_eq!(
            format_notes(&notes, &TimeZone::UTC),
            "2026-11-27 ada: Called\n2026-11-28 grace: Two\nlines"
        );
        let berlin = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(format_notes(&notes[..1], &berlin), "2026-11-28 ada: Called");
        assert_eq!(format_notes(&[], &TimeZone::UTC), "");
    }

    #[test]
    fn formulas_become_text() {
        for start in ["=", "+", "-", "@", "\t"] {
            let quote = if start == "\t" { "\"" } else { "" };
            check(&[&format!("{start}1")], &format!("{quote}'{start}1{quote}\r\n"));
        }
        check(&[" =1", "＝1", "\u{feff}=1", "a;=1"], "' =1,'＝1,'\u{feff}=1,\"a;'=1\"\r\n");
        check(&["=A1,B1"], "\"'=A1,B1\"\r\n");
        check(&["\r1"], "\"'\r1\"\r\n");
        check(&["1=1"], "1=1\r\n");
    }

    #[test]
    fn a_terminal_shows_control_characters_and_a_file_has_them() {
        let sent = ["\u{1b}]0;x\u{7}", "one\r\ntwo", "\u{202e}fdp"];
        check(&sent, "\"\u{1b}]0;x\u{7}\",\"one\r\ntwo\",\u{202e}fdp\r\n");
        assert_eq!(record(&sent, true), "\"\\u{1b}]0;x\\u{7}\",\"one\ntwo\",\\u{202e}fdp\r\n");
    }

    fn check(values: &[&str], expected: &str) {
        assert_eq!(record(values, false), expected);
    }

    fn record(values: &[&str], to_terminal: bool) -> String {
        let mut out = Vec::new();
        write_record(values.iter().map(|text| (*text, false)), to_terminal, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}
