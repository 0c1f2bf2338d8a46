//! `tidegate standalone --state-dir` killed with SIGKILL and started again: its jobs come back and write every row
//! once. Real processes, a broker in one of its own.
//!
//! `TIDEGATE_JOB_KILLS=50` kills as often (6 times without it); `TIDEGATE_SEED` chooses other moments.
#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // Tests of processes read the wall clock and wait.

mod audit;
mod event_time;
mod folders;
mod jobs;
mod kills;
mod standalone;
mod stopping;
