//! What a running server says: events and nothing else, as lines for people or for programs, on standard error.
//!
//! Whoever says something puts the line into a bounded queue and goes on; one thread writes. Where nobody reads standard error, or
//! not fast enough, the queue fills: further lines are lost and counted, and nothing else is. What cannot be written at all (the
//! other end is gone, the disk is full) is lost as well.

use std::any::Any;
use std::io::{self, IsTerminal as _, Write};
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config;
use crate::fault::{Fault, Severity};
use crate::web;

/// So many lines wait to be written; most have about 200 bytes.
const LONGEST_QUEUE: usize = 8192;

/// Lines are written together up to this many bytes.
const LARGEST_WRITE: usize = 64 * 1024;

/// For so long the end of the process waits for what is still to be said.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The log, as the rest of the server sees it.
#[derive(Debug)]
pub(super) struct Log {
    is_json: bool,
    queue: LogQueue,
}

impl Log {
    /// Takes over what is said in this process from here on, panics included.
    ///
    /// Only our own events are let through: what libraries say at the lower levels could quote a request.
    pub(super) fn start(options: config::Log) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let is_json = match options.format {
            config::LogFormat::Auto => !is_terminal,
            config::LogFormat::Text => false,
            config::LogFormat::Json => true,
        };
        let queue = LogQueue::start(io::stderr(), LONGEST_QUEUE, is_json);
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let own = Targets::new()
            .with_target("frontdesk", LevelFilter::from_level(options.level))
            .with_target(web::REQUESTS, LevelFilter::INFO);
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(queue.clone())
            .with_target(false)
            .log_internal_errors(false);
        let layer = if is_json {
            layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        } else {
            layer.with_ansi(colours).boxed()
        };
        // A second call, in tests, leaves the first one in place.
        let _ = tracing_subscriber::registry().with(layer.with_filter(own)).try_init();
        let last = queue.clone();
        std::panic::set_hook(Box::new(move |panic| {
            say_panic(panic);
            last.flush();
            // What fails in a worker is one connection's affair. Of the others each does what nobody else does: whoever watches over
            // the process starts it again, which loses nothing.
            if !std::thread::current().name().is_some_and(|name| name.starts_with(web::WORKER)) {
                std::process::abort();
            }
        }));
        Self { is_json, queue }
    }

    /// Whether each line is a JSON object.
    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    /// How many lines were lost so far.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        self.queue.lost.clone()
    }

    /// Waits a moment until what was said is written.
    pub(super) fn flush(&self) {
        self.queue.flush();
    }

    /// Says what is wrong with the site or its configuration.
    pub(super) fn faults(&self, faults: &[Fault]) {
        if !self.is_json {
            self.flush();
            super::site::print(faults);
            return;
        }
        for Fault { severity, place, line, message, hint } in faults {
            match severity {
                Severity::Error => tracing::error!(place, line, hint, "{message}"),
                Severity::Warning => tracing::warn!(place, line, hint, "{message}"),
            }
        }
    }

    /// Says why the server has ended, if that is done here: an error is handed back where it is told like that of any command.
    pub(super) fn conclude(&self, result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
        let error = match result {
            Err(error) if self.is_json => error,
            result => return result,
        };
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        tracing::error!(causes = causes.join("; "), "{error}");
        Ok(ExitCode::FAILURE)
    }
}

/// Whoever ends the server has heard it all.
impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Says that a thread has panicked, and where.
fn say_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("(unnamed)");
    tracing::error!(place, thread, "{}", panicked(panic.payload()));
}

/// That something has panicked, with what the panic says of itself where that is a text of the program. One that was put together
/// as it ran may hold anything, a visitor's message for one, and is left out.
fn panicked(payload: &(dyn Any + Send)) -> String {
    let reason = payload.downcast_ref::<&'static str>().map(|text| format!(": {text}"));
    format!("this is a bug, a thread has panicked{}", reason.unwrap_or_default())
}

/// What the thread that writes is sent.
enum Message {
    Line(Vec<u8>),
    /// Everything before is to be written; then the sender is dropped.
    Flush(Sender<()>),
}

/// The queue's end where lines go in.
#[derive(Debug, Clone)]
struct LogQueue {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl LogQueue {
    fn start(out: impl Write + Send + 'static, capacity: usize, is_json: bool) -> Self {
        let (sender, lines) = mpsc::sync_channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let spawned = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write(out, &lines, &counted, is_json));
        // Without that thread nobody takes the lines, and all of them are lost.
        drop(spawned);
        Self { sender, lost }
    }

