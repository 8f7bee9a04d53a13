//! Contains panics: a defect that one page, image, row, request or reply triggers costs only that item.
//!
//! All code that works on content, stored rows, requests or peers' replies runs in [`catch`] or
//! [`catch_async`]. The caller reports the panic with the item's file or id, and continues without the item.
//! Only the writer of the inbox ends the process ([`end_process_on_panic`]).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::thread;
use std::time::Duration;

/// The part of the program that panicked: a label of the metric `frontdesk_panics_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Content of the site: a page, a template, an image, a font, a file of a build.
    Content,
    /// A request to the public or the private address.
    Request,
    /// Screening and processing of an accepted submission, and changes of the inbox.
    Submission,
    /// A delivery attempt.
    Delivery,
    /// The digest, retention, encryption, and other tasks that run at intervals.
    Maintenance,
    /// A request to the inbox's web interface, or a call of an MCP tool.
    Inbox,
    /// The fetch of an agent's key directory.
    AgentKeys,
    /// An ACME order, or a certificate file.
    Certificate,
    /// Any thread that belongs to none of the other parts.
    Background,
}

impl Part {
    pub const ALL: [Part; 9] = [
        Part::Content,
        Part::Request,
        Part::Submission,
        Part::Delivery,
        Part::Maintenance,
        Part::Inbox,
        Part::AgentKeys,
        Part::Certificate,
        Part::Background,
    ];

    /// The name of the part, which is a label's value in the metric `frontdesk_panics_total`.
    pub fn name(self) -> &'static str {
        match self {
            Part::Content => "content",
            Part::Request => "request",
            Part::Submission => "submission",
            Part::Delivery => "delivery",
            Part::Maintenance => "maintenance",
            Part::Inbox => "inbox",
            Part::AgentKeys => "agent_keys",
            Part::Certificate => "certificate",
            Part::Background => "background",
        }
    }
}

/// The delay before a background task is started again after a panic.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Maximum length of a stored message. A message may quote a whole page, for example after a wrong string
/// index.
const MAX_MESSAGE_CHARS: usize = 300;

/// The number of panics in each part. This is a static because the panic hook is global.
static COUNTS: [AtomicU64; Part::ALL.len()] = [const { AtomicU64::new(0) }; Part::ALL.len()];

thread_local! {
    /// Whether this thread is inside a [`catch`].
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// The last panic inside a [`catch`], stored by the hook, because only the hook knows its location.
    static LAST: RefCell<Option<Panic>> = const { RefCell::new(None) };
    /// Whether a panic on this thread ends the process.
    static ENDS_PROCESS: Cell<bool> = const { Cell::new(false) };
}

/// A caught panic. Formatting it leaves out a message that is not constant, because such a message could
/// contain a visitor's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The source file, line and column: `crates/site/src/math.rs:41:5`. Empty if no hook is installed.
    location: String,
    /// The message on one line, cut to [`MAX_MESSAGE_CHARS`].
    message: String,
    /// Whether the message is a literal in the source code, so that it contains no data.
    is_constant: bool,
}

impl Panic {
    /// Reads the message from a panic's payload, and puts it on one line. If the payload is itself a
    /// [`Panic`] ([`resume`]), returns that, with its own location.
    fn new(payload: &(dyn Any + Send), location: String) -> Panic {
        if let Some(panic) = payload.downcast_ref::<Panic>() {
            return panic.clone();
        }
        let constant = payload.downcast_ref::<&'static str>().map(|text| (*text).to_owned());
        let formatted = || payload.downcast_ref::<String>().cloned();
        let is_constant = constant.is_some();
        let message = constant.or_else(formatted).unwrap_or_default();
        let words: Vec<&str> = message.split_whitespace().collect();
        let message = words.join(" ").chars().take(MAX_MESSAGE_CHARS).collect();
        Panic { location, message, is_constant }
    }

    /// The panic with its message even if that is not constant, and so may quote the item. Use this only for
    /// the operator's content.
    pub fn with_message(&self) -> String {
        Panic { is_constant: true, ..self.clone() }.to_string()
    }
}

impl fmt::Display for Panic {
    /// Writes the location if it is known, and the message if it is constant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a defect in frontdesk")?;
        let message = Some(&self.message).filter(|message| self.is_constant && !message.is_empty());
        match (self.location.is_empty(), message) {
            (true, None) => Ok(()),
            (true, Some(message)) => write!(f, " ({message})"),
            (false, None) => write!(f, " (at {})", self.location),
            (false, Some(message)) => write!(f, " (at {}: {message})", self.location),
        }
    }
}

