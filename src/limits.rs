//! Rate limits for form submissions: quotas per minute and per hour for each source and each network, counted
//! in bounded memory.
//!
//! A *source* is one sender. Its *network* is an address range in which one sender can easily use many
//! addresses. A refused request does not count against the quotas of either. Each form also has a quota, but
//! requests above that quota are not refused. Instead, the form counts as flooded when its submissions are
//! processed.
//!
//! Each quota uses the generic cell rate algorithm (`gcra.rs`): an idle source may use its whole quota at
//! once, and then send one request every `window / quota`. The requests of sources and networks are counted
//! in sketches of a fixed size (`sketch.rs`).

mod bytes;
mod gcra;
mod layers;
mod local;
mod quota;
pub mod rate_limiter;
pub mod refusals;
pub mod rule;
mod sketch;

pub use crate::forms::source::{Source, SourceNetwork};
pub use bytes::{ByteLimiter, ByteOptions, MAX_BYTES};
pub use gcra::MAX_QUOTA;
pub use local::LocalLimiter;
pub use quota::{
    Admission, DecisionCounts, Layer, LimitDecision, LimitOptions, Quota, QuotaStatus, QuotaStatuses,
};
pub use refusals::RefusalCounter;
