//! Displays lines that change: in place on a terminal, or appended to a file or a pipe.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;

use crate::cli::diagnostics::{DIM, ERROR, GOOD};
use crate::cli::doctor::check_result::CheckResult;
use crate::cli::text_width::shorten;
use frontdesk_desk::time::format_distance;
use frontdesk_forms::text::visible;

/// A line of the display: a subject, such as a channel, with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusLine {
    subject: String,
    /// The label of the state: `ok`, `fix` or `note`.
    word: &'static str,
    text: String,
    /// The time since an event, which the line shows after the text. Not part of the state: if only the age
    /// has changed, the line is not appended again.
    age: String,
}

impl StatusLine {
    pub(super) fn new(subject: &str, result: CheckResult) -> StatusLine {
        let (word, text) = result.word_and_text();
        StatusLine { subject: visible(subject), word, text: visible(&text), age: String::new() }
    }

    /// Sets the age, such as `(it ended 4 min ago)`, or removes it if `moment` is `None`.
    pub(super) fn aged(self, moment: Option<(Timestamp, &str)>, now: Timestamp) -> StatusLine {
        let age = moment.map(|(moment, words)| format!(" ({words} {})", format_distance(moment, now)));
        StatusLine { age: age.unwrap_or_default(), ..self }
    }

    pub(super) fn is_problem(&self) -> bool {
        self.word == "fix"
    }

    /// Writes the line, cut to `width` columns.
    fn write(&self, width: usize, out: &mut impl Write) -> io::Result<()> {
        let style = match self.word {
            "ok" => GOOD,
            "fix" => ERROR,
            _ => DIM,
        };
        let rest = format!("{}: {}{}", self.subject, self.text, self.age);
        let rest = shorten(&rest, width.saturating_sub(6));
        writeln!(out, "{style}{:<5}{style:#} {rest}", self.word)
    }
}

/// The alternate screen of a terminal. Dropping this value switches back to the normal screen.
pub(super) struct FullScreen;

