//! Rate limits for form submissions: quotas per minute and per hour for each source and each network, counted
//! in bounded memory.
//!
//! A *source* is one sender. Its *network* is an address range in which one sender can easily use many
//! addresses. A refused request counts against neither. Each form also has a quota: requests above it are not
//! refused, but the form counts as flooded when its submissions are processed.
//!
//! Quotas use the generic cell rate algorithm (`gcra.rs`) and sketches of a fixed size (`sketch.rs`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod byte_budget;
mod gcra;
mod limiter_state;
mod local;
mod quota;
pub mod rate_limiter;
pub mod refusals;
pub mod rule;
mod sketch;
pub mod source;

pub use crate::source::{Source, SourceNetwork};
pub use byte_budget::{ByteLimiter, ByteOptions, MAX_BYTES};
pub use gcra::{Gcra, MAX_QUOTA};
pub use local::LocalLimiter;
pub use quota::{
    Admission, DecisionCounts, Layer, LimitDecision, LimitOptions, Quota, QuotaStatus, QuotaStatuses,
};
pub use refusals::RefusalCounter;
