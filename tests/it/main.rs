//! What frontdesk does, seen from outside: each test runs the real binary on a site, a port and a data folder of its own.

mod agents;
mod architecture;
mod backup;
mod canary;
mod channels;
mod cli;
mod connections;
mod corpus;
mod durability;
mod faults;
mod forms;
mod inbox;
mod injection;
mod mail;
mod ops;
mod pages;
mod power;
mod reload;
mod resources;
mod restart;
mod seal;
mod smuggling;
mod sockets;
mod support;
mod timing;
mod tls;
