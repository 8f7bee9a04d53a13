//! Shows the progress of a command that takes longer than a second, on a terminal.

use std::io::{IsTerminal as _, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::{self, WorkState};

/// How long a command runs before its progress is shown.
const DELAY: Duration = Duration::from_secs(1);
/// The interval at which the shown progress is updated.
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows what a command does, how much is done and how much is left. Appears after one second, and disappears
/// without a trace when it is dropped. Meanwhile, the command must not hold a lock of standard error.
pub struct Progress {
    /// Dropping the sender ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Resets the progress counters, and shows the progress of the work named by `title`, such as "Backing
    /// up", on standard error if that is a terminal.
    pub fn start(title: &'static str) -> Progress {
        progress::begin("", 0);
        if stderr().is_terminal() {
            Progress::show(title, ProgressDrawTarget::stderr(), DELAY)
        } else {
            Progress::hidden()
        }
    }

    /// A progress display that shows nothing.
    pub fn hidden() -> Progress {
        Progress { end: None, thread: None }
    }

    /// Like [`Progress::start`] if `is_shown`, otherwise like [`Progress::hidden`].
    pub fn start_if(is_shown: bool, title: &'static str) -> Progress {
        if is_shown { Progress::start(title) } else { Progress::hidden() }
    }

    /// Starts a thread that draws the progress on `target` after `delay`. If it cannot be started, nothing is
    /// shown.
    fn show(title: &'static str, target: ProgressDrawTarget, delay: Duration) -> Progress {
        let (end, ended) = channel::<()>();
        let run = move || {
            if ended.recv_timeout(delay) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
                .with_prefix(title)
                .with_elapsed(delay);
            // Set the style before the bar is drawn for the first time.
            show_state(&bar, progress::current());
            bar.set_draw_target(target);
            loop {
                show_state(&bar, progress::current());
                if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bar.finish_and_clear();
        };
        // If the thread cannot be started, the command works without showing its progress.
        let thread = std::thread::Builder::new().name("progress".into()).spawn(run).ok();
        Progress { end: Some(end), thread }
    }
}

impl Drop for Progress {
    /// Clears the shown progress, and waits for the thread to end.
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Draws a bar and the time left if the number of all steps is known; otherwise the steps so far and the
/// elapsed time.
fn show_state(bar: &ProgressBar, state: WorkState) {
    let template = match state {
        WorkState { total: 1.., .. } => {
            "{prefix} {bar:20} {human_pos} of {human_len} {msg} ({elapsed}, {eta} left)"
        }
        WorkState { done: 1.., .. } => "{prefix} {spinner} {human_pos} {msg} ({elapsed})",
        _ => "{prefix} {spinner} {msg} ({elapsed})",
    };
    if bar.message() != state.stage {
        bar.set_message(state.stage);
        // The estimate of the remaining time covers only the current stage.
        bar.reset_eta();
    }
    if state.total > 0 {
        bar.set_length(state.total);
    } else {
        bar.unset_length();
    }
    bar.set_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.set_position(state.done);
    bar.tick();
}

/// How long something took, rounded down: `12 ms`, `3.2 s` or `4 min 5 s`.
pub fn describe_duration(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{} ms", took.as_millis()),
        seconds @ 1..60 => format!("{seconds}.{} s", took.subsec_millis() / 100),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// The size of a file: `36 KiB` (rounded up), `84.0 MiB` or `2.5 GiB`.
#[expect(clippy::cast_precision_loss, reason = "one decimal place is shown")]
pub fn describe_size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    // A size that would be rounded to 1024 has the next unit.
    match bytes.div_ceil(1024) {
        kibibytes @ 0..1024 => format!("{kibibytes} KiB"),
        _ if mebibytes < 1023.95 => format!("{mebibytes:.1} MiB"),
        _ => format!("{:.1} GiB", mebibytes / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::Receiver;

    use indicatif::TermLike;

    use super::*;

    /// Sends what is drawn.
    #[derive(Debug)]
    struct Recorder(Sender<String>);

    impl Recorder {
        fn send(&self, text: &str) -> io::Result<()> {
            self.0.send(text.to_owned()).map_err(io::Error::other)
        }
    }

    impl TermLike for Recorder {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.send(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.send(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn recorder() -> (ProgressDrawTarget, Receiver<String>) {
        let (drawn, record) = channel();
        (ProgressDrawTarget::term_like(Box::new(Recorder(drawn))), record)
    }

    #[test]
    fn the_state_shows_what_is_done_and_what_is_left() {
        let drawn = |state: WorkState| -> String {
            let (target, record) = recorder();
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            bar.set_prefix("Backing up");
            show_state(&bar, state);
            bar.set_draw_target(target);
            bar.tick();
            drop(bar);
            record.iter().collect()
        };
        let known = drawn(WorkState { stage: "rows verified", done: 25_000, total: 100_000 });
        assert!(known.starts_with("Backing up █████░"), "{known}");
        assert!(known.contains(" 25,000 of 100,000 rows verified (0s, "), "{known}");
        let counted = drawn(WorkState { stage: "rows verified", done: 7, total: 0 });
        assert!(counted.contains(" 7 rows verified (0s)"), "{counted}");
        let unknown = drawn(WorkState { stage: "writing the copy", done: 0, total: 0 });
        assert!(unknown.contains(" writing the copy (0s)"), "{unknown}");
    }

    #[test]
    fn a_command_that_ends_in_time_shows_nothing() {
        let (target, record) = recorder();
        drop(Progress::show("Backing up", target, Duration::from_hours(1)));
        assert_eq!(record.iter().collect::<String>(), "");
        let (target, record) = recorder();
        let progress = Progress::show("Backing up", target, Duration::ZERO);
        let first = record.iter().find(|text| !text.trim().is_empty()).unwrap();
        assert!(first.starts_with("Backing up"), "{first}");
        drop(progress);
    }

    #[test]
    fn durations_and_sizes_have_readable_units() {
        for (millis, expected) in [
            (12, "12 ms"),
            (999, "999 ms"),
            (3249, "3.2 s"),
            (59_960, "59.9 s"),
            (60_000, "1 min 0 s"),
            (245_900, "4 min 5 s"),
        ] {
            assert_eq!(describe_duration(Duration::from_millis(millis)), expected);
        }
        for (bytes, expected) in [
            (0, "0 KiB"),
            (36_000, "36 KiB"),
            (1023 << 10, "1023 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1 << 20, "1.0 MiB"),
            (88_080_384, "84.0 MiB"),
            (1_073_689_395, "1023.9 MiB"),
            ((1 << 30) - 1, "1.0 GiB"),
            (5 << 29, "2.5 GiB"),
        ] {
            assert_eq!(describe_size(bytes), expected);
        }
    }
}
