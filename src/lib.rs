//! frontdesk: a company's front desk on the web, in one binary.

pub mod fault;
pub mod inbox;
pub mod pages;
