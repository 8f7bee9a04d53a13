//! The web interface of the inbox, on its own private address: lists, shows and changes submissions.
//!
//! `route.rs` has every URL and its parameters. Queries and changes run on a small pool of threads, because
//! they block. Streams, exports, bodies and times are limited.

#![cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "requests, sessions and relative times need the clock")
)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

// Requests: authentication, limits and routing.
mod auth;
mod browser_name;
mod cross_site_guard;
mod login;
mod login_sources;
mod request;
mod response_body;
mod role;
mod route;
mod state;
mod unauthenticated_limits;

// Changes to submissions, and the notices of their results.
mod action;
mod annotations;
mod notice;

// Pages and downloads.
mod annotated;
mod chart;
pub mod csv;
mod delivery_explanations;
mod export;
mod html;
mod list;
mod list_query;
mod live;
mod mailto;
mod message_preview;
mod options;
mod pages;
mod person_page;
mod reader_pool;
mod statistics;
pub mod submission_json;
mod submission_view;
mod submitter;
mod template_time;
pub mod time;

pub use cross_site_guard::HostName;
pub use mailto::ReplyTemplate;
pub use options::{DeskOptions, ViewCounting, options};
pub use role::{Role, User};
pub use route::Desk;
