//! The broker as its clients see it: over sockets, in the protocol's own words.

mod admin;
mod client;
mod connections;
mod fetching;
mod fuzz;
mod life;
mod producing;
mod versions;
