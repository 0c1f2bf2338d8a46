//! Operating jobs from outside, with the real binary: savepoints, stopping and going on, dry runs, claim modes, and
//! what is said of snapshots that cannot be used.

#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

#[path = "../common/mod.rs"]
mod common;

mod broken;
mod changed;
mod claim;
mod client;
mod commands;
mod failing;
mod rig;
mod s3;