impl FullScreen {
    /// Switches the terminal to the alternate screen, and hides the cursor.
    pub(super) fn start(out: &mut impl Write) -> io::Result<FullScreen> {
        write!(out, "\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
        Ok(FullScreen)
    }

    /// Clears the screen. `out` must pass on escape sequences.
    pub(super) fn clear(out: &mut impl Write) -> io::Result<()> {
        write!(out, "\x1b[H\x1b[2J")?;
        out.flush()
    }

    /// Writes the title and the lines, cut to the screen. If not all lines fit, writes problems first, and
    /// then how many lines are left out.
    pub(super) fn draw(
        title: &str,
        lines: &[StatusLine],
        (columns, rows): (usize, usize),
        out: &mut impl Write,
    ) -> io::Result<()> {
        writeln!(out, "{DIM}{}{DIM:#}", shorten(title, columns))?;
        // The title, the number of left-out lines, and the cursor take one row each.
        let room = rows.saturating_sub(3).max(1);
        let mut shown: Vec<&StatusLine> = lines.iter().collect();
        if lines.len() > room {
            shown.sort_by_key(|line| !line.is_problem());
        }
        for line in shown.iter().take(room) {
            line.write(columns, out)?;
        }
        if let Some(others @ 1..) = lines.len().checked_sub(room) {
            writeln!(out, "{DIM}and {others} more{DIM:#}")?;
        }
        Ok(())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        let _ = write!(out, "\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
    }
}

/// An append-only display in chronological order: all lines at first, then only those that have changed.
#[derive(Default)]
pub(super) struct AppendedLines {
    /// The lines shown last for each subject, each as a label (`ok`, `fix` or `note`) and a text.
    shown: BTreeMap<String, Vec<(&'static str, String)>>,
    has_begun: bool,
}

impl AppendedLines {
    /// Writes the time and each line whose state is new since the last call, and a note for each subject that
    /// has disappeared. A new age alone is not a new state.
    pub(super) fn write(
        &mut self,
        lines: &[StatusLine],
        now: Timestamp,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut states: BTreeMap<String, Vec<(&'static str, String)>> = BTreeMap::new();
        for line in lines {
            states.entry(line.subject.clone()).or_default().push((line.word, line.text.clone()));
        }
        if self.has_begun && states == self.shown {
            return Ok(());
        }
        for line in lines {
            let state = (line.word, line.text.clone());
            if !self.shown.get(&line.subject).is_some_and(|shown| shown.contains(&state)) {
                write!(out, "{now:.0} ")?;
                line.write(usize::MAX, out)?;
            }
        }
        for subject in self.shown.keys().filter(|subject| !states.contains_key(*subject)) {
            let gone = CheckResult::Unknown("this is no longer reported".to_owned());
            write!(out, "{now:.0} ")?;
            StatusLine::new(subject, gone).write(usize::MAX, out)?;
        }
        (self.shown, self.has_begun) = (states, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn good(subject: &str, text: &str) -> StatusLine {
        StatusLine::new(subject, CheckResult::Good(text.to_owned()))
    }

    fn bad(subject: &str, text: &str) -> StatusLine {
        StatusLine::new(subject, CheckResult::Bad(text.to_owned()))
    }

    /// The written text, without styles.
    fn plain(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        anstream::adapter::strip_str(&String::from_utf8(out).expect("UTF-8")).to_string()
    }

    #[test]
    fn only_changes_are_appended() {
        let mut appended = AppendedLines::default();
        let mut write = |lines: &[StatusLine], second: i64| {
            plain(|out| appended.write(lines, at(second), out).expect("it is written"))
        };
        let first =
            [good("queue", "0 to process").aged(Some((at(-5), "since")), at(0)), bad("canary", "failed")];
        assert_eq!(
            write(&first, 0),
            "2027-01-15T08:00:00Z ok    queue: 0 to process (since 5 s ago)\n\
             2027-01-15T08:00:00Z fix   canary: failed\n"
        );
        let older =
            [good("queue", "0 to process").aged(Some((at(-5), "since")), at(2)), bad("canary", "failed")];
        assert_eq!(write(&older, 2), "");
        let recovered = [good("queue", "0 to process"), good("canary", "succeeded")];
        assert_eq!(write(&recovered, 4), "2027-01-15T08:00:04Z ok    canary: succeeded\n");
        assert_eq!(
            write(&recovered[..1], 6),
            "2027-01-15T08:00:06Z note  canary: this is no longer reported\n"
        );
        assert_eq!(write(&recovered, 8), "2027-01-15T08:00:08Z ok    canary: succeeded\n");
    }

    #[test]
    fn several_lines_of_one_subject_are_told_apart() {
        let mut appended = AppendedLines::default();
        let mut write =
            |lines: &[StatusLine]| plain(|out| appended.write(lines, at(0), out).expect("written"));
        write(&[bad("inbox", "one"), bad("inbox", "two")]);
        assert_eq!(write(&[bad("inbox", "one")]), "");
        assert_eq!(write(&[bad("inbox", "one"), bad("inbox", "three")]).matches("three").count(), 1);
    }

    #[test]
    fn a_small_terminal_shows_problems_first_and_cuts_lines() {
        let lines: Vec<StatusLine> = (0..9)
            .map(|n| if n == 8 { bad("disk", "full") } else { good(&format!("step {n}"), "fine") })
            .collect();
        let drawn = plain(|out| FullScreen::draw("example.com", &lines, (12, 6), out).expect("drawn"));
        let rows: Vec<&str> = drawn.lines().collect();
        assert_eq!(rows, ["example.com", "fix   disk:…", "ok    step …", "ok    step …", "and 6 more"]);
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let drawn = plain(|out| bad("x\u{1b}[2J", "y\r").write(80, out).expect("written"));
        assert!(!drawn.contains(['\u{1b}', '\r']), "{drawn:?}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(shorten("日本語", 6), "日本語");
        assert_eq!(shorten("日本語", 5), "日本…");
        assert_eq!(shorten("abc", 2), "a…");
    }
}
