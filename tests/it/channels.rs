//! Channels whose other side misbehaves: what an answer means, what follows from it, and that nobody else is held up by it.

mod answers;
mod confirm;
mod health;
mod mailbox;
