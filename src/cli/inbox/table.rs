//! Submissions for people to read in a terminal.
//!
//! What strangers sent can't reach the terminal as anything but text: control, escape, bidirectional and
//! invisible characters are shown by their code points.

use std::io::Write;

use crate::inbox::text::visible;
use crate::inbox::{StoreError, Submission};

/// What stands between two columns.
const GAP: &str = "  ";
/// How many characters of an id tell arrivals of different milliseconds apart.
const SHORT_ID: usize = 13;
/// What the last column gets, however narrow the terminal is.
const MIN_DETAILS: usize = 10;
/// What an e-mail address gets at least.
const MIN_EMAIL: usize = 16;

/// One line of the table.
struct Line {
    id: String,
    received: String,
    form: String,
    status: String,
    email: String,
    details: String,
}

/// Writes a table that is no wider than `width` columns, where that can be. Returns the number of
/// submissions; where there is none, there is no table either.
pub(super) fn write(
    submissions: impl Iterator<Item = Result<Submission, StoreError>>,
    width: usize,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let mut lines = Vec::new();
    for submission in submissions {
        lines.push(line(&submission?, width));
    }
    if lines.is_empty() {
        return Ok(0);
    }
    shorten_ids(&mut lines);
    let head = Line {
        id: "ID".to_owned(),
        received: "RECEIVED (UTC)".to_owned(),
        form: "FORM".to_owned(),
        status: "STATUS".to_owned(),
        email: "E-MAIL".to_owned(),
        details: "DETAILS".to_owned(),
    };
    let widest = |column: fn(&Line) -> &str| {
        lines.iter().chain([&head]).map(|line| columns(column(line))).max().unwrap_or_default()
    };
    let (id, received, form, status) =
        (widest(|l| &l.id), widest(|l| &l.received), widest(|l| &l.form), widest(|l| &l.status));
    let left = width.saturating_sub(id + received + form + status + 5 * GAP.len());
    let email = widest(|l| &l.email).min(left.saturating_sub(MIN_DETAILS).max(MIN_EMAIL));
    let details = left.saturating_sub(email).max(MIN_DETAILS);
    for line in std::iter::once(&head).chain(&lines) {
        let cells = [
            pad(&line.id, id),
            pad(&line.received, received),
            pad(&line.form, form),
            pad(&line.status, status),
            pad(&shorten(&line.email, email), email),
            shorten(&line.details, details),
        ];
        writeln!(out, "{}", cells.join(GAP).trim_end())?;
    }
    Ok(lines.len())
}

fn line(submission: &Submission, width: usize) -> Line {
    let mut details = Vec::new();
    if submission.repeats > 0 {
        details.push(format!("×{}", submission.repeats + 1));
    }
    let others = submission.fields.iter().filter(|(name, _)| name != "email");
    // Nothing past the table's own width can ever be shown.
    details.extend(others.map(|(_, value)| visible(&value.chars().take(width).collect::<String>())));
    Line {
        id: submission.id.to_string(),
        received: submission.received_at.strftime("%Y-%m-%d %H:%M").to_string(),
        form: visible(&submission.form),
        status: submission.status.name().to_owned(),
        email: visible(submission.get("email").unwrap_or_default()),
        details: details.join(" · "),
    }
}

/// Cuts ids to a length at which no two of the listed ones are the same. They come in descending order.
fn shorten_ids(lines: &mut [Line]) {
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let longest = lines.windows(2).map(|pair| shared(&pair[0].id, &pair[1].id) + 1).max();
    let length = longest.unwrap_or_default().max(SHORT_ID);
    for line in lines {
        line.id.truncate(length);
    }
}

