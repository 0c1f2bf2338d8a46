//! How a job survives: barriers, alignment, the checkpoint coordinator, manifests, restarts and the two
//! phases of a commit.
//!
//! A checkpoint in one paragraph. The [`coordinator`] injects a barrier at the sources. Each subtask
//! [aligns](alignment) the barriers of its inputs, writes its state as immutable files and acknowledges
//! with a description of them. When all have, the descriptions become a [`manifest`], and only when
//! the manifest is [stored](storage) does the checkpoint exist; then sinks [commit](sequences) what they
//! staged. After a failure [`restart`] says when to try again, and [`mapping`] which state belongs to
//! which operator of the (perhaps changed) job, by the names of [`identity`].
//!
//! All of it is pure: facts in, decisions out, with the time as a parameter. Only [`storage`] does I/O.

pub mod alignment;
pub mod barrier;
pub mod coordinator;
pub mod identity;
pub mod ids;
pub mod manifest;
pub mod mapping;
pub mod options;
pub mod restart;
pub mod sequences;
pub mod storage;

pub use barrier::{Alignment, Barrier, BarrierKind, Stop};
pub use ids::{CheckpointId, JobId, OperatorId, TaskId};
