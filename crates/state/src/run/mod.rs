//! Immutable sorted runs on disk: the format, its writer and its readers.
//!
//! A run is entries in key order: data blocks of a few KiB, an index page behind every 256 KiB of them, a
//! footer behind all. A lookup asks the footer (in memory) for the page, the page's filter whether to go
//! on, the page for the block, and reads one block. See [`format`] for the bytes.

mod block;
mod cursor;
mod file;
mod filter;
mod footer;
pub(crate) mod format;
mod frame;
mod key_table;
mod page;
mod reader;
mod verify;
mod writer;

pub use footer::{GroupShare, RunCounts};
pub use format::{FORMAT_VERSION, MAGIC};
pub use frame::Compression;
pub use verify::{FileReport, verify_file};

pub(crate) use cursor::RunCursor;
pub(crate) use file::{RunFile, Scratch};
pub(crate) use filter::Filter;
pub(crate) use page::Page;
pub(crate) use reader::{Lookup, Run, RunFacts};
pub(crate) use writer::{FileWriter, WrittenFile, WrittenRun};
