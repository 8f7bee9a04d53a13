//! Where submissions are kept and worked on: limit → parse → store.
//!
//! [`parse()`] turns a request body into an [`Entry`] or names every fault in one sentence, [`Limiter`]
//! says whether a source may send now, and [`Store`] keeps the entry and returns once it is on stable
//! storage. [`Reader`] shows what was kept, from this process or another.
//!
//! Nothing here knows of HTTP, of pages or of the command line.

pub mod deliver;
pub mod delivery;
pub mod disk;
pub mod email;
pub mod form;
pub mod gate;
pub mod limit;
pub mod parse;
pub mod pressure;
pub mod screen;
pub mod seal;
pub mod store;
pub mod submission;
pub mod text;

pub use form::{CONTACT, FORMS, Form, MAX_BODY_BYTES, WAITLIST};
pub use limit::{Decision, Limiter, Source};
pub use parse::{Entry, Extras, Parsed, Rejection, parse, parse_with_extras};
pub use pressure::Pressure;
pub use screen::{Repeats, Verdict, screen};
pub use store::{Accepted, Arrival, Filter, Reader, Store, StoreError};
pub use submission::{Screening, Status, Submission};
