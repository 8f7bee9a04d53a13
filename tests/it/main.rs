//! What frontdesk does, seen from outside: each test runs the real binary on a site, a port and a data folder of its own.

mod architecture;
mod backup;
mod channels;
mod cli;
mod connections;
mod corpus;
mod durability;
mod faults;
mod forms;
mod http2;
mod inbox;
mod injection;
mod mail;
mod pages;
mod power;
mod resources;
mod seal;
mod support;
