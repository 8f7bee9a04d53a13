//! Hostile traffic: many connections that hold sockets or memory, clients that send in unusual pieces, and
//! invalid HTTP/2.

mod conformance;
mod cost;
mod many_connections;
mod memory;
mod pacing;
