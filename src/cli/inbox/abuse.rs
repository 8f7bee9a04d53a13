//! `frontdesk inbox stats --abuse`: rate-limited sources, held submissions by signal, and agents.

use std::io::{self, Write};
use std::process::ExitCode;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::command_context::Console;
use super::count_table::write_table;
use super::stats::{first_day, write_wrapped};
use crate::cli::diagnostics::counted;
use frontdesk_desk::submission_json as json_lines;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{Abuse, Decisions, SignalCount};

/// Maximum number of sources and agents in text output.
const MAX_SHOWN: usize = 10;
/// Maximum number of sources and agents in the JSON object.
const MAX_JSON: usize = 1000;
/// Number of hexadecimal digits to show of a source's hash: 48 bits distinguish millions of sources.
const SOURCE_DIGITS: usize = 12;

/// Prints the counts of the last `days` days; refused requests are counted by days in UTC. Without an inbox,
/// prints zeros as JSON, and nothing as text.
pub(super) fn run(days: u16, as_json: bool, console: &mut Console<'_>) -> anyhow::Result<ExitCode> {
    let first = first_day(&console.now, days);
    let most = if as_json { MAX_JSON } else { MAX_SHOWN };
    let inbox = console.inbox.as_ref();
    let abuse =
        inbox.map_or(Ok(Abuse::default()), |inbox| inbox.abuse(first, console.now.time_zone(), most))?;
    if as_json {
        writeln!(console.out, "{}", json_lines::to_line(&to_json(&abuse, first)))?;
    } else if inbox.is_some() {
        write_text(&abuse, first, console.cut_width(), console.out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the counts since the day `first` as a JSON object.
fn to_json(abuse: &Abuse, first: Date) -> Value {
    let signals = abuse.signals.iter().map(|of| {
        json!({ "signal": of.signal, "held": of.held, "released": of.released, "released_share": released_share(of) })
    });
    json!({
        "since": first.to_string(),
        "submissions": abuse.submissions,
        "held": abuse.held,
        "released": abuse.released,
        "refused": abuse.refused,
        "refused_others": abuse.refused_others,
        "source_count": abuse.source_count,
        "sources": abuse.sources,
        "signals": signals.collect::<Vec<_>>(),
        "agent_count": abuse.agent_count,
        "agents": abuse.agents,
        "decisions": abuse.decisions,
    })
}

/// The share of held submissions that the operator released, from 0 to 1; 0 if none was held.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn released_share(held: &SignalCount) -> f64 {
    held.released as f64 / held.held.max(1) as f64
}

/// Writes the totals since the day `first`, the operators' decisions, and a table each of sources, signals
/// and agents. Leaves out what is empty.
fn write_text(abuse: &Abuse, first: Date, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let totals = [
        format!("Since {first}:"),
        format!("{},", counted(abuse.submissions, "submission")),
        format!("{} held by screening ({} released),", abuse.held, abuse.released),
        format!("{} refused", counted(abuse.refused, "request")),
    ];
    write_wrapped("", &totals, width, out)?;
    let Decisions { marked_spam, marked_honest, held_spam, held_honest, missed_spam } = abuse.decisions;
    if marked_spam + marked_honest + held_spam + held_honest + missed_spam > 0 {
        let percent = |right: usize, wrong: usize| {
            let share = (right * 100).checked_div(right + wrong);
            share.map_or_else(String::new, |share| format!(" ({share} %)"))
        };
        let decisions = [
            "By your decisions:".to_owned(),
            format!(
                "{marked_spam} of {} marked were spam{},",
                marked_spam + marked_honest,
                percent(marked_spam, marked_honest)
            ),
            format!("{held_spam} of {} held{},", held_spam + held_honest, percent(held_spam, held_honest)),
            format!("{} delivered unmarked", counted(missed_spam, "spam message")),
        ];
        write_wrapped("", &decisions, width, out)?;
    }
    let numbers = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>();
    let rest = |count: usize| (count > MAX_SHOWN).then(|| format!("and {} more", count - MAX_SHOWN));

    let mut sources: Vec<_> = (abuse.sources.iter())
        .map(|of| {
            let digits = of.source.chars().take(SOURCE_DIGITS).collect();
            (digits, numbers(&[of.submissions, of.held, of.refused]))
        })
        .collect();
    sources.extend(rest(abuse.source_count).map(|rest| (rest, Vec::new())));
    if abuse.refused_others > 0 {
        let (none, refused) = (String::new(), abuse.refused_others.to_string());
        sources.push(("others".to_owned(), vec![none.clone(), none, refused]));
    }
    write_table(["SOURCE", "SUBMISSIONS", "HELD", "REFUSED"], sources, width, out)?;

    let signals = abuse.signals.iter().map(|of| {
        let share = format!("{:.0} %", released_share(of) * 100.0);
        (visible(&of.signal), vec![of.held.to_string(), of.released.to_string(), share])
    });
    write_table(["HELD FOR", "HELD", "RELEASED", "SHARE"], signals.collect(), width, out)?;

    let agents = abuse.agents.iter().map(|of| (visible(&of.agent), numbers(&[of.submissions, of.held])));
    let agents = agents.chain(rest(abuse.agent_count).map(|rest| (rest, Vec::new())));
    write_table(["AGENT", "SUBMISSIONS", "HELD"], agents.collect(), width, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::text_width::columns;
    use frontdesk_inbox::store::{AgentCount, RefusedSource};

    #[test]
    fn the_text_has_sources_signals_and_agents() {
        assert_eq!(
            render(&sample(), 80),
            "Since 2026-11-01: 20 submissions, 8 held by screening (2 released),\n\
             4300 requests refused\n\
             By your decisions: 9 of 10 marked were spam (90 %), 3 of 3 held (100 %),\n\
             2 spam messages delivered unmarked\n\
             \n\
             SOURCE        SUBMISSIONS      HELD   REFUSED\n\
             0123456789ab           12         7      4000\n\
             and 4 more\n\
             others                                    300\n\
             \n\
             HELD FOR      HELD  RELEASED     SHARE\n\
             links            8         2      25 %\n\
             honeypot         3         0       0 %\n\
             \n\
             AGENT              SUBMISSIONS      HELD\n\
             agent.example.com            3         0\n"
        );
        let quiet = Abuse { submissions: 1, ..Abuse::default() };
        assert_eq!(
            render(&quiet, 80),
            "Since 2026-11-01: 1 submission, 0 held by screening (0 released),\n0 requests refused\n"
        );
    }

    #[test]
    fn lines_fit_the_terminal_without_control_characters() {
        let mut abuse = sample();
        abuse.agents[0].agent = format!("{}\u{1b}.example.com", "a".repeat(200));
        for width in [50, 80, 120] {
            let text = render(&abuse, width);
            let widest = text.lines().map(columns).max().unwrap();
            assert!(widest <= width && !text.contains('\u{1b}'), "{widest} > {width}\n{text}");
        }
    }

    #[test]
    fn the_json_is_one_object() {
        let object = to_json(&sample(), "2026-11-01".parse().unwrap());
        assert_eq!((&object["since"], &object["held"]), (&json!("2026-11-01"), &json!(8)));
        let source = json!({ "source": "0123456789abcdef", "submissions": 12, "held": 7, "refused": 4000 });
        assert_eq!(object["sources"], json!([source]));
        let links = json!({ "signal": "links", "held": 8, "released": 2, "released_share": 0.25 });
        assert_eq!(object["signals"][0], links);
        assert_eq!(object["agents"][0]["agent"], "agent.example.com");
    }

    fn sample() -> Abuse {
        let held = |signal: &str, held, released| SignalCount { signal: signal.to_owned(), held, released };
        Abuse {
            submissions: 20,
            held: 8,
            released: 2,
            refused: 4300,
            refused_others: 300,
            source_count: 14,
            sources: vec![RefusedSource {
                source: "0123456789abcdef".to_owned(),
                submissions: 12,
                held: 7,
                refused: 4000,
            }],
            signals: vec![held("links", 8, 2), held("honeypot", 3, 0)],
            agent_count: 1,
            agents: vec![AgentCount { agent: "agent.example.com".to_owned(), submissions: 3, held: 0 }],
            decisions: Decisions {
                marked_spam: 9,
                marked_honest: 1,
                held_spam: 3,
                held_honest: 0,
                missed_spam: 2,
            },
        }
    }

    fn render(abuse: &Abuse, width: usize) -> String {
        let mut out = Vec::new();
        write_text(abuse, "2026-11-01".parse().unwrap(), width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}
