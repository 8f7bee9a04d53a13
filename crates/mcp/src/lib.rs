//! Serves tools to one client of the Model Context Protocol on standard input and output, with the official
//! SDK.
//!
//! A crate of its own, so that the SDK's generic code is compiled here, and optimized for size.

mod line_repair;

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{QuitReason, RequestContext, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

/// Maximum length of a message from the client, in bytes. Longer messages are logged, and get an error.
const MAX_MESSAGE: usize = 1 << 20;
/// The size of the buffer between standard input and the SDK, in bytes.
const PIPE_BYTES: usize = 64 << 10;
/// The stack size of the threads that run tools, in bytes: the default for a main thread on Linux.
const STACK_SIZE: usize = 8 << 20;

/// The name, version and instructions that the server sends when a session begins.
#[derive(Clone, Debug)]
pub struct ServerDescription {
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
    /// Instructions for the client's language model.
    pub instructions: String,
}

/// A tool, as clients see it.
#[derive(Clone, Debug)]
pub struct ToolDescription {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// A JSON Schema for the arguments.
    pub input_schema: Map<String, Value>,
    pub hints: ToolHints,
}

/// The effect of a tool, as hints for clients.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the hints of the protocol are independent of each other")]
pub struct ToolHints {
    pub is_read_only: bool,
    /// Whether a call removes or overwrites something, or cannot be undone.
    pub is_destructive: bool,
    /// Whether a second call with the same arguments changes nothing more.
    pub is_idempotent: bool,
    /// Whether a call affects systems outside of this server's control.
    pub is_open_world: bool,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool succeeded. Contains the result for the client's model.
    Done(String),
    /// The tool failed. Contains the reason, for the client's model.
    Failed(String),
    /// The tool does not exist, or this session does not offer it. Contains the protocol error's message.
    Refused(String),
}

/// Provides a server's tools, and runs them.
pub trait ToolProvider: Send + Sync + 'static {
    fn describe(&self) -> ServerDescription;
    fn tools(&self) -> Vec<ToolDescription>;
    /// Calls a tool. May block; there is one call at a time.
    fn call(&self, name: &str, arguments: Map<String, Value>) -> CallOutcome;
}

/// Why a server ended before the client closed standard input.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the client's first message is not an `initialize` request")]
    NotInitialized,
    #[error("the session with the MCP client failed: {0}")]
    Failed(String),
    #[error("cannot start the MCP server, because its asynchronous runtime cannot be created: {0}")]
    NotStarted(std::io::Error),
}

/// Serves one client until it closes standard input. Blocks the thread. Returns `Ok` also if the client
/// closes standard input before any message. Does not wait for a tool that is still running.
pub fn serve(provider: Arc<dyn ToolProvider>) -> Result<(), ServeError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().thread_stack_size(STACK_SIZE).build();
    let runtime = runtime.map_err(ServeError::NotStarted)?;
    let served = runtime.block_on(async {
        let (stdin, stdout) = stdio();
        let (repaired, messages) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(line_repair::repair(stdin, repaired, MAX_MESSAGE));
        let transport = AsyncRwTransport::new_server(messages, stdout);
        let server = McpServer { provider, call_lock: Mutex::new(()) };
        let running = match serve_server(server, transport).await {
            Ok(running) => running,
            // The client closed standard input before its first request.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                return Err(ServeError::NotInitialized);
            }
            Err(error) => return Err(ServeError::Failed(error.to_string())),
        };
        match running.waiting().await {
            Err(error) | Ok(QuitReason::JoinError(error)) => Err(ServeError::Failed(error.to_string())),
            Ok(_) => Ok(()),
        }
    });
    // Do not wait for the task that reads standard input: it may be waiting for the client.
    runtime.shutdown_background();
    served
}

struct McpServer {
    provider: Arc<dyn ToolProvider>,
    /// Locked while a tool runs, so that a client cannot run several tools at once.
    call_lock: Mutex<()>,
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let about = self.provider.describe();
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(about.name, about.version).with_title(about.title))
            .with_instructions(about.instructions)
    }

    /// All revisions except 2025-03-26, which requires servers to accept batches. The SDK accepts none.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        known.filter(|version| **version != ProtocolVersion::V_2025_03_26).cloned().collect()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.provider.tools().into_iter().map(to_tool).collect()))
    }

    /// Waits until no other tool runs, then calls the tool on a thread for blocking work. Returns an error if
    /// the client has canceled the call by then. A panic is a failure of the tool.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _lock = self.call_lock.lock().await;
        if context.ct.is_cancelled() {
            return Err(ErrorData::internal_error("the call was canceled before it began", None));
        }
        let provider = self.provider.clone();
        let call = move || provider.call(&request.name, request.arguments.unwrap_or_default());
        // Call the tool on a thread for blocking work, because tools read the database and files.
        let outcome = tokio::task::spawn_blocking(call).await.unwrap_or_else(|_| {
            CallOutcome::Failed(
                "the tool failed because of a defect in frontdesk; its standard error has the details"
                    .to_owned(),
            )
        });
        match outcome {
            CallOutcome::Done(text) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            CallOutcome::Failed(text) => Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into()),
            CallOutcome::Refused(text) => Err(ErrorData::invalid_params(text, None)),
        }
    }

    /// Answers with an error: the SDK passes on requests with unknown methods, and those with known methods
    /// whose parameters have a wrong shape.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(unreadable_request(request.method))
    }
}

/// The error for a request that the SDK could not read: it has an unknown method, wrong parameters, or JSON
/// that exceeds the limits.
fn unreadable_request(method: String) -> ErrorData {
    match method.as_str() {
        "tools/call" => {
            ErrorData::invalid_params("`params` needs a `name`, and `arguments` must be an object", None)
        }
        "tools/list" => ErrorData::invalid_params("`cursor` must be a string", None),
        line_repair::UNREADABLE => ErrorData::invalid_request(
            "the request has a number out of range, or more than 128 levels of lists and objects",
            None,
        ),
        _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None),
    }
}

/// Converts the description of a tool to the SDK's type, with the title and the hints as annotations.
fn to_tool(tool: ToolDescription) -> Tool {
    let hints = ToolAnnotations::with_title(tool.title)
        .read_only(tool.hints.is_read_only)
        .destructive(tool.hints.is_destructive)
        .idempotent(tool.hints.is_idempotent)
        .open_world(tool.hints.is_open_world);
    Tool::new(tool.name, Cow::Borrowed(tool.description), Arc::new(tool.input_schema))
        .with_title(tool.title)
        .with_annotations(hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_method_with_wrong_parameters_is_not_unknown() {
        for (method, code) in [
            ("tools/call", ErrorCode::INVALID_PARAMS),
            ("tools/list", ErrorCode::INVALID_PARAMS),
            ("tools/other", ErrorCode::METHOD_NOT_FOUND),
            (line_repair::UNREADABLE, ErrorCode::INVALID_REQUEST),
        ] {
            assert_eq!(unreadable_request(method.to_owned()).code, code, "{method}");
        }
    }
}
