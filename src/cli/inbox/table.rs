//! Formats submissions as a table for a terminal, or as lines of tab-separated values for other programs.
//!
//! Unsafe characters, including tabs and line breaks, are shown as symbols or code points, so that a
//! submission cannot control the terminal, or add columns or lines.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;

use crate::cli::text_width::{columns, pad, shorten};
use frontdesk_desk::time::format_local;
use frontdesk_forms::text::{cut, visible};
use frontdesk_inbox::submission::{Screening, Status, Submission};

pub(super) const GAP: &str = "  ";
/// The text shown instead of the fields of a sealed submission.
pub(super) const SEALED: &str = "(encrypted: use --identity FILE)";
/// Length of an id prefix that contains the time of arrival in milliseconds.
const SHORT_ID: usize = 13;
/// Length of an id prefix that contains the time and 12 more bits, so it is unique in practice.
const LONGER_ID: usize = 18;
/// Minimum width of the last column, in terminal columns.
const MIN_DETAILS: usize = 10;
/// Minimum width of the e-mail column, in terminal columns.
const MIN_EMAIL: usize = 16;

struct TableRow {
    cells: [String; 6],
    /// The submission's status; `None` in the title row.
    status: Option<Status>,
}

/// Writes the titles and one line for each submission, with tab-separated, whole values, and keeps no
/// submission in memory. Writes nothing if there are no submissions. Returns the number of submissions.
pub(super) fn write_records(
    submissions: &mut dyn Iterator<Item = anyhow::Result<Submission>>,
    zone: &TimeZone,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let mut count = 0;
    for submission in submissions {
        let submission = submission?;
        if count == 0 {
            writeln!(out, "{}", titles(zone).join("\t"))?;
        }
        write_record(&submission, zone, out)?;
        count += 1;
    }
    Ok(count)
}

/// Writes one line of tab-separated values: like [`write`], but with complete ids and uncut texts.
pub(super) fn write_record(
    submission: &Submission,
    zone: &TimeZone,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let values = [
        submission.id.to_string(),
        format_local(submission.received_at, zone),
        visible(&submission.form),
        submission.status.name().to_owned(),
        visible(submission.email().unwrap_or_default()),
        details(submission, usize::MAX),
    ];
    writeln!(out, "{}", values.join("\t"))
}

fn titles(zone: &TimeZone) -> [&'static str; 6] {
    let received = if *zone == TimeZone::UTC { "RECEIVED (UTC)" } else { "RECEIVED" };
    ["ID", received, "FORM", "STATUS", "E-MAIL", "DETAILS"]
}

/// Writes a table that is at most `width` columns wide, or wider if the first four columns, which are not
/// cut, leave less than the minimum widths of the others. Writes nothing if there are no submissions, or if
/// one cannot be read. Returns the number of submissions.
pub(super) fn write(
    submissions: &mut dyn Iterator<Item = anyhow::Result<Submission>>,
    zone: &TimeZone,
    width: usize,
    colors: bool,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let mut rows = vec![TableRow { cells: titles(zone).map(str::to_owned), status: None }];
    for submission in submissions {
        let submission = submission?;
        let cells = [
            submission.id.to_string(),
            submission.received_at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
            visible(&submission.form),
            submission.status.name().to_owned(),
            visible(submission.email().unwrap_or_default()),
            details(&submission, width),
        ];
        rows.push(TableRow { cells, status: Some(submission.status) });
    }
    let count = rows.len() - 1;
    if count == 0 {
        return Ok(0);
    }
    shorten_ids(&mut rows[1..]);
    let widest = |i: usize| rows.iter().map(|row| columns(&row.cells[i])).max().unwrap_or_default();
    let mut widths: [usize; 6] = std::array::from_fn(widest);
    let left = width.saturating_sub(widths[..4].iter().sum::<usize>() + 5 * GAP.len());
    widths[4] = widths[4].min(left.saturating_sub(MIN_DETAILS).max(MIN_EMAIL));
    widths[5] = left.saturating_sub(widths[4]).max(MIN_DETAILS);
    for TableRow { cells, status } in &rows {
        let fit = |(cell, width): (&String, usize)| pad(&shorten(cell, width), width);
        let mut cells: Vec<String> = cells.iter().zip(widths).map(fit).collect();
        cells[3] = colored(&cells[3], *status, colors);
        writeln!(out, "{}", cells.join(GAP).trim_end())?;
    }
    Ok(count)
}