/// Writes one submission with everything that is known of it.
pub(super) fn write_one(submission: &Submission, out: &mut dyn Write) -> std::io::Result<()> {
    let repeats = match submission.repeats {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let about = [
        ("id", submission.id.to_string()),
        ("form", submission.form.clone()),
        ("received at", submission.received_at_text()),
        ("status", submission.status.name().to_owned()),
        ("sent again", repeats),
        ("source", submission.source.clone()),
    ];
    let label = about
        .iter()
        .map(|(name, _)| *name)
        .chain(submission.fields.iter().map(|(name, _)| name.as_str()))
        .map(columns)
        .max()
        .unwrap_or_default();
    for (name, value) in &about {
        writeln!(out, "{}{GAP}{}", pad(name, label), visible(value))?;
    }
    writeln!(out)?;
    for (name, value) in &submission.fields {
        for (i, text) in value.replace("\r\n", "\n").split('\n').enumerate() {
            let name = if i == 0 { visible(name) } else { String::new() };
            writeln!(out, "{}", format!("{}{GAP}{}", pad(&name, label), visible(text)).trim_end())?;
        }
    }
    Ok(())
}

/// How many columns of a terminal the text takes, near enough to line up what people write: East Asian
/// letters and pictographs take two, combining marks none.
fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn char_columns(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f
        | 0x0483..=0x0489
        | 0x0591..=0x05bd
        | 0x064b..=0x065f
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x200c..=0x200d
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1_f300..=0x1_f64f
        | 0x1_f680..=0x1_f6ff
        | 0x1_f900..=0x1_f9ff
        | 0x1_fa70..=0x1_faff
        | 0x2_0000..=0x3_fffd => 2,
        _ => 1,
    }
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Cut to `width` columns, with `…` at the end where something is missing.
fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_columns(c);
        if used > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::inbox::Status;

    #[test]
    fn a_table_fits_its_width() {
        let submissions = [
            submission(2, &[("email", "ada@example.com")], 2),
            submission(
                1,
                &[("name", "Ada"), ("email", &long_address()), ("message", &"long ".repeat(4000))],
                0,
            ),
        ];
        for width in [80, 100, 132, 200] {
            let text = render(&submissions, width);
            let widest = text.lines().map(columns).max().unwrap();
            assert!(widest <= width, "{widest} > {width}\n{text}");
        }
        assert_eq!(
            render(&submissions[..1], 80),
            "ID             RECEIVED (UTC)    FORM     STATUS  E-MAIL           DETAILS\n\
             00000000-0002  2026-11-20 14:03  contact  kept    ada@example.com  ×3\n"
        );
        assert_eq!(render(&[], 80), "");
    }

    #[test]
    fn ids_are_as_long_as_it_takes_to_tell_them_apart() {
        let mut close = submission(1, &[], 0);
        close.id = Uuid::from_u128(1);
        let mut next = close.clone();
        next.id = Uuid::from_u128(0);
        let text = render(&[close, next], 120);
        assert!(text.contains("00000000-0000-0000-0000-000000000001"), "{text}");
    }

    #[test]
    fn wide_letters_keep_their_columns() {
        assert_eq!(columns("日本"), 4);
        assert_eq!(shorten("日本語", 5), "日本…");
        assert_eq!(shorten("日本語", 4), "日…");
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(columns("e\u{301}"), 1);
    }

    #[test]
    fn one_submission_is_shown_whole_and_its_lines_are_indented() {
        let submission = submission(1, &[("name", "Ada"), ("message", "Hello,\r\n\nid  0\u{1b}[2J")], 1);
        let mut out = Vec::new();
        write_one(&submission, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "id           00000000-0001-0000-0000-000000000000\n\
             form         contact\n\
             received at  2026-11-20T14:03:05.120Z\n\
             status       kept\n\
             sent again   once\n\
             source       00\n\
             \n\
             name         Ada\n\
             message      Hello,\n\
             \n             id  0\\u{1b}[2J\n"
        );
    }

    fn long_address() -> String {
        format!("{}@{}.example", "l".repeat(60), "d".repeat(60))
    }

    fn submission(number: u16, fields: &[(&str, &str)], repeats: u64) -> Submission {
        Submission {
            id: Uuid::from_fields(0, number, 0, &[0; 8]),
            form: "contact".to_owned(),
            received_at: "2026-11-20T14:03:05.12Z".parse::<Timestamp>().unwrap(),
            status: Status::Kept,
            held: None,
            sealed: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            source: "00".to_owned(),
            repeats,
        }
    }

    fn render(submissions: &[Submission], width: usize) -> String {
        let mut out = Vec::new();
        write(submissions.iter().cloned().map(Ok), width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}
