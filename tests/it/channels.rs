//! Delivery channels: the meaning of replies, misbehaving receivers, confirmed forms, and a real mail server.

mod answers;
mod confirm;
mod health;
mod mailbox;
mod opt_in;
mod visitors;
