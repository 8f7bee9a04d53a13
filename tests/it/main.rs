//! Tests frontdesk from outside: each test runs the real binary with its own site, port and data folder.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]

mod age;
mod agents;
mod architecture;
mod authoring;
mod backup;
mod balance;
mod channels;
mod cli;
mod connections;
mod corpus;
mod dependencies;
mod disk_space;
mod durability;
mod export;
mod faults;
mod form_posts;
mod forms;
mod hostile;
mod http2;
mod inbox;
mod inbox_pages;
mod injection;
mod lanes;
mod mail;
mod mcp;
mod memory;
mod ops;
mod page_views;
mod pages;
mod power;
mod prebuilt;
mod privacy;
mod proxy_headers;
mod reload;
mod replicas;
mod resources;
mod restart;
mod screening;
mod shared_limits;
mod smuggling;
mod sockets;
mod support;
mod timing;
mod tls;
