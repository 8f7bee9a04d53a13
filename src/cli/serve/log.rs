//! The log of a running server, as text or JSON lines on standard error.
//!
//! Threads put lines into a bounded queue, and one thread writes them. If standard error is not read fast
//! enough, the queue fills up, and further lines are dropped and counted. Lines that cannot be written, for
//! example to a full disk, are dropped and not counted. Logging never blocks a request.

#![expect(clippy::disallowed_methods, reason = "a log line contains the time")]

use std::any::Any;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::diagnostics::{hint, print_faults, print_notes};
use frontdesk_app as app;
use frontdesk_config as config;
use frontdesk_process::panics::{self, Panic};
use frontdesk_site::fault::{Fault, Severity};

/// Maximum number of lines in the queue: less than 2 MB, as most lines are about 200 bytes long.
const MAX_QUEUED: usize = 8192;
/// A write takes no more queued lines once it has this many bytes, the default capacity of a pipe.
const MAX_WRITE: usize = 64 * 1024;
/// Maximum time that a flush waits for the queue to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The handle to the log. Dropping it flushes the queue.
#[derive(Debug)]
pub(super) struct ServerLog {
    pub(super) is_json: bool,
    pub(super) queue: LogQueue,
}

impl ServerLog {
    /// Installs the log for this process, and a panic hook that logs uncaught panics. Unless the options say
    /// otherwise, the log is text if standard error is a terminal, and JSON if not.
    ///
    /// Drops all events from libraries, because libraries may quote requests at lower log levels.
    pub(super) fn start(options: config::LogOptions) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let is_json = options.is_json.unwrap_or(!is_terminal);
        let queue = LogQueue::start_writer(io::stderr(), MAX_QUEUED, is_json);
        let colors = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let own = Targets::new()
            .with_target("frontdesk", LevelFilter::from_level(options.level))
            .with_target(app::ACCESS_LOG_TARGET, LevelFilter::INFO);
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(Arc::new(queue.clone()))
            .with_target(false)
            .log_internal_errors(false);
        let layer = if is_json {
            layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        } else {
            layer.with_ansi(colors).boxed()
        };
        // If a subscriber is already installed, as in tests, it stays in place.
        let _ = tracing_subscriber::registry().with(layer.with_filter(own)).try_init();
        let last = queue.clone();
        panics::set_hook(move |panic, ends_process| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let thread = std::thread::current();
            let thread = thread.name().unwrap_or("(unnamed)");
            let message = describe_panic(panic.payload());
            tracing::error!(place, thread, "{message}");
            if ends_process {
                tracing::error!(
                    "the inbox can no longer guarantee that submissions are stored: the process ends now and must be started again; no accepted submission is lost"
                );
            }
            last.flush();
        });
        Self { is_json, queue }
    }

    /// Logs faults in the site or its configuration, or prints them if the log is text.
    pub(super) fn log_faults(&self, faults: &[Fault]) {
        if !self.is_json {
            self.queue.flush();
            print_faults(faults);
            return;
        }
        for fault in faults {
            log_fault(fault, true);
        }
    }

    /// Logs notes about the site, or prints them if the log is text.
    pub(super) fn log_notes(&self, notes: &[String]) {
        if self.is_json {
            for note in notes {
                tracing::info!("{note}");
            }
        } else {
            self.queue.flush();
            print_notes(notes);
        }
    }

    /// Logs the error that ended the server if the log is JSON, and returns failure. Otherwise returns the
    /// error for printing.
    pub(super) fn conclude(&self, result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
        let error = match result {
            Err(error) if self.is_json => error,
            result => return result,
        };
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        tracing::error!(causes = causes.join("; "), hint = hint(&error), "{error}");
        Ok(ExitCode::FAILURE)
    }
}

/// Logs a fault: with its place, line and hint as fields if the log is JSON.
pub(super) fn log_fault(fault: &Fault, is_json: bool) {
    let Fault { severity, place, line, message, hint, key: _ } = fault;
    match (severity, is_json) {
        (Severity::Error, true) => tracing::error!(place, line, hint, "{message}"),
        (Severity::Warning, true) => tracing::warn!(place, line, hint, "{message}"),
        (Severity::Error, false) => tracing::error!("{fault}"),
        (Severity::Warning, false) => tracing::warn!("{fault}"),
    }
}

impl Drop for ServerLog {
    fn drop(&mut self) {
        self.queue.flush();
    }
}

/// Describes an uncaught panic. Quotes its message only if it is constant: a formatted message could
/// contain a visitor's data.
fn describe_panic(payload: &(dyn Any + Send)) -> String {
    if let Some(panic) = payload.downcast_ref::<Panic>() {
        // The panic was passed on from another thread.
        return format!("{panic} ended a request or a task");
    }
    let reason = payload.downcast_ref::<&'static str>().map(|text| format!(": {text}"));
    format!("a defect in frontdesk ended a request or a task{}", reason.unwrap_or_default())
}

enum LogMessage {
    Line(Vec<u8>),
    /// The writer drops the sender after it has written all earlier lines.
    Flush(Sender<()>),
}

/// The bounded queue of lines. Lines that do not fit are dropped.
#[derive(Debug, Clone)]
pub(super) struct LogQueue {
    sender: SyncSender<LogMessage>,
    /// Number of lines that did not fit into the queue.
    pub(super) lost: Arc<AtomicU64>,
}

