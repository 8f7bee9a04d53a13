//! Misbehaving receivers: the meaning of each reply, its consequences, and that other channels are not
//! delayed.

mod answers;
mod confirm;
mod health;
mod mailbox;
