//! `frontdesk inbox stats` counts submissions; `frontdesk inbox digest` lists problems that need attention.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _, Zoned};
use serde_json::{Value, json};

use super::command_context::Console;
use super::show;
use crate::cli::diagnostics::counted;
use crate::cli::text_width::{columns, pad, wrap};
use frontdesk_deliver::problem_digest::Digest;
use frontdesk_desk::submission_json as json_lines;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{ChannelState, DailyCount, InboxReader, LeadCounts, StoreError};
use frontdesk_inbox::submission::delivery::DeliveryState;

/// Maximum width of a bar, in columns.
const MAX_BAR: usize = 40;

/// Maximum number of pages, of referring hosts and of campaigns that are shown.
const MAX_SOURCES: usize = 20;

/// Prints the totals of all days and the counts of the last `days` days. Without an inbox, prints zeros as
/// JSON, and nothing as text.
pub(super) fn run(days: u16, as_json: bool, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let inbox = console.inbox.clone();
    if as_json {
        let object = counts_object(inbox.as_deref(), &console.now, days)?;
        writeln!(console.out, "{}", json_lines::to_line(&object))?;
    } else if let Some(inbox) = inbox {
        let (tallies, channels) = (inbox.daily_counts(console.now.time_zone())?, inbox.channels()?);
        let first = first_day(&console.now, days);
        let leads = recent_leads(&inbox, &console.now, first)?;
        write_text(&tallies, &channels, first, console)?;
        write_leads(&leads, console)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The counts of submissions and deliveries as a JSON object. The counts by day, and those of leads by their
/// sources, cover the last `days` days in the time zone of `now`; the totals cover all days. Zeros if there
/// is no inbox.
pub(in crate::cli) fn counts_object(
    inbox: Option<&InboxReader>,
    now: &Zoned,
    days: u16,
) -> Result<Value, StoreError> {
    let tallies = inbox.map_or(Ok(Vec::new()), |inbox| inbox.daily_counts(now.time_zone()))?;
    let channels = inbox.map_or(Ok(Vec::new()), InboxReader::channels)?;
    let first = first_day(now, days);
    let leads = inbox.map_or(Ok(LeadCounts::default()), |inbox| recent_leads(inbox, now, first))?;
    let mut object = to_json(&tallies, &channels, first);
    object["leads"] = leads
        .lists()
        .into_iter()
        .map(|(name, counts)| {
            let counts = counts.iter().map(|(name, count)| json!({ "name": name, "count": count }));
            (name, counts.collect::<Value>())
        })
        .collect();
    Ok(object)
}

/// Counts the most frequent pages, referring hosts and campaigns, up to [`MAX_SOURCES`] of each, of
/// submissions since the day `first` in the time zone of `now`. Leaves out held and encrypted submissions,
/// and spam.
fn recent_leads(inbox: &InboxReader, now: &Zoned, first: Date) -> Result<LeadCounts, StoreError> {
    let first = first.to_zoned(now.time_zone().clone());
    inbox.lead_counts(first.map_or(Timestamp::MIN, |first| first.timestamp()), Timestamp::MAX, MAX_SOURCES)
}

/// Writes the counts by page, referring host and campaign. Writes nothing if there are none.
fn write_leads(leads: &LeadCounts, console: &mut Console<'_>) -> std::io::Result<()> {
    if leads.is_empty() {
        return Ok(());
    }
    writeln!(console.out, "\nWhere do leads come from?")?;
    for (name, counts) in leads.lists().into_iter().filter(|(_, counts)| !counts.is_empty()) {
        let pieces = format_counts(counts.iter().map(|(name, count)| (name.as_str(), *count)));
        write_wrapped(&pad(name, 11), &pieces, console.width, console.out)?;
    }
    Ok(())
}

/// Prints the lines that a digest would contain now, or that nothing needs attention. Leaves out the panics
/// of the server, which only the server counts.
pub(super) fn digest(console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let inbox = console.inbox.as_ref();
    let digest =
        inbox.map(|inbox| Digest::read(inbox, console.url, console.min_free, console.now.timestamp()));
    let lines = digest.transpose()?.unwrap_or_default().lines();
    if lines.is_empty() {
        writeln!(console.out, "Nothing needs your attention.")?;
    }
    for line in lines {
        writeln!(console.out, "{}", visible(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The first of the last `days` days, including today.
pub(in crate::cli) fn first_day(now: &Zoned, days: u16) -> Date {
    now.date().saturating_sub((i32::from(days) - 1).days())
}

/// The number of submissions by status, and by form.
fn totals(tallies: &[DailyCount]) -> [BTreeMap<&str, usize>; 2] {
    let mut totals = [BTreeMap::new(), BTreeMap::new()];
    for tally in tallies {
        *totals[0].entry(tally.status.name()).or_default() += tally.count;
        *totals[1].entry(tally.form.as_str()).or_default() += tally.count;
    }
    totals
}

fn total_count(tallies: &[DailyCount]) -> usize {
    tallies.iter().map(|tally| tally.count).sum()
}

/// Formats the counts as a JSON object. The counts by day omit days before `first`.
fn to_json(tallies: &[DailyCount], channels: &[ChannelState], first: Date) -> Value {
    let days = tallies.iter().filter(|tally| tally.day >= first).map(|tally| {
        json!({
            "day": tally.day.to_string(),
            "form": tally.form,
            "status": tally.status.name(),
            "count": tally.count,
        })
    });
    let channels = channels.iter().map(|channel| {
        let deliveries: Value =
            DeliveryState::ALL.iter().map(|state| (state.name(), channel.count(*state))).collect();
        json!({
            "channel": channel.name,
            "obstacle": channel.obstacle.as_ref().map(json_lines::obstacle_object),
            "deliveries": deliveries,
        })
    });
    let [by_status, by_form] = totals(tallies);
    json!({
        "submissions": total_count(tallies),
        "by_status": by_status,
        "by_form": by_form,
        "days": days.collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
    })
}

/// Writes the counts, which must be sorted by day and form, as text. The counts by day omit days before
/// `first`, and have bars only on a terminal.
fn write_text(
    tallies: &[DailyCount],
    channels: &[ChannelState],
    first: Date,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let out = &mut *console.out;
    writeln!(out, "{} in all", counted(total_count(tallies), "submission"))?;
    for (label, totals) in ["by status", "by form"].into_iter().zip(totals(tallies)) {
        if !totals.is_empty() {
            write_wrapped(&pad(label, 11), &format_counts(totals.into_iter()), console.width, out)?;
        }
    }
    let recent = &tallies[tallies.partition_point(|tally| tally.day < first)..];
    if !recent.is_empty() {
        writeln!(out)?;
    }
    let most = recent.chunk_by(|a, b| a.day == b.day).map(total_count).max().unwrap_or_default();
    let number = most.to_string().len();
    for day in recent.chunk_by(|a, b| a.day == b.day) {
        let mut forms: Vec<String> = Vec::new();
        for of_form in day.chunk_by(|a, b| a.form == b.form) {
            if let Some(last) = forms.last_mut() {
                last.push(';');
            }
            let mut statuses = format_counts(of_form.iter().map(|tally| (tally.status.name(), tally.count)));
            statuses[0].insert_str(0, &format!("{}: ", visible(&of_form[0].form)));
            forms.append(&mut statuses);
        }
        let count = total_count(day);
        let bar = if console.is_terminal {
            let widest = (console.width / 3).min(MAX_BAR);
            format!("{}  ", pad(&draw_bar(count, most, widest, console.has_unicode), widest))
        } else {
            String::new()
        };
        let head = format!("{}  {count:number$}  {bar}", day[0].day);
        write_wrapped(&head, &forms, console.width, out)?;
    }
    if !channels.is_empty() {
        writeln!(out)?;
    }
    let widest = channels.iter().map(|channel| columns(&visible(&channel.name))).max().unwrap_or_default();
    for channel in channels {
        let states = DeliveryState::ALL.iter().map(|state| (state.name(), channel.count(*state)));
        let mut states = format_counts(states.filter(|(_, count)| *count > 0));
        if states.is_empty() {
            states.push("no deliveries".to_owned());
        }
        let head = format!("{}  ", pad(&visible(&channel.name), widest));
        write_wrapped(&head, &states, console.width, out)?;
        if let Some(obstacle) = &channel.obstacle {
            let description = show::describe_obstacle(obstacle, &console.now);
            let words: Vec<_> = description.split(' ').map(str::to_owned).collect();
            write_wrapped(&pad("", widest + 2), &words, console.width, out)?;
        }
    }
    Ok(())
}

/// Formats each count with its name, and a comma after all but the last: `3 delivered,` and `1 held`.
fn format_counts<'a>(counts: impl Iterator<Item = (&'a str, usize)>) -> Vec<String> {
    let mut pieces: Vec<_> = counts.map(|(name, count)| format!("{count} {},", visible(name))).collect();
    if let Some(last) = pieces.last_mut() {
        last.pop();
    }
    pieces
}

/// Writes `head` and then `pieces`, wrapped to `width` columns by [`wrap`] and indented by the width of
/// `head`.
pub(in crate::cli) fn write_wrapped(
    head: &str,
    pieces: &[String],
    width: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let indent = columns(head);
    for (i, line) in wrap(pieces, width.saturating_sub(indent)).iter().enumerate() {
        let head = if i == 0 { head.to_owned() } else { pad("", indent) };
        writeln!(out, "{}", format!("{head}{line}").trim_end())?;
    }
    Ok(())
}

/// Draws a bar for `count`. The bar for `most` is `width` columns wide. A count of 1 or more is always
/// visible.
fn draw_bar(count: usize, most: usize, width: usize, has_unicode: bool) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count * width * 8).div_ceil(most.max(1));
    if has_unicode {
        format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
    } else {
        "#".repeat(eighths.div_ceil(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::inbox::command_context::StandardInput;
    use frontdesk_inbox::store::DatabaseUrl;
    use frontdesk_inbox::submission::Status;
    use frontdesk_inbox::submission::delivery::Obstacle;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        check_bar(40, 40, 10, "██████████", "##########");
        check_bar(20, 40, 10, "█████", "#####");
        check_bar(1, 40, 10, "▎", "#");
        check_bar(1, 1_000_000, 10, "▏", "#");
        check_bar(0, 40, 10, "", "");
        check_bar(0, 0, 10, "", "");
    }

    #[test]
    fn the_last_of_the_days_is_today() {
        let now = "2026-11-20T00:00:00[UTC]".parse().unwrap();
        assert_eq!(first_day(&now, 1).to_string(), "2026-11-20");
        assert_eq!(first_day(&now, 30).to_string(), "2026-10-22");
        let there = now.with_time_zone(jiff::tz::TimeZone::fixed(jiff::tz::offset(-3)));
        assert_eq!(first_day(&there, 1).to_string(), "2026-11-19");
    }

    #[test]
    fn the_text_has_totals_days_and_channels() {
        let text = render(false, 100);
        assert_eq!(
            text,
            "13 submissions in all\n\
             by status  2 delivered, 1 held, 10 kept\n\
             by form    3 contact, 10 waitlist\n\
             \n\
             2026-11-19   2  contact: 1 delivered, 1 held\n\
             2026-11-20  10  waitlist: 10 kept\n\
             \n\
             box   2 waiting, 1 delivered\n\
             hook  no deliveries\n      the channel has been switched off since 2026-11-20T10:00:00.000Z (4 \
                   h ago); reply: 410\\u{1b}\n"
        );
        for width in [60, 80] {
            for is_terminal in [false, true] {
                let text = render(is_terminal, width);
                let widest = text.lines().map(columns).max().unwrap();
                assert!(widest <= width, "{widest} > {width}\n{text}");
            }
        }
        let drawn = render(true, 30);
        assert!(drawn.contains("2026-11-19   2  ██          contact"), "{drawn}");
        assert!(drawn.contains("2026-11-20  10  ██████████  waitlist"), "{drawn}");
    }

    #[test]
    fn the_json_is_one_object() {
        let (tallies, channels) = sample();
        let object = to_json(&tallies, &channels, "2026-11-20".parse().unwrap());
        assert_eq!(object["submissions"], 13);
        assert_eq!(object["by_status"], json!({ "delivered": 2, "held": 1, "kept": 10 }));
        assert_eq!(
            object["days"],
            json!([{ "day": "2026-11-20", "form": "waitlist", "status": "kept", "count": 10 }])
        );
        assert_eq!(
            object["channels"][0],
            json!({
                "channel": "box",
                "obstacle": null,
                "deliveries": { "waiting": 2, "sending": 0, "delivered": 1, "held": 0, "parked": 0 }
            })
        );
        assert_eq!(object["channels"][1]["obstacle"]["off"], true);
    }

    fn sample() -> (Vec<DailyCount>, Vec<ChannelState>) {
        let tally = |day: &str, form: &str, status, count| DailyCount {
            day: day.parse().unwrap(),
            form: form.to_owned(),
            status,
            count,
        };
        let channel = |name: &str, obstacle, deliveries: &[(DeliveryState, usize)]| ChannelState {
            name: name.to_owned(),
            obstacle,
            deliveries: deliveries.to_vec(),
            ..ChannelState::default()
        };
        let since = "2026-11-20T10:00:00Z".parse().unwrap();
        let gone = Obstacle { off: true, since, answer: "410\u{1b}".to_owned() };
        (
            vec![
                tally("2026-09-01", "contact", Status::Delivered, 1),
                tally("2026-11-19", "contact", Status::Delivered, 1),
                tally("2026-11-19", "contact", Status::Held, 1),
                tally("2026-11-20", "waitlist", Status::Kept, 10),
            ],
            vec![
                channel("box", None, &[(DeliveryState::Waiting, 2), (DeliveryState::Delivered, 1)]),
                channel("hook", Some(gone), &[]),
            ],
        )
    }

    fn render(is_terminal: bool, width: usize) -> String {
        let url = DatabaseUrl::Sqlite("inbox.sqlite".into());
        let (tallies, channels) = sample();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            url: &url,
            user: "ada".to_owned(),
            inbox: None,
            min_free: frontdesk_process::disk_space::MinFree::Off,
            channels: &[],
            lexicon: frontdesk_screening::Lexicon::built_in(),
            users: &[],
            now: "2026-11-20T14:03:05[UTC]".parse().unwrap(),
            width,
            is_terminal,
            has_colors: false,
            has_unicode: true,
            input: StandardInput { reader: &mut std::io::empty(), is_terminal: false },
            out: &mut out,
            err: &mut err,
        };
        write_text(&tallies, &channels, "2026-11-01".parse().unwrap(), &mut console).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn check_bar(count: usize, most: usize, width: usize, unicode: &str, plain: &str) {
        assert_eq!(
            (draw_bar(count, most, width, true), draw_bar(count, most, width, false)),
            (unicode.into(), plain.into())
        );
    }
}