impl LogQueue {
    /// Creates a queue of up to `capacity` lines, and starts the thread that writes them to `out`. If the
    /// thread cannot be started, all lines are dropped and counted.
    fn start_writer(out: impl Write + Send + 'static, capacity: usize, is_json: bool) -> Self {
        let (sender, lines) = mpsc::sync_channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let spawned = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_lines(out, &lines, &counted, is_json));
        // If the thread did not start, its receiver is gone, so `write` drops and counts all lines.
        drop(spawned);
        Self { sender, lost }
    }

    /// Waits until all queued lines are written, for at most [`FLUSH_TIMEOUT`]. Returns at once if the queue
    /// is full.
    pub(super) fn flush(&self) {
        let (done, written) = mpsc::channel();
        if self.sender.try_send(LogMessage::Flush(done)).is_ok() {
            // Returns when the writer drops `done`, or after the timeout.
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Writes queued lines to `out` in batches until all senders are gone. After each batch, writes how many more
/// lines were lost, if any. Ignores write errors.
fn write_lines(mut out: impl Write, lines: &Receiver<LogMessage>, lost: &AtomicU64, is_json: bool) {
    let mut reported = 0;
    let mut pending = Vec::new();
    while let Ok(first) = lines.recv() {
        let mut flushed = Vec::new();
        let more = std::iter::from_fn(|| lines.try_recv().ok());
        for message in std::iter::once(first).chain(more) {
            match message {
                LogMessage::Line(line) => pending.extend_from_slice(&line),
                LogMessage::Flush(done) => flushed.push(done),
            }
            if pending.len() >= MAX_WRITE {
                break;
            }
        }
        let count = lost.load(Relaxed) - reported;
        if count > 0 {
            let message = "log lines were lost: standard error is not read fast enough";
            let now = jiff::Timestamp::now();
            let line = if is_json {
                format!(r#"{{"timestamp":"{now:.6}","level":"WARN","message":"{message}","count":{count}}}"#)
            } else {
                format!("{now:.6}  WARN {message} count={count}")
            };
            pending.extend_from_slice(line.as_bytes());
            pending.push(b'\n');
            reported += count;
        }
        // Ignore errors, because there is nowhere else to report them.
        let _ = out.write_all(&pending).and_then(|()| out.flush());
        pending.clear();
        drop(flushed);
    }
}

/// The formatter calls `write` once for each line.
impl Write for &LogQueue {
    /// Queues the line. Drops and counts it if the queue is full; never blocks or fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(LogMessage::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};
    use std::time::Instant;

    use super::*;

    /// A pipe whose writes block until it is opened.
    #[derive(Clone, Default)]
    struct Pipe(Arc<(Mutex<State>, Condvar)>);

    #[derive(Default)]
    struct State {
        is_open: bool,
        is_blocked: bool,
        text: Vec<u8>,
    }

    impl Pipe {
        fn open(&self) {
            self.0.0.lock().unwrap().is_open = true;
            self.0.1.notify_all();
        }

        fn wait_until_blocked(&self) {
            let state = self.0.0.lock().unwrap();
            drop(self.0.1.wait_while(state, |state| !state.is_blocked).unwrap());
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.0.lock().unwrap().text.clone()).unwrap()
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.0.lock().unwrap();
            state.is_blocked = true;
            self.0.1.notify_all();
            let mut state = self.0.1.wait_while(state, |state| !state.is_open).unwrap();
            state.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_do_not_fit_are_dropped_and_counted() {
        for is_json in [false, true] {
            let pipe = Pipe::default();
            let queue = LogQueue::start_writer(pipe.clone(), 10, is_json);
            let say = |number: usize| (&queue).write_all(format!("{{\"n\":{number}}}\n").as_bytes()).unwrap();
            say(0);
            pipe.wait_until_blocked();
            (1..100).for_each(say);
            assert_eq!(queue.lost.load(Relaxed), 89);
            pipe.open();
            // Waits until the queue has room again.
            while queue.sender.try_send(LogMessage::Line(b"{\"n\":100}\n".to_vec())).is_err() {
                std::thread::yield_now();
            }
            // A flush may time out on a busy machine.
            let began = Instant::now();
            let is_written = |text: &str| text.contains("{\"n\":100}") && text.contains("89");
            while !is_written(&pipe.text()) && began.elapsed() < Duration::from_mins(10) {
                queue.flush();
            }
            let text = pipe.text();
            let count = |words: &str| text.lines().filter(|line| line.contains(words)).count();
            assert_eq!(count("{\"n\":"), 12, "{text}");
            assert_eq!(count("log lines were lost"), 1, "{text}");
            assert!(text.contains("89"), "{text}");
            if is_json {
                let is_object =
                    |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap().is_object();
                assert!(text.lines().all(is_object), "{text}");
            }
        }
    }

    #[test]
    fn a_panic_logs_only_constant_messages() {
        let known = describe_panic(&"the inbox's writer is gone");
        assert_eq!(known, "a defect in frontdesk ended a request or a task: the inbox's writer is gone");
        let composed = format!("no place for {}", "Ada Lovelace");
        assert_eq!(describe_panic(&composed), "a defect in frontdesk ended a request or a task");
        assert_eq!(describe_panic(&7), "a defect in frontdesk ended a request or a task");
    }
}
