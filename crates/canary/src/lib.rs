//! Sends test submissions through the public address, and reports which step of their way fails.

pub mod report;

pub use report::{Outcome, Report, Step, StepResult};
