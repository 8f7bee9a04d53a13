//! `[agents]`: agents that sign their requests, and where their keys are published.

use super::channel;
use super::reader::{Reader, agents};
use super::value_parsers;
use frontdesk_app::agent_signature::{AgentOptions, KEY_TIMEOUT, SiteOrigin};

/// Reads `[agents]` and the file `agents.ca_file`. Records an error for a directory whose host is an IP
/// address that requests must not connect to, and returns it all the same.
/// [`Config::with_base_url`](super::Config::with_base_url) fills in the site's origin.
pub(super) fn read(r: &mut Reader<'_>) -> AgentOptions {
    let options = AgentOptions {
        directories: r.get(
            agents("agents.directories"),
            "[]",
            "Hosts of key directories. Agents that sign their requests (Web Bot Auth) are recognized by a \
             key in one of them, and their submissions are labeled with the directory. Signing is optional \
             (docs/pages/agents.md).",
            channel::parse_directories,
        ),
        allow_private: r.get(
            agents("agents.allow_private"),
            "false",
            "Whether a directory may be in a private network, and a PEM file with your own certificate authority.",
            value_parsers::parse_bool,
        ),
        extra_roots: channel::read_pem(r, agents("agents.ca_file"), "").map(|(_, roots)| roots),
        origin: SiteOrigin::from_url(""),
        key_timeout: KEY_TIMEOUT,
    };
    for url in &options.directories {
        channel::refuse_unreachable(r, "agents.directories", url, options.allow_private);
    }
    options
}
