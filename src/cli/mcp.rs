//! `frontdesk mcp`: the inbox as tools for the operator's own AI assistant, over the Model Context Protocol
//! on standard input and output.
//!
//! Standard output carries protocol messages and nothing else. Tools run one at a time on a thread of their
//! own. Each call opens the configuration and the inbox again, so the process survives restarts of the
//! database, restores, and changes of the configuration.

mod arguments;
mod change;
mod report;
mod result_boundary;
mod session;
mod submissions;
mod tools;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use frontdesk_mcp::{CallOutcome, ServeError, ServerDescription, ToolDescription, ToolProvider};
use serde_json::{Map, Value};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::arguments::ToolArguments;
use self::session::{McpSession, ToolError};
use self::tools::{TOOLS, ToolSpec};
use crate::cli::config_needs;
use crate::cli::diagnostics::with_hint;
use frontdesk_forms::text::{cut, visible};
use frontdesk_process::panics::{self, Part};

/// Maximum length of a tool's name in an error, in characters.
const MAX_NAME: usize = 64;

#[derive(Debug, clap::Args)]
pub(super) struct McpOptions {
    /// Also offer tools that change submissions: hold, release, spam, ham, retry, discard, done, reopen and
    /// note
    #[arg(long)]
    allow_changes: bool,
}

/// Serves one client until it closes standard input. Fails at once if the configuration has errors in what
/// opening the inbox needs; other errors are printed as warnings.
pub(super) fn run(
    folder: PathBuf,
    data_dir: Option<PathBuf>,
    options: &McpOptions,
) -> anyhow::Result<ExitCode> {
    start_log();
    let session = McpSession::new(folder, data_dir, options.allow_changes);
    // Check the configuration now: in the first tool call, the operator would not see why it fails.
    session.load_configuration(config_needs::STORE)?;
    if std::io::stdin().is_terminal() {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "Waiting for an MCP client on standard input; Ctrl-C ends it.");
    }
    frontdesk_mcp::serve(Arc::new(session)).map_err(|error| match error {
        ServeError::NotInitialized => {
            with_hint(error, "this command is started by an MCP client; if you type messages yourself, begin with `initialize`")
        }
        error => error.into(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Logs warnings and errors of this program, and errors of the SDK, to standard error. At lower levels, the
/// SDK quotes messages.
fn start_log() {
    let own =
        Targets::new().with_target("frontdesk", LevelFilter::WARN).with_target("rmcp", LevelFilter::ERROR);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // If a subscriber is already installed, it stays in place.
    let _ = tracing_subscriber::registry().with(layer.with_filter(own)).try_init();
}

impl ToolProvider for McpSession {
    fn describe(&self) -> ServerDescription {
        ServerDescription {
            name: "frontdesk",
            title: "frontdesk: the inbox of a company website",
            version: env!("CARGO_PKG_VERSION"),
            instructions: tools::instructions(self.allows_changes),
        }
    }

    /// The tools that this session offers: without `--allow-changes`, only those that read.
    fn tools(&self) -> Vec<ToolDescription> {
        let describe = |tool: &ToolSpec| ToolDescription {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            input_schema: tools::input_schema(tool),
            hints: tool.hints,
        };
        TOOLS.iter().filter(|tool| is_offered(tool, self)).map(describe).collect()
    }

    /// Runs a tool that this session offers, and refuses others. A panic of the tool is logged, and is the
    /// result of this call only.
    fn call(&self, name: &str, arguments: Map<String, Value>) -> CallOutcome {
        let shown = || visible(cut(name, MAX_NAME));
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            return CallOutcome::Refused(format!("there is no tool `{}`", shown()));
        };
        if !is_offered(tool, self) {
            return CallOutcome::Refused(format!(
                "`{}` is not available: this server only reads. The operator can start it with `--allow-changes`",
                shown()
            ));
        }
        let called = panics::catch(Part::Inbox, || {
            panics::inject("mcp-tool", tool.name);
            call(tool, self, arguments)
        });
        match called {
            Ok(Ok(text)) => CallOutcome::Done(text),
            Ok(Err(error)) => CallOutcome::Failed(error.to_string()),
            Err(panic) => {
                tracing::error!(tool = tool.name, "{panic} ended a tool call; the client gets an error");
                CallOutcome::Failed(format!("{panic} ended this tool call"))
            }
        }
    }
}

fn is_offered(tool: &ToolSpec, session: &McpSession) -> bool {
    session.allows_changes || tool.hints.is_read_only
}

/// Runs a tool, and returns its result, labeled as data. Fails if `given` has an unknown argument.
fn call(tool: &ToolSpec, session: &McpSession, given: Map<String, Value>) -> Result<String, ToolError> {
    let mut arguments = ToolArguments::new(given, &(tool.parameters)())?;
    result_boundary::seal_result((tool.run)(session, &mut arguments)?)
}
