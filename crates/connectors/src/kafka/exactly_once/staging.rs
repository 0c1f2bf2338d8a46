//! The writer: stages records in segment files.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tidegate_api::connector::{Committable, SinkWriter, WriterContext};
use tidegate_api::{Batch, Error, Result};
use tidegate_checkpoint::CheckpointId;
use tidegate_checkpoint::sequences::{LaneState, SequenceError, Staged};
use tidegate_time::{Clock, SystemClock};

use super::segment::SegmentWriter;
use super::{Book, Plan, SegmentData, StagedSegment};
use crate::kafka::options::Partitioning;
use crate::kafka::records::{RecordEncoder, Records};

/// One subtask's writer.
pub(super) struct StagingWriter {
    plan: Arc<Plan>,
    book: Arc<Book>,
    subtask: usize,
    rowtime: Option<usize>,
    clock: SystemClock,
    encoder: RecordEncoder,
    records: Records,
    /// Where segments lie until they are written.
    folder: PathBuf,
    /// Part of every file's name: no two files of a job may have one name.
    random: String,
    files: u64,
    open: Option<SegmentWriter>,
    /// Full files since the last barrier: path, records, bytes.
    full: Vec<(PathBuf, u64, u64)>,
    /// Ids that other subtasks, or a job with another prefix, wrote under.
    others: Vec<Remembered>,
}

/// What a checkpoint remembers of an id, for [`tidegate_checkpoint::sequences`]' first rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Remembered {
    lane: LaneState,
    /// Where its sequence is kept.
    topic: String,
}

impl StagingWriter {
    pub fn new(plan: Arc<Plan>, book: Arc<Book>, ctx: WriterContext) -> Result<StagingWriter> {
        let random = format!("{:016x}", rand::random::<u64>());
        let folder = ctx.staging.ok_or_else(|| {
            Error::job(
                "Rows of an exactly-once sink wait in a folder for temporary files until they are published, and there is \
                 none. Set 'io.tmp.dirs'.",
            )
        })?;
        let mut writer = StagingWriter {
            encoder: RecordEncoder::new(Arc::clone(&plan.table))?,
            plan,
            book,
            subtask: ctx.subtask,
            rowtime: ctx.rowtime,
            clock: SystemClock::new(),
            records: Records::default(),
            folder,
            random,
            files: 0,
            open: None,
            full: Vec::new(),
            others: Vec::new(),
        };
        for state in ctx.restored {
            let remembered: Vec<Remembered> = serde_json::from_value(state).map_err(|e| {
                Error::job(format!("What the checkpoint remembers of a Kafka sink cannot be read: {e}."))
            })?;
            remembered.into_iter().try_for_each(|of_id| writer.remember(of_id))?;
        }
        Ok(writer)
    }

    /// Takes up what a checkpoint remembers: no sequence is given away twice, and Kafka must not have
    /// forgotten what it cannot have forgotten.
    fn remember(&mut self, of_id: Remembered) -> Result<()> {
        let own = self.plan.name(self.subtask);
        if of_id.lane.name != own {
            self.others.push(of_id);
            return Ok(());
        }
        let mut entries = self.book.lock();
        let found = entries.sequences.state().into_iter().find(|lane| lane.name == own);
        let found = found.map_or(0, |lane| lane.confirmed);
        let lane = of_id.lane;
        let age_ms = lane.confirmed_ms.map_or(i64::MAX, |then| self.clock.now_ms().saturating_sub(then));
        let is_young = age_ms <= self.book.retention_ms;
        if lane.confirmed > found && of_id.topic == self.plan.topic && is_young && !self.plan.forced {
            return Err(super::committer::refused(&SequenceError::Regressed {
                transactional_id: own.transactional_id,
                group: own.group,
                found,
                confirmed: lane.confirmed,
            }));
        }
        entries.sequences.raise(&own, lane.highest);
        Ok(())
    }

    /// Bytes staged since the last barrier.
    fn staged_bytes(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, SegmentWriter::bytes);
        self.full.iter().map(|(_, _, bytes)| bytes).sum::<u64>() + open
    }

    fn open_segment(&mut self) -> Result<&mut SegmentWriter> {
        if self.open.is_none() {
            let path = self.folder.join(format!("segment-{}-{}", self.random, self.files));
            self.open = Some(SegmentWriter::create(path)?);
            self.files += 1;
        }
        self.open.as_mut().ok_or_else(|| Error::internal("a segment was opened and is not there"))
    }

    fn close_segment(&mut self) -> Result<()> {
        if let Some(segment) = self.open.take() {
            self.full.push(segment.finish()?);
        }
        Ok(())
    }
}

#[async_trait]
impl SinkWriter for StagingWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        let (plan, book) = (Arc::clone(&self.plan), Arc::clone(&self.book));
        book.admitted(self.staged_bytes()).await?;
        let mut records = std::mem::take(&mut self.records);
        self.encoder.encode(&batch, &mut records)?;
        for index in 0..records.len() {
            let record = records.get(&plan.table, self.rowtime, &batch.columns, index)?;
            let segment = self.open_segment()?;
            segment.push(&record)?;
            if segment.rows() >= plan.caps.segment_rows || segment.bytes() >= plan.caps.segment_bytes {
                self.close_segment()?;
            }
        }
        self.records = records;
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        // What is staged is made durable by its checkpoint.
        Ok(())
    }

    async fn pre_commit(&mut self, checkpoint: u64) -> Result<Vec<Committable>> {
        self.close_segment()?;
        let fixed = self.plan.table.partitioning == Partitioning::Fixed;
        let fixed = fixed.then(|| u32::try_from(self.subtask).unwrap_or(0));
        let data = SegmentData { topic: self.plan.topic.clone(), fixed };
        let data = serde_json::to_value(data).map_err(|e| Error::internal(e.to_string()))?;
        let staged_ms = self.clock.now_ms();
        let mut entries = self.book.lock();
        let mut committables = Vec::with_capacity(self.full.len());
        for (path, rows, bytes) in self.full.drain(..) {
            let staged = Staged { rows, bytes, data: data.clone(), ..Staged::default() };
            let segment = entries.sequences.stage(CheckpointId(checkpoint), rand::random(), staged);
            entries.files.insert((segment.name.clone(), segment.sequence), path.clone());
            let known = entries.sequences.state().pop();
            let (confirmed, confirmed_ms) = known.map_or((0, None), |lane| (lane.confirmed, lane.confirmed_ms));
            let state = StagedSegment { segment, confirmed, confirmed_ms, staged_ms };
            let state = serde_json::to_value(state).map_err(|e| Error::internal(e.to_string()))?;
            committables.push(Committable { state, rows, files: vec![path] });
        }
        Ok(committables)
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        let lanes = self.book.lock().sequences.state();
        let mut remembered: Vec<Remembered> = lanes
            .into_iter()
            // What is pending stands in the committables.
            .map(|lane| Remembered { lane: LaneState { pending: Vec::new(), ..lane }, topic: self.plan.topic.clone() })
            .collect();
        let others = self.others.iter().filter(|other| remembered.iter().all(|r| r.lane.name != other.lane.name));
        let others: Vec<Remembered> = others.cloned().collect();
        remembered.extend(others);
        serde_json::to_value(remembered).map_err(|e| Error::internal(e.to_string()))
    }

    async fn finish(&mut self) -> Result<()> {
        self.close_segment()
    }
}
