//! Exactly once: `sink.delivery-guarantee` = `exactly-once`, written ahead.
//!
//! Flink keeps a Kafka transaction open from one barrier to the next; when a job is away for longer than the
//! broker's transaction timeout, what was in it is lost. Here rows are staged in [segment files](segment)
//! that become part of the checkpoint. When that is complete, each file is written in one short transaction,
//! together with its sequence number as the committed offset of a group of its own. Whoever knows the group
//! knows what is written; the rules are those of [`tidegate_checkpoint::sequences`].
//!
//! The writer stages, the committer writes to Kafka, and both of a subtask share a [`Book`]. A restart makes a
//! new one: what an earlier attempt still does can spoil only its own.

mod committer;
mod limits;
mod preflight;
mod segment;
mod staging;
mod transaction;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_api::audit::{OutputName, OutputUnit};
use tidegate_api::config::{Configuration, parse_bytes};
use tidegate_api::connector::{Committable, CommitterContext, SinkCommitter, SinkWriter, WriterContext};
use tidegate_api::{Error, Result};
use tidegate_checkpoint::sequences::{Admission, Caps, LaneState, Segment, Sequences, SinkName};
use tokio::sync::Notify;

use self::committer::KafkaCommitter;
use self::staging::StagingWriter;
use super::options::{Guarantee, Topics};
use super::sink::{SinkTable, Target};

/// Rows of a segment: small enough for a transaction of a minute on a slow cluster.
const SEGMENT_ROWS: u64 = 500_000;
/// Bytes of a segment; checkpoint storage holds a whole one in memory.
const SEGMENT_BYTES: u64 = 32 << 20;

/// What all subtasks of an exactly-once sink share.
#[derive(Clone)]
pub(super) struct ExactlyOnce {
    plan: Arc<Plan>,
    /// The newest book of each subtask.
    books: Arc<Mutex<HashMap<usize, Arc<Book>>>>,
}

/// What the options say.
struct Plan {
    table: Arc<SinkTable>,
    prefix: String,
    forced: bool,
    /// Sequences are committed offsets of its partition 0.
    topic: String,
    caps: Caps,
}

impl Plan {
    fn name(&self, subtask: usize) -> SinkName {
        SinkName::new(&self.prefix, u32::try_from(subtask).unwrap_or(u32::MAX))
    }
}

impl ExactlyOnce {
    /// `None` if the table has another guarantee.
    pub fn of(table: &Arc<SinkTable>, config: &Configuration) -> Result<Option<ExactlyOnce>> {
        let Guarantee::ExactlyOnce { prefix, forced } = &table.options.guarantee else { return Ok(None) };
        let topic = match &table.target {
            Target::Topic(topic) => topic,
            Target::Column { allowed: Topics::List(names), .. } if !names.is_empty() => &names[0],
            Target::Column { .. } => {
                return Err(Error::unsupported(
                    "Option 'sink.delivery-guarantee' = 'exactly-once' needs a topic that exists for as long as the \
                     job, to keep its progress with: set option 'topic' to the topics that rows may go to.",
                ));
            }
        };
        let mut caps = Caps { segment_rows: SEGMENT_ROWS, segment_bytes: SEGMENT_BYTES, ..Caps::default() };
        for (key, cap) in [
            ("tidegate.sink.staged-bytes", &mut caps.bytes),
            ("tidegate.sink.staged-bytes-max", &mut caps.bytes_max),
            ("tidegate.sink.segment-bytes", &mut caps.segment_bytes),
        ] {
            let Some(text) = config.get(key) else { continue };
            *cap = parse_bytes(text).filter(|bytes| *bytes > 0).ok_or_else(|| {
                Error::invalid(format!(
                    "Could not parse value '{text}' for key '{key}': expected a size such as '1 gb'."
                ))
            })?;
        }
        let (table, prefix, topic) = (Arc::clone(table), prefix.clone(), topic.clone());
        let plan = Plan { table, prefix, forced: *forced, topic, caps };
        Ok(Some(ExactlyOnce { plan: Arc::new(plan), books: Arc::default() }))
    }

    pub fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        let book = self
            .book(ctx.subtask)
            .ok_or_else(|| Error::internal("a Kafka sink's writer was made before its committer had recovered"))?;
        Ok(Box::new(StagingWriter::new(Arc::clone(&self.plan), book, ctx)?))
    }

    pub fn committer(&self, ctx: CommitterContext) -> Box<dyn SinkCommitter> {
        Box::new(KafkaCommitter::new(self.clone(), ctx))
    }

    /// What a committable is, for people.
    pub fn describe(&self, committable: &Committable) -> Option<OutputUnit> {
        let (StagedSegment { segment, .. }, _) = StagedSegment::of(committable).ok()?;
        Some(OutputUnit {
            name: output_name(&segment.name, segment.sequence),
            rows: segment.staged.rows,
            bytes: Some(segment.staged.bytes),
            checkpoint: Some(segment.checkpoint.0),
        })
    }

    fn book(&self, subtask: usize) -> Option<Arc<Book>> {
        lock(&self.books).get(&subtask).cloned()
    }

    fn put_book(&self, subtask: usize, book: Arc<Book>) {
        lock(&self.books).insert(subtask, book);
    }
}