/// Formats the last column: marks for repeats, holds, suspicion and agents, then all fields except those that
/// contain just the e-mail address, or [`SEALED`] instead of the fields. The mark of a hold by screening or
/// a flood names the signals, others the reason. Cuts each field to `width` characters.
fn details(submission: &Submission, width: usize) -> String {
    let mut details = Vec::new();
    if submission.repeats > 0 {
        details.push(format!("×{}", submission.repeats + 1));
    }
    if let Some(held) = &submission.held {
        // A release ends the hold by screening or a flood, although `withheld` stays true.
        let withheld = submission.screening.as_ref().filter(|screening| {
            screening.withheld && submission.released_at.is_none() && !screening.reasons.is_empty()
        });
        let because = withheld.map_or_else(|| held.because.clone(), Screening::signals);
        details.push(format!("[{}]", visible(&because)));
    }
    if submission.screening.as_ref().is_some_and(|screening| screening.suspicious) {
        details.push("[suspicious]".to_owned());
    }
    details.extend(submission.agent.as_deref().map(|agent| format!("via {}", visible(agent))));
    if submission.sealed.is_some() {
        details.push(SEALED.to_owned());
    }
    let email = submission.email();
    let others = submission.fields.iter().filter(|(_, value)| email.is_none() || value.as_str() != email);
    details.extend(others.map(|(_, value)| visible(cut(&value.display(), width))));
    details.join(" · ")
}

/// Writes a line for one submission, at most `width` columns wide unless [`MIN_DETAILS`] needs more. The
/// widths of its columns do not depend on other submissions.
pub(super) fn write_line(
    submission: &Submission,
    zone: &TimeZone,
    width: usize,
    colors: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let form =
        frontdesk_forms::FormSet::built_in().iter().map(|form| columns(form.name)).max().unwrap_or_default();
    // The column fits all names except the longest, `unconfirmed`, which is rare and may shift the rest.
    let usual = Status::ALL.iter().filter(|status| **status != Status::Unconfirmed);
    let status = usual.map(|status| columns(status.name())).max().unwrap_or_default();
    let mut id = submission.id.to_string();
    id.truncate(LONGER_ID);
    let about = [
        id,
        format_local(submission.received_at, zone),
        pad(&visible(&submission.form), form),
        pad(submission.status.name(), status),
    ];
    let left =
        width.saturating_sub(about.iter().map(|cell| columns(cell) + GAP.len()).sum()).max(MIN_DETAILS);
    let email = submission.email().map(visible).into_iter();
    let rest = Some(details(submission, width)).filter(|details| !details.is_empty());
    let rest = shorten(&email.chain(rest).collect::<Vec<_>>().join(GAP), left);
    let [id, received, form, status] = about;
    let status = colored(&status, Some(submission.status), colors);
    writeln!(out, "{}", [id, received, form, status, rest].join(GAP).trim_end())
}

/// Colors `text` by status. Returns it unchanged without `colors` or a status.
fn colored(text: &str, status: Option<Status>, colors: bool) -> String {
    let style = match status.filter(|_| colors) {
        Some(Status::Held | Status::Unconfirmed) => AnsiColor::Yellow.on_default(),
        Some(Status::Parked) => AnsiColor::Red.on_default(),
        Some(Status::Delivered) => AnsiColor::Green.on_default(),
        Some(Status::Kept | Status::Waiting) | None => Style::new(),
    };
    format!("{style}{text}{style:#}")
}

