//! frontdesk: a company's front desk on the web, in one binary.

pub mod cli;
pub mod inbox;