/// What one life of a subtask's writer and committer know.
struct Book {
    entries: Mutex<Entries>,
    /// A segment was written, or something failed.
    changed: Notify,
    /// How long Kafka keeps the committed offsets of an idle group, milliseconds.
    retention_ms: i64,
}

struct Entries {
    sequences: Sequences,
    /// Files of segments that are not known to be written.
    files: BTreeMap<(SinkName, u64), PathBuf>,
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }

    /// Waits while too much is staged that could be written; `bytes` are staged for the next barrier.
    async fn admitted(&self, bytes: u64) -> Result<()> {
        loop {
            let changed = self.changed.notified();
            let admission = self.lock().sequences.admit(bytes);
            match admission {
                // A checkpoint cannot be asked for here; the next one is on its way.
                Admission::Open | Admission::AskCheckpoint => return Ok(()),
                Admission::Wait { .. } => changed.await,
                Admission::Full { reason } => return Err(Error::job(reason)),
            }
        }
    }
}

fn output_name(name: &SinkName, sequence: u64) -> OutputName {
    let SinkName { transactional_id, group } = name.clone();
    OutputName::Sequence { transactional_id, group, sequence }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sink's own data of a committable: a segment, with what was known of its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StagedSegment {
    segment: Segment,
    /// The highest sequence of the id that was known to be written.
    confirmed: u64,
    confirmed_ms: Option<i64>,
    /// When it was staged, milliseconds since the epoch.
    staged_ms: i64,
}

/// The connector's part of a segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SegmentData {
    /// Whose partition 0 the sequence is an offset of.
    topic: String,
    /// With the `fixed` partitioner: the subtask whose partition it is.
    fixed: Option<u32>,
}

impl StagedSegment {
    fn of(committable: &Committable) -> Result<(StagedSegment, PathBuf)> {
        let staged: StagedSegment = serde_json::from_value(committable.state.clone()).map_err(|e| {
            Error::job(format!("What the checkpoint holds of staged Kafka records cannot be read: {e}."))
        })?;
        match committable.files.as_slice() {
            [path] => Ok((staged, path.clone())),
            files => Err(Error::job(format!(
                "A segment of staged Kafka records has {} files in the checkpoint and not one.",
                files.len()
            ))),
        }
    }

    fn lane(self) -> LaneState {
        let segment = self.segment;
        LaneState {
            name: segment.name.clone(),
            highest: segment.sequence,
            confirmed: self.confirmed,
            confirmed_ms: self.confirmed_ms,
            pending: vec![segment],
        }
    }
}

fn segment_data(segment: &Segment) -> Result<SegmentData> {
    serde_json::from_value(segment.staged.data.clone())
        .map_err(|e| Error::job(format!("A segment of staged Kafka records cannot be read: {e}.")))
}

#[cfg(test)]
mod tests {
    use tidegate_checkpoint::CheckpointId;
    use tidegate_checkpoint::sequences::{Command, Staged};

    use super::*;

    /// More than the cap is staged: the writer takes rows while only a checkpoint can help, waits while Kafka
    /// can, and goes on when it has.
    #[tokio::test]
    async fn a_writer_waits_only_while_something_can_be_written() {
        let name = SinkName::new("p", 0);
        let caps = Caps { bytes: 100, ..Caps::default() };
        let mut sequences = Sequences::new(name.clone(), caps, None);
        assert_eq!(sequences.next_command(), Some(Command::Fence(name.clone())));
        sequences.fenced(&name);
        assert_eq!(sequences.next_command(), Some(Command::Read(name.clone())));
        sequences.read(&name, None).expect("nothing was written");
        let staged = Staged { rows: 1, bytes: 200, ..Staged::default() };
        let segment = sequences.stage(CheckpointId(1), 7, staged);
        let entries = Mutex::new(Entries { sequences, files: BTreeMap::new() });
        let book = Arc::new(Book { entries, changed: Notify::new(), retention_ms: 0 });
        book.admitted(0).await.expect("the barrier is behind these rows");
        book.lock().sequences.complete(CheckpointId(1));
        assert!(matches!(book.lock().sequences.next_command(), Some(Command::Write(_))));
        let mut waits = Box::pin(book.admitted(0));
        assert!(
            waits.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending(),
            "Kafka has not taken it"
        );
        book.lock().sequences.written(&name, segment.sequence, 0);
        book.changed.notify_waiters();
        waits.await.expect("there is room");
    }
}