    fn flush(&self) {
        let (done, written) = mpsc::channel();
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            // Nothing is ever sent: it ends when the other end is dropped, or when it has taken too long.
            let _ = written.recv_timeout(LAST_WORDS);
        }
    }
}

/// Writes what comes until nobody is left to send anything, as much at a time as is there.
fn write(mut out: impl Write, lines: &Receiver<Message>, lost: &AtomicU64, is_json: bool) {
    let mut told = 0;
    let mut pending = Vec::new();
    while let Ok(first) = lines.recv() {
        let mut flushed = Vec::new();
        let more = std::iter::from_fn(|| lines.try_recv().ok());
        for message in std::iter::once(first).chain(more) {
            match message {
                Message::Line(line) => pending.extend_from_slice(&line),
                Message::Flush(done) => flushed.push(done),
            }
            if pending.len() >= LARGEST_WRITE {
                break;
            }
        }
        let now = lost.load(Relaxed);
        if now > told {
            pending.extend_from_slice(lost_lines(now - told, is_json, jiff::Timestamp::now()).as_bytes());
            told = now;
        }
        // Who does not listen misses it.
        let _ = out.write_all(&pending).and_then(|()| out.flush());
        pending.clear();
        drop(flushed);
    }
}

/// The line that stands for those that are missing.
fn lost_lines(count: u64, is_json: bool, now: jiff::Timestamp) -> String {
    let message = "lines of the log were lost: standard error does not take them fast enough";
    let now = format!("{now:.6}");
    if is_json {
        format!(
            "{{\"timestamp\":\"{now}\",\"level\":\"WARN\",\"message\":\"{message}\",\"count\":{count}}}\n"
        )
    } else {
        format!("{now}  WARN {message} count={count}\n")
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Each call brings whole lines.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(Message::Line(line.to_vec())).is_err() {
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

    /// A pipe that nobody reads until it is opened.
    #[derive(Clone, Default)]
    struct Pipe(Arc<(Mutex<State>, Condvar)>);

    #[derive(Default)]
    struct State {
        is_open: bool,
        somebody_waits: bool,
        text: Vec<u8>,
    }

    impl Pipe {
        fn open(&self) {
            self.0.0.lock().unwrap().is_open = true;
            self.0.1.notify_all();
        }

        fn wait_until_somebody_waits(&self) {
            let state = self.0.0.lock().unwrap();
            drop(self.0.1.wait_while(state, |state| !state.somebody_waits).unwrap());
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.0.lock().unwrap().text.clone()).unwrap()
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.0.lock().unwrap();
            state.somebody_waits = true;
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
    fn lines_that_nobody_takes_are_lost_and_counted_and_nobody_waits() {
        for is_json in [false, true] {
            let pipe = Pipe::default();
            let queue = LogQueue::start(pipe.clone(), 10, is_json);
            let say = |number: usize| (&queue).write_all(format!("{{\"n\":{number}}}\n").as_bytes()).unwrap();
            say(0);
            pipe.wait_until_somebody_waits();
            (1..100).for_each(say);
            assert_eq!(queue.lost.load(Relaxed), 89);
            pipe.open();
            // There is room again, sooner or later.
            while queue.sender.try_send(Message::Line(b"{\"n\":100}\n".to_vec())).is_err() {
                std::thread::yield_now();
            }
            // A flush gives up after a second, which a busy machine may need.
            let began = Instant::now();
            let is_written = |text: &str| text.contains("{\"n\":100}") && text.contains("89");
            while !is_written(&pipe.text()) && began.elapsed() < Duration::from_mins(10) {
                queue.flush();
            }
            let text = pipe.text();
            let count = |words: &str| text.lines().filter(|line| line.contains(words)).count();
            assert_eq!(count("{\"n\":"), 12, "{text}");
            assert_eq!(count("lines of the log were lost"), 1, "{text}");
            assert!(text.contains("89"), "{text}");
            if is_json {
                let is_object =
                    |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap().is_object();
                assert!(text.lines().all(is_object), "{text}");
            }
        }
    }

    #[test]
    fn a_panic_says_only_what_the_program_says_itself() {
        let known = panicked(&"the inbox's writer is gone");
        assert_eq!(known, "this is a bug, a thread has panicked: the inbox's writer is gone");
        let composed = format!("no place for {}", "Ada Lovelace");
        assert_eq!(panicked(&composed), "this is a bug, a thread has panicked");
        assert_eq!(panicked(&7), "this is a bug, a thread has panicked");
    }
}
