//! Options of the inbox's web interface.

use super::guard::HostName;
use crate::web::trusted_proxies::Network;
use frontdesk_deliver::ChannelOptions;

#[derive(Debug, Clone, Default)]
pub struct InboxOptions {
    /// The name of the site, for titles and replies.
    pub title: String,
    /// Names under which the interface is reached, besides its address and `localhost`.
    pub hosts: Vec<HostName>,
    /// The request header, in lower case, in which trusted proxies name the user.
    pub user_header: Option<http::HeaderName>,
    /// Peers whose [`InboxOptions::user_header`] is trusted.
    pub trusted_proxies: Vec<Network>,
    /// The channels through which test messages can be sent.
    pub channels: Vec<ChannelOptions>,
}
