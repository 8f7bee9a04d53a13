//! Sends test submissions through the public address, and reports which step of their way fails.
//!
//! [`Canary`] is the thread that runs at intervals. A run (`run.rs`) returns a [`Report`];
//! `response_diagnosis.rs` names the fault behind each answer.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks"))]

mod certificate;
mod certificate_check;
mod clock_check;
mod form_comparison;
mod form_page_check;
mod mailbox;
mod options;
mod ping;
mod proxy_detection;
pub mod report;
mod response_diagnosis;
mod run;
mod runner;
mod schedule;
mod server_checks;
mod shown_form;
mod site_forms;
mod status;

pub use certificate::CertificateValidity;
pub use options::CanaryOptions;
pub use report::{Outcome, Report, Step, StepResult};
pub use runner::Canary;
pub use server_checks::ServerCheck;
pub use site_forms::{SiteContent, SitePage};
pub use status::stored_report;
