//! `frontdesk mcp`: a Model Context Protocol server on standard input and output, for the operator's own AI
//! assistant. The SDK is used in this file only.
//!
//! Standard output carries protocol messages and nothing else. Tools run one at a time on a thread of their
//! own. Each call opens the configuration and the inbox again, so the process survives restarts of the
//! database, restores, and changes of the configuration.

mod arguments;
mod change;
mod envelope;
mod report;
mod session;
mod submissions;
mod tools;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{QuitReason, RequestContext, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use tokio::sync::Mutex;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::arguments::ToolArguments;
use self::session::{McpSession, ToolError};
use self::tools::{Effect, TOOLS, ToolSpec};
use crate::cli::output::with_hint;
use crate::forms::text::visible;

/// Maximum length of a message from the client, in bytes. Longer ones are skipped.
const MAX_MESSAGE: usize = 1 << 20;
/// The stack of the threads that run tools, in bytes: that of a main thread, because `check` loads a site.
const STACK_SIZE: usize = 8 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct McpOptions {
    /// Also offer tools that change submissions: hold, release, retry, discard, done, reopen and note
    #[arg(long)]
    allow_changes: bool,
}

/// Serves one client until it closes standard input.
pub(super) fn run(
    folder: PathBuf,
    data_dir: Option<PathBuf>,
    options: &McpOptions,
) -> anyhow::Result<ExitCode> {
    start_log();
    let session = McpSession::new(folder, data_dir, options.allow_changes);
    // Fails now rather than in the first tool call, where the operator would not see the reason.
    session.load_configuration()?;
    if std::io::stdin().is_terminal() {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "Waiting for an MCP client on standard input; Ctrl-C ends it.");
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().thread_stack_size(STACK_SIZE).build()?;
    runtime.block_on(serve(session))
}

async fn serve(session: McpSession) -> anyhow::Result<ExitCode> {
    let server = McpServer { session: Arc::new(session), turn: Mutex::new(()) };
    let (stdin, stdout) = stdio();
    let transport = AsyncRwTransport::new_server(stdin, stdout).with_max_line_length(MAX_MESSAGE);
    let running = match serve_server(server, transport).await {
        Ok(running) => running,
        // The client ended without a request.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(ExitCode::SUCCESS),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            return Err(with_hint(
                anyhow!("the client's first message is not an `initialize` request"),
                "an MCP client starts this command; by hand, begin with `initialize`",
            ));
        }
        Err(error) => return Err(error.into()),
    };
    match running.waiting().await? {
        QuitReason::JoinError(error) => bail!("the connection to the client failed: {error}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Logs to standard error. Leaves out what the SDK logs below errors, because it quotes messages.
fn start_log() {
    let own =
        Targets::new().with_target("frontdesk", LevelFilter::WARN).with_target("rmcp", LevelFilter::ERROR);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // If a subscriber is already installed, it stays in place.
    let _ = tracing_subscriber::registry().with(layer.with_filter(own)).try_init();
}

struct McpServer {
    session: Arc<McpSession>,
    /// Held while a tool runs, so that a client cannot start many at once.
    turn: Mutex<()>,
}

impl McpServer {
    fn is_offered(&self, tool: &ToolSpec) -> bool {
        self.session.allows_changes || tool.effect == Effect::Reads
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let about = Implementation::new("frontdesk", env!("CARGO_PKG_VERSION"))
            .with_title("frontdesk: the inbox of a company website");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(about)
            .with_instructions(tools::instructions(self.session.allows_changes))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = TOOLS.iter().filter(|tool| self.is_offered(tool));
        Ok(ListToolsResult::with_all_items(offered.map(describe_tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = visible(&request.name.chars().take(64).collect::<String>());
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        };
        if !self.is_offered(tool) {
            let message = format!(
                "`{name}` is not available: this server only reads. The operator can start it with `--allow-changes`"
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        let _turn = self.turn.lock().await;
        let (session, given) = (self.session.clone(), request.arguments.unwrap_or_default());
        // The database and the loading of a site block the thread.
        let called = tokio::task::spawn_blocking(move || call(tool, &session, given)).await;
        let called = called.unwrap_or_else(|_| {
            Err(ToolError::new("the tool failed because of a defect in frontdesk; its log has the details"))
        });
        Ok(match called {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        }
        .into())
    }
}

/// Runs a tool. Returns its labelled result.
fn call(
    tool: &ToolSpec,
    session: &McpSession,
    given: serde_json::Map<String, serde_json::Value>,
) -> Result<String, ToolError> {
    let mut arguments = ToolArguments::new(given, &(tool.parameters)())?;
    envelope::seal_result((tool.run)(session, &mut arguments)?)
}

fn describe_tool(tool: &ToolSpec) -> Tool {
    let (is_read_only, is_destructive, is_idempotent) = match tool.effect {
        Effect::Reads => (true, false, true),
        Effect::Changes { is_destructive, is_idempotent } => (false, is_destructive, is_idempotent),
    };
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(is_read_only)
        .destructive(is_destructive)
        .idempotent(is_idempotent)
        .open_world(false);
    Tool::new(tool.name, Cow::Borrowed(tool.description), Arc::new(tools::input_schema(tool)))
        .with_title(tool.title)
        .with_annotations(annotations)
}
