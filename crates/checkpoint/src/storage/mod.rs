//! Where checkpoints are kept: the only part of this crate that does I/O.
//!
//! ```text
//! <dir>/<job id>/chk-7/_metadata      the manifest, written last: without it there is no checkpoint 7
//!                chk-7/...            files of checkpoint 7 alone
//!                shared/...           files that several checkpoints may name
//!                taskowned/...        files that tasks write and delete
//! <dir>/savepoint-94e3a1-0123456789ab/_metadata and all files it needs
//! ```
//!
//! What keeps a manifest from ever naming a file that is not there:
//! - files are written before the manifest and never changed; each name is created once;
//! - the manifest is *created*, so two job managers cannot both write checkpoint 7, and a put whose
//!   outcome is unknown is settled by reading it back or by putting a *void* in its place, after which
//!   it cannot arrive any more;
//! - deletion is the other way round: manifest first, then the files nobody else names ([`Retained`]);
//! - what a crash leaves over is swept at the next recovery ([`CheckpointStorage::sweep`]), and nothing
//!   younger than the attempt or any checkpoint in progress.

mod error;
mod folder;
mod layout;
mod place;
mod proof;
mod reason;
mod resume;
mod retained;
#[cfg(feature = "s3")]
mod s3;
mod savepoint;
mod sweep;

#[cfg(test)]
mod crash;
#[cfg(test)]
mod double;
#[cfg(test)]
mod tests;

pub use error::StorageError;
pub use folder::{CheckpointStorage, Loaded};
pub use layout::{METADATA, resolve};
pub use place::{Place, Stores};
pub use retained::{Condemned, Retained};
pub use sweep::Swept;
