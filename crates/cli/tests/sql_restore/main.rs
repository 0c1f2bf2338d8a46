//! SQL scripts that are stopped in the middle and go on from a savepoint or checkpoint, as if nothing had been.
//!
//! `TIDEGATE_SEED` chooses where the programs of `tests/sql` are stopped; 1 without it.

#[path = "../common/mod.rs"]
mod common;
mod gate;
mod overtaken;
mod pains;
mod programs;
mod rig;
mod sink;
