//! frontdesk: a company's front desk on the web, in one binary.
//!
//! Two flows run through it:
//!
//! ```text
//! request → negotiate → page
//! request → limit → parse → store
//! ```

pub mod cli;
pub mod config;
pub mod fault;
pub mod fetch;
pub mod inbox;
pub mod pages;
pub mod resources;
pub mod web;