/// Cuts ids to the shortest length at which they differ, but at least [`SHORT_ID`]. The rows must be in
/// descending order of ids.
fn shorten_ids(rows: &mut [TableRow]) {
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let longest = rows.windows(2).map(|pair| shared(&pair[0].cells[0], &pair[1].cells[0]) + 1).max();
    let length = longest.unwrap_or_default().max(SHORT_ID);
    for row in rows {
        row.cells[0].truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use frontdesk_inbox::submission::Hold;
    use frontdesk_screening::verdict::{ScreeningReason, Signal};

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
    fn records_have_whole_values_between_tabs() {
        let message = format!("one\ttwo\nthree {}", "long ".repeat(4000));
        let fields = [("name", "Ada"), ("email", &*long_address()), ("message", &*message)];
        let submissions = [submission(2, &fields, 2), submission(1, &[], 0)];
        let write = |submissions: &[Submission]| {
            let mut out = Vec::new();
            write_records(&mut submissions.iter().cloned().map(Ok), &TimeZone::UTC, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let expected = format!(
            "ID\tRECEIVED (UTC)\tFORM\tSTATUS\tE-MAIL\tDETAILS\n\
             00000000-0002-0000-0000-000000000000\t2026-11-20 14:03:05\tcontact\tkept\t{}\t×3 · Ada · one\\u{{9}}two⏎three {}\n\
             00000000-0001-0000-0000-000000000000\t2026-11-20 14:03:05\tcontact\tkept\t\t\n",
            long_address(),
            "long ".repeat(4000),
        );
        assert_eq!(write(&submissions), expected);
        assert_eq!(write(&[]), "");
    }

    #[test]
    fn ids_are_long_enough_to_differ() {
        let mut close = submission(1, &[], 0);
        close.id = Uuid::from_u128(1);
        let mut next = close.clone();
        next.id = Uuid::from_u128(0);
        let text = render(&[close, next], 120);
        assert!(text.contains("00000000-0000-0000-0000-000000000001"), "{text}");
    }

    #[test]
    fn a_status_is_colored_and_columns_stay_aligned() {
        let mut held = submission(2, &[("email", "ada@example.com")], 0);
        held.status = Status::Held;
        let kept = submission(1, &[("email", "bob@example.com")], 0);
        let mut out = Vec::new();
        write(&mut [held, kept].into_iter().map(Ok), &TimeZone::UTC, 80, true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("  STATUS  E-MAIL"), "{text:?}");
        assert!(lines[1].ends_with("contact  \u{1b}[33mheld  \u{1b}[0m  ada@example.com"), "{text:?}");
        assert!(lines[2].ends_with("contact  kept    bob@example.com"), "{text:?}");
    }

    #[test]
    fn the_reason_of_a_hold_comes_before_the_fields() {
        let mut held = submission(1, &[("name", "Ada")], 0);
        held.held =
            Some(Hold { since: held.received_at, because: "4 links (60); 60 of 50 points".to_owned() });
        let reason = ScreeningReason { signal: Signal::Links, points: 60, detail: "4 links".to_owned() };
        held.screening =
            Some(Screening { score: 60, reasons: vec![reason], withheld: true, suspicious: false });
        held.agent = Some("agent.example.com".to_owned());
        assert_eq!(details(&held, 80), "[links] · via agent.example.com · Ada");
        // If the operator holds a released submission again, the operator's reason is shown.
        held.released_at = Some(held.received_at);
        held.held = Some(Hold { since: held.received_at, because: "odd\u{1b}".to_owned() });
        assert_eq!(details(&held, 80), "[odd\\u{1b}] · via agent.example.com · Ada");
    }

    #[test]
    fn a_sealed_submission_names_the_command_that_opens_it() {
        let mut sealed = submission(1, &[], 0);
        sealed.sealed = Some(vec![1]);
        assert!(render(&[sealed], 120).ends_with("  (encrypted: use --identity FILE)\n"));
    }

    #[test]
    fn a_single_line_fits_its_width() {
        let submission = submission(1, &[("email", "ada@example.com"), ("message", &"long\n".repeat(50))], 0);
        let mut out = Vec::new();
        write_line(&submission, &TimeZone::UTC, 90, false, &mut out).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(
            line.starts_with(
                "00000000-0001-0000  2026-11-20 14:03:05  contact   kept       ada@example.com  lo"
            ),
            "{line}"
        );
        assert_eq!(columns(line.trim_end()), 90, "{line}");
    }

    fn long_address() -> String {
        format!("{}@{}.example", "l".repeat(60), "d".repeat(60))
    }

    fn submission(number: u16, fields: &[(&str, &str)], repeats: u64) -> Submission {
        Submission {
            id: Uuid::from_fields(0, number, 0, &[0; 8]),
            form: "contact".to_owned(),
            definition: None,
            received_at: "2026-11-20T14:03:05.12Z".parse::<Timestamp>().unwrap(),
            status: Status::Kept,
            held: None,
            screening: None,
            released_at: None,
            error: None,
            agent: None,
            sealed: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
            source: "00".to_owned(),
            repeats,
            confirmation: None,
            lead: frontdesk_forms::LeadSource::default(),
        }
    }

    fn render(submissions: &[Submission], width: usize) -> String {
        let mut out = Vec::new();
        write(&mut submissions.iter().cloned().map(Ok), &TimeZone::UTC, width, false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}
