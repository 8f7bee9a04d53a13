//! The state that tool calls share: the site's folder, the user, and the removal that was previewed last.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::cli::config_and_site_loading;
use crate::cli::config_needs::ConfigNeeds;
use crate::cli::current_user::current_user;
use crate::cli::diagnostics::write_error;
use crate::cli::inbox::open_inbox;
use frontdesk_config::{Config, Flag};
use frontdesk_inbox::store::{InboxReader, StoreError};

/// The error of a tool call as the client gets it, with causes and advice.
#[derive(Debug)]
pub(super) struct ToolError(String);

impl ToolError {
    pub(super) fn new(text: impl Into<String>) -> ToolError {
        ToolError(text.into())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<anyhow::Error> for ToolError {
    /// The error with its causes and its hint, as the command line prints it.
    fn from(error: anyhow::Error) -> ToolError {
        let mut text = Vec::new();
        // Writing to a vector does not fail.
        let _ = write_error("error:", &error, &mut text);
        ToolError(String::from_utf8_lossy(&text).trim_end().to_owned())
    }
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> ToolError {
        anyhow::Error::from(error).into()
    }
}

/// A removal that a client has previewed, but not confirmed yet.
pub(super) struct RemovalPreview {
    /// The code that the client must repeat to confirm the removal.
    pub(super) code: String,
    /// The submissions that would be removed, sorted.
    pub(super) ids: Vec<Uuid>,
}

/// The session of one MCP client: its site, its permissions, and the removal that it has previewed.
pub(super) struct McpSession {
    pub(super) folder: PathBuf,
    data_dir: Option<PathBuf>,
    pub(super) allows_changes: bool,
    /// The user for the operator log.
    pub(super) user: String,
    preview: Mutex<Option<RemovalPreview>>,
}

impl McpSession {
    pub(super) fn new(folder: PathBuf, data_dir: Option<PathBuf>, allows_changes: bool) -> McpSession {
        let user = format!("mcp ({})", current_user());
        McpSession { folder, data_dir, allows_changes, user, preview: Mutex::default() }
    }

    pub(super) fn flags(&self) -> Vec<Flag> {
        config_and_site_loading::data_folder_flags(self.data_dir.clone())
    }

    /// Reads the configuration, which may have changed since the last call. Prints its warnings to standard
    /// error. Fails if there are errors in what the call needs.
    pub(super) fn load_configuration(&self, needs: ConfigNeeds) -> anyhow::Result<Config> {
        config_and_site_loading::load_configuration(&self.folder, self.data_dir.clone(), needs)
    }

    /// Opens the inbox, and fails if nothing has been received yet.
    pub(super) fn open_existing_inbox(config: &Config) -> Result<InboxReader, ToolError> {
        open_inbox(&config.store.url)?
            .ok_or_else(|| ToolError::new("nothing has been received yet: the inbox does not exist"))
    }

    /// Replaces the preview that [`Self::take_preview`] returns.
    pub(super) fn set_preview(&self, preview: RemovalPreview) {
        *self.preview.lock().unwrap_or_else(PoisonError::into_inner) = Some(preview);
    }

    /// Returns and forgets the removal that was previewed last, so that it can be confirmed only once.
    pub(super) fn take_preview(&self) -> Option<RemovalPreview> {
        self.preview.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