/// Installs the panic hook of the process. The hook stores panics inside [`catch`]. It counts all others for
/// the part of their thread, calls `report` with whether the process ends, and then aborts the process if
/// [`end_process_on_panic`] was called on the thread.
pub fn set_hook(report: impl Fn(&PanicHookInfo<'_>, bool) + Send + Sync + 'static) {
    panic::set_hook(Box::new(move |info| {
        if IS_CAUGHT.try_with(Cell::get).unwrap_or(false) {
            let location = info.location().map(ToString::to_string).unwrap_or_default();
            let found = Panic::new(info.payload(), location);
            let _ = LAST.try_with(|last| last.borrow_mut().replace(found));
            return;
        }
        let ends_process = ENDS_PROCESS.try_with(Cell::get).unwrap_or(false);
        COUNTS[Part::of_thread(thread::current().name()) as usize].fetch_add(1, Relaxed);
        report(info, ends_process);
        if ends_process {
            std::process::abort();
        }
    }));
}

impl Part {
    /// The part to which an uncaught panic on a thread with this name is attributed.
    fn of_thread(name: Option<&str>) -> Part {
        match name.unwrap_or_default() {
            name if name.starts_with("worker-") || name == "ops" => Part::Request,
            name if name.starts_with("inbox-pool") || name == "inbox" => Part::Inbox,
            _ => Part::Background,
        }
    }
}

/// Makes the hook abort the process after a panic on this thread that is not caught. Requires [`set_hook`].
pub fn end_process_on_panic() {
    ENDS_PROCESS.set(true);
}

/// The number of panics in a part since the process started.
pub fn count(part: Part) -> u64 {
    COUNTS[part as usize].load(Relaxed)
}

/// The number of all panics since the process started.
pub fn total() -> u64 {
    Part::ALL.into_iter().map(count).sum()
}

/// Calls `work`, and catches its panic, which is counted for `part`. The caller must discard everything that
/// `work` may have left half changed, and report the panic.
pub fn catch<T>(part: Part, work: impl FnOnce() -> T) -> Result<T, Panic> {
    let caught = capture(work);
    if caught.is_err() {
        COUNTS[part as usize].fetch_add(1, Relaxed);
    }
    caught
}

/// Like [`catch`], but does not count the panic, because the caller passes it on with [`resume`].
pub fn capture<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    let was_caught = IS_CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    result.map_err(|payload| {
        let located = LAST.take();
        located.unwrap_or_else(|| Panic::new(&*payload, String::new()))
    })
}

/// Panics again with a panic from [`capture`], usually on another thread. Keeps the panic's first location.
pub fn resume(panic: Panic) -> ! {
    panic::panic_any(panic)
}

/// Like [`catch`], for a future. If a poll panics, returns the panic and does not poll the future again.
pub fn catch_async<F: Future>(part: Part, future: F) -> impl Future<Output = Result<F::Output, Panic>> {
    let mut future = Box::pin(future);
    std::future::poll_fn(move |context| match catch(part, || future.as_mut().poll(context)) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
}

/// Runs a background task until it returns. Blocks the thread. After a panic, logs it and calls `work` again
/// a second later.
#[expect(clippy::disallowed_methods, reason = "a task that panics at once must not use up a processor")]
pub fn restart_after_panic(task: &'static str, mut work: impl FnMut()) {
    while let Err(panic) = catch(Part::Background, &mut work) {
        tracing::error!(task, "{panic} ended a background task; it will be started again");
        thread::sleep(RESTART_DELAY);
    }
}

/// Panics if a test requests it: if the file that the environment variable `INJECT_PANICS` names has a line
/// that is `point`, or `point`, a space and a part of `item`. Does nothing in builds without debug
/// assertions.
#[inline]
pub fn inject(point: &str, item: impl fmt::Display) {
    #[cfg(debug_assertions)]
    injection::panic_if_asked(point, &item);
    #[cfg(not(debug_assertions))]
    let _ = (point, item);
}

#[cfg(debug_assertions)]
mod injection {
    use std::fmt::Display;
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();

    /// Panics if the file named by `INJECT_PANICS` lists this point. Tests can change the file at any time.
    pub(super) fn panic_if_asked(point: &str, item: &dyn Display) {
        let file = FILE.get_or_init(|| std::env::var_os("INJECT_PANICS").map(PathBuf::from));
        let Some(file) = file else { return };
        let item = item.to_string();
        let lines = std::fs::read_to_string(file).unwrap_or_default();
        let is_asked = |line: &str| match line.split_once(' ') {
            Some((name, part)) => name == point && item.contains(part),
            None => line == point,
        };
        assert!(!lines.lines().any(is_asked), "a panic that a test injects at {point}: {item}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_is_counted_and_described() {
        let before = count(Part::Content);
        assert_eq!(catch(Part::Content, || 1), Ok(1));
        let constant = catch(Part::Content, || -> () { panic!("a constant text") }).expect_err("a panic");
        assert!(constant.to_string().ends_with("a constant text)"), "{constant}");
        let name = "Ada";
        let formatted = catch(Part::Content, || -> () { panic!("the name is {name}") }).expect_err("a panic");
        assert!(!formatted.to_string().contains("Ada"), "{formatted}");
        assert!(formatted.with_message().contains("the name is Ada"), "{}", formatted.with_message());
        assert!(count(Part::Content) >= before + 2);
    }

    #[test]
    fn a_panic_passes_from_thread_to_thread_with_its_cause() {
        let there = thread::spawn(|| capture(|| -> () { panic!("far away") })).join().expect("caught there");
        let here = catch(Part::Background, || resume(there.expect_err("a panic"))).expect_err("again");
        assert!(here.to_string().ends_with("far away)"), "{here}");
    }

    #[test]
    fn a_panic_after_the_inner_one_is_caught_by_the_outer_one() {
        let outer = catch(Part::Background, || {
            assert!(catch(Part::Background, || panic!("inner")).is_err());
            panic!("outer")
        });
        assert!(outer.is_err_and(|panic: Panic| panic.to_string().ends_with("outer)")));
    }

    #[tokio::test]
    async fn a_later_poll_of_a_future_may_panic() {
        let future = async {
            tokio::task::yield_now().await;
            panic!("at the second poll")
        };
        let caught: Result<(), Panic> = catch_async(Part::Background, future).await;
        assert!(caught.is_err_and(|panic| panic.to_string().ends_with("second poll)")));
    }

    #[test]
    fn a_background_task_runs_again_after_a_panic() {
        let mut runs = 0;
        restart_after_panic("test", || {
            runs += 1;
            assert!(runs > 1, "the first run");
        });
        assert_eq!(runs, 2);
    }
}
