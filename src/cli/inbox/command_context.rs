//! The environment of a command that reads the inbox: the open inbox, the settings, the time and the
//! standard streams.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

use std::io::{self, BufRead, BufWriter, IsTerminal as _, Write};
use std::rc::Rc;
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::cli::current_user::current_user;
use crate::cli::diagnostics::write_error;
use frontdesk_config::Config;
use frontdesk_desk::User;
use frontdesk_inbox::store::{DatabaseUrl, InboxReader};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_process::disk_space::MinFree;
use frontdesk_screening::Lexicon;

/// Width of tables, in columns, if standard output is not a terminal or its width is unknown.
const DEFAULT_WIDTH: usize = 100;

pub(in crate::cli) struct Console<'a> {
    /// The time at which the command began, in the time zone for output.
    pub(in crate::cli) now: Zoned,
    pub(in crate::cli) url: &'a DatabaseUrl,
    /// The user who makes changes, for the operator log.
    pub(in crate::cli) user: String,
    /// The open inbox; `None` before a command opens it, and if nothing has been received yet.
    pub(in crate::cli) inbox: Option<Rc<InboxReader>>,
    /// The space to keep free on the inbox's file system.
    pub(in crate::cli) min_free: MinFree,
    pub(in crate::cli) channels: &'a [Route],
    /// The site's lexicon, which is needed to teach screening with the operator's decisions.
    pub(in crate::cli) lexicon: Arc<Lexicon>,
    /// The configured users of the inbox; empty if a proxy may name other users.
    pub(in crate::cli) users: &'a [User],
    /// The width of tables, in columns.
    pub(in crate::cli) width: usize,
    pub(in crate::cli) is_terminal: bool,
    pub(in crate::cli) has_colors: bool,
    pub(in crate::cli) has_unicode: bool,
    pub(in crate::cli) input: StandardInput<'a>,
    /// Standard output, for data.
    pub(in crate::cli) out: &'a mut dyn Write,
    /// Standard error, for messages to the operator, such as errors and questions.
    pub(in crate::cli) err: &'a mut dyn Write,
}

/// The locked standard input, for notes and for the operator's answers to questions. A command must not lock
/// it again: it would wait for itself.
pub(in crate::cli) struct StandardInput<'a> {
    pub(in crate::cli) reader: &'a mut dyn BufRead,
    /// Whether standard input is a terminal, at which the operator can answer questions.
    pub(in crate::cli) is_terminal: bool,
}

impl Console<'_> {
    /// Calls `run` with the standard streams and without an open inbox. Buffers standard output, and flushes
    /// it at the end; if `run` fails, errors of that flush are ignored.
    pub(in crate::cli) fn with_standard_streams<T>(
        config: &Config,
        is_utc: bool,
        run: impl FnOnce(&mut Console<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let is_terminal = stdout.is_terminal();
        let has_colors = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
        let width = if columns > 0 { columns } else { DEFAULT_WIDTH };
        let zone = if is_utc { TimeZone::UTC } else { TimeZone::system() };
        let mut out = BufWriter::new(stdout.lock());
        let result = run(&mut Console {
            now: Timestamp::now().to_zoned(zone),
            url: &config.store.url,
            user: current_user(),
            inbox: None,
            min_free: config.maintenance.min_free,
            channels: &config.store.channels,
            lexicon: config.intake.screening.lexicon.clone(),
            users: config.web.inbox_pages.only_users(),
            width,
            is_terminal,
            has_colors,
            has_unicode: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .filter_map(std::env::var_os)
                .find(|value| !value.is_empty())
                // Compare a locale such as `de_DE.UTF-8` in lower case and without hyphens.
                .map(|locale| locale.to_string_lossy().to_ascii_lowercase().replace('-', ""))
                .is_some_and(|locale| locale.contains("utf8")),
            input: StandardInput { is_terminal: stdin.is_terminal(), reader: &mut stdin.lock() },
            out: &mut out,
            // Standard error is not locked, because another thread shows the progress there.
            err: &mut io::stderr(),
        })?;
        out.flush()?;
        Ok(result)
    }

    /// The width that names in tables of counts are cut to: that of the terminal. No limit if standard
    /// output is not a terminal.
    pub(in crate::cli) fn cut_width(&self) -> usize {
        if self.is_terminal { self.width } else { usize::MAX }
    }

    /// Prints an error with its causes and its hint to standard error.
    pub(in crate::cli) fn report(&mut self, error: &anyhow::Error) -> io::Result<()> {
        write_error("error:", error, self.err)
    }
}
