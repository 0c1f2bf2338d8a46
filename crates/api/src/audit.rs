//! What exactly-once sinks have published and what is still to be: plain data, for people.
//!
//! A sink that publishes by checkpoints says how each piece of its output is called ([`crate::connector::Sink::describe`]),
//! and its committer what it found when it came to publish it. The engine keeps the account, over restarts.

use std::fmt;
use std::sync::Arc;

/// What a piece of output is called: what is published as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputName {
    /// Rows that were, or will be, written to Kafka in one transaction.
    Sequence {
        /// The transactional id.
        transactional_id: String,
        /// The consumer group whose committed offset is the sequence.
        group: String,
        /// Its place in the order of the id, from 1.
        sequence: u64,
    },
    /// A file that gets its final name.
    File {
        /// Its path.
        path: String,
    },
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputName::Sequence { transactional_id, sequence, .. } => {
                write!(f, "{transactional_id} sequence {sequence}")
            }
            OutputName::File { path } => f.write_str(path),
        }
    }
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputUnit {
    /// What it is called.
    pub name: OutputName,
    /// Number of rows.
    pub rows: u64,
    /// Bytes as staged, if the sink knows.
    pub bytes: Option<u64>,
    /// The checkpoint at whose barrier it was staged, if the sink knows.
    pub checkpoint: Option<u64>,
}

/// What a committer found when it came to publish a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It was not there, and has been published.
    Published,
    /// It was there: published before, by a process that could not say so any more.
    WasThere,
}

/// Takes what committers find.
#[derive(Clone)]
pub struct Auditor(Arc<dyn Fn(&OutputName, Finding) + Send + Sync>);

impl Auditor {
    /// Hands each finding to `tell`, which must not block.
    pub fn new(tell: impl Fn(&OutputName, Finding) + Send + Sync + 'static) -> Self {
        Auditor(Arc::new(tell))
    }

    /// Nobody keeps account.
    pub fn silent() -> Self {
        Auditor::new(|_, _| {})
    }

    /// A piece is published.
    pub fn found(&self, name: &OutputName, finding: Finding) {
        (self.0)(name, finding);
    }
}

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auditor")
    }
}
