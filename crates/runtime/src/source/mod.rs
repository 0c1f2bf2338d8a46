//! The source operator: reads splits, computes columns, and makes event time.
//!
//! A connector gives rows, splits and positions. Everything about time is here, once for all of them:
//! the watermark of each split, idleness, and the cuts that make results row-exact.

mod enumerator;
mod event_time;
mod notice;
mod splits;
mod timestamps;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::Value;
use tidegate_api::connector::{Source, SourceBatch, SourceEvent, SourceReader, SplitAssignment};
use tidegate_api::function::EvalContext;
use tidegate_api::{Batch, Error, Result, StreamElement, Watermark};
use tidegate_checkpoint::manifest::SplitPosition;
use tidegate_checkpoint::{Barrier, Stop};
use tidegate_time::Clock;
use tokio::sync::mpsc;

pub(crate) use enumerator::{AssignedSplit, Enumeration, EnumeratorState, RestoredSplits, SplitMessage, enumerate};
pub(crate) use event_time::{EventTime, EventTimeParts};
pub(crate) use splits::SplitBoard;

use crate::builtin::Projection;
use crate::task::{LastCommands, SourceSnapshot, Task, TaskCommand};
use splits::SplitMarks;

/// One subtask of a source.
pub(crate) struct SourceTask {
    pub source: Arc<dyn Source>,
    pub projection: Projection,
    /// Absent if the table declares no watermark.
    pub event_time: Option<EventTime>,
    pub clock: Arc<dyn Clock>,
    /// Splits from the enumerator.
    pub splits: mpsc::Receiver<SplitMessage>,
    /// From the coordinator of checkpoints.
    pub commands: mpsc::UnboundedReceiver<TaskCommand>,
    /// The watermark the subtask had sent when the checkpoint was taken that it goes on from.
    pub restored: Watermark,
    /// Splits that ended since the last barrier, by id.
    pub finished: Vec<String>,
    /// Ids of all splits, by number.
    pub ids: Vec<String>,
    /// Asks the enumerator for another split.
    pub requests: mpsc::Sender<usize>,
    pub assignment: SplitAssignment,
    pub subtask: usize,
    /// Where the splits of all subtasks are shown.
    pub board: Arc<SplitBoard>,
    /// Those of this subtask, by number.
    pub marks: Vec<Arc<SplitMarks>>,
    /// Where the subtasks of the source wait for each other before the first row: one that has nothing to
    /// read must have said so to every receiver, or it would hold the watermark for as long as that takes,
    /// and whether a row is late would depend on who speaks first.
    pub start: Arc<tokio::sync::Barrier>,
    /// The job ends with a savepoint that it will go on from: windows stay open.
    pub is_suspended: bool,
}

enum Next {
    Splits(Option<SplitMessage>),
    Read(SourceEvent),
    Command(TaskCommand),
}

/// Commands after the source has ended.
struct SourceCommands {
    commands: mpsc::UnboundedReceiver<TaskCommand>,
    /// What was read, to the end.
    reader: Box<dyn SourceReader>,
    /// Splits that ended since the last barrier before the end.
    finished: Vec<SplitPosition>,
}

impl LastCommands for SourceCommands {
    async fn next(&mut self) -> Option<TaskCommand> {
        let command = self.commands.recv().await?;
        if let TaskCommand::Completed(checkpoint) = &command {
            self.reader.snapshot_completed(checkpoint.0);
        }
        Some(command)
    }

    fn triggered(&mut self, barrier: Barrier) -> bool {
        self.reader.snapshot_taken(barrier.id.0);
        true
    }

    fn source(&self, enumerator: Value) -> Option<SourceSnapshot> {
        Some(SourceSnapshot { splits: self.finished.clone(), enumerator, ended: true })
    }
}

/// What a reader is doing, as far as its end goes.
struct Progress {
    /// Splits being read.
    live: usize,
    /// No more splits will come.
    complete: bool,
    /// The enumerator may still say something.
    listening: bool,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.complete && self.live == 0
    }
}

impl SourceTask {
    /// Reads to the end of the source; an unbounded one has none.
    pub(crate) async fn run(mut self, mut task: Task, mut reader: Box<dyn SourceReader>) -> Result<()> {
        let mut progress = Progress { live: 0, complete: false, listening: true };
        if self.assignment == SplitAssignment::OnDemand {
            self.request_split();
        }
        let mut out = Vec::new();
        let first = self.splits.recv().await;
        self.take_splits(first, reader.as_mut(), &mut progress, &mut out)?;
        for element in out.drain(..) {
            task.emit(element).await?;
        }
        if self.restored != Watermark::MIN {
            task.emit(StreamElement::Watermark(self.restored)).await?;
        }
        let reads = !progress.is_over();
        if reads {
            self.start.wait().await;
        }
        while !progress.is_over() {
            let next = self.next(&mut task, reader.as_mut(), progress.listening).await?;
            let read_at_ms = self.clock.monotonic_ms();
            match next {
                Next::Splits(message) => self.take_splits(message, reader.as_mut(), &mut progress, &mut out)?,
                Next::Read(SourceEvent::Rows(rows)) => {
                    task.chain.count_read(rows.columns.num_rows());
                    self.rows(rows, reader.as_ref(), read_at_ms, &mut out)?;
                }
                Next::Read(SourceEvent::Quiet(splits)) => {
                    if let Some(event_time) = &mut self.event_time {
                        event_time.quiet(&splits, read_at_ms, &mut out);
                    }
                }
                Next::Read(SourceEvent::SplitFinished(split)) => {
                    self.finish_split(split, &mut progress, &mut out);
                }
                Next::Command(command) => {
                    if self.obey(command, &mut task, reader.as_mut(), &mut progress).await? {
                        break;
                    }
                }
            }
            for element in out.drain(..) {
                task.emit(element).await?;
            }
            // Time spent on the rows, and above all waiting for receivers, is time in which no split
            // was asked; it says nothing about idleness.
            let away_ms = self.clock.monotonic_ms() - read_at_ms;
            if let Some(event_time) = self.event_time.as_mut().filter(|_| away_ms > 0) {
                event_time.not_asked(away_ms);
            }
            // A batch can take a millisecond; other tasks of this thread want their turn.
            tokio::task::yield_now().await;
        }
        if let Some(event_time) = &mut self.event_time {
            event_time.end();
        }
        if !self.is_suspended {
            task.emit(StreamElement::Watermark(Watermark::MAX)).await?;
        }
        task.end().await?;
        if !reads {
            self.start.wait().await;
        }
        let watermark = self.watermark();
        let finished = std::mem::take(&mut self.finished).into_iter().map(finished_split).collect();
        task.finish(&mut SourceCommands { commands: self.commands, reader, finished }, watermark).await
    }

    fn watermark(&self) -> Watermark {
        self.event_time.as_ref().map_or(Watermark::MIN, EventTime::watermark)
    }

    /// Does what the coordinator says; true if the source is to end.
    async fn obey(
        &mut self,
        command: TaskCommand,
        task: &mut Task,
        reader: &mut dyn SourceReader,
        progress: &mut Progress,
    ) -> Result<bool> {
        if let TaskCommand::Completed(checkpoint) = &command {
            reader.snapshot_completed(checkpoint.0);
        }
        let Some(TaskCommand::Trigger { barrier, enumerator }) = task.obey(command)? else { return Ok(false) };
        // What the enumerator had assigned before the barrier belongs before it.
        let mut out = Vec::new();
        while let Ok(message) = self.splits.try_recv() {
            self.take_splits(Some(message), reader, progress, &mut out)?;
        }
        if barrier.kind.stop() == Some(Stop::Drain) {
            out.push(StreamElement::Watermark(Watermark::MAX));
        }
        for element in out {
            task.emit(element).await?;
        }
        let snapshot = SourceSnapshot { splits: self.positions(reader)?, enumerator, ended: false };
        reader.snapshot_taken(barrier.id.0);
        task.snapshot(barrier, self.watermark(), Some(snapshot), None).await?;
        task.aligned(barrier.id, Vec::new());
        match barrier.kind.stop() {
            Some(_) => self.wait_for_stop(barrier, task, reader).await,
            None => Ok(false),
        }
    }

    /// After the barrier of a savepoint that stops the job nothing is read until it is known to be complete;
    /// false if it came to nothing and the source goes on.
    async fn wait_for_stop(
        &mut self,
        barrier: Barrier,
        task: &mut Task,
        reader: &mut dyn SourceReader,
    ) -> Result<bool> {
        while let Some(command) = self.commands.recv().await {
            let completed = matches!(&command, TaskCommand::Completed(id) if *id == barrier.id);
            let aborted = matches!(&command, TaskCommand::Aborted(id) if *id == barrier.id);
            task.obey(command)?;
            if completed {
                reader.snapshot_completed(barrier.id.0);
                self.is_suspended = barrier.kind.stop() == Some(Stop::Suspend);
                return Ok(true);
            }
            if aborted {
                return Ok(false);
            }
        }
        Err(Error::cancelled())
    }

    /// Where each split stands, and which ended since the last barrier.
    fn positions(&mut self, reader: &dyn SourceReader) -> Result<Vec<SplitPosition>> {
        let mut positions = Vec::new();
        for (number, split) in reader.snapshot()? {
            let watermark = self.event_time.as_ref().and_then(|event_time| event_time.split_watermark(number));
            positions.push(SplitPosition {
                split: split.id.clone(),
                position: serde_json::to_value(&split).map_err(|e| Error::internal(e.to_string()))?,
                watermark_ms: watermark.map(Watermark::timestamp),
                finished: false,
            });
        }
        positions.extend(self.finished.drain(..).map(finished_split));
        Ok(positions)
    }

    /// The next thing to do. Sinks chained to the source are flushed before waiting.
    async fn next(&mut self, task: &mut Task, reader: &mut dyn SourceReader, listening: bool) -> Result<Next> {
        let (splits, commands) = (&mut self.splits, &mut self.commands);
        let mut next = pin!(async {
            tokio::select! {
                biased;
                Some(command) = commands.recv() => Ok(Next::Command(command)),
                message = splits.recv(), if listening => Ok(Next::Splits(message)),
                event = reader.next() => event.map(Next::Read),
            }
        });
        loop {
            let ready = std::future::poll_fn(|cx| {
                Poll::Ready(match next.as_mut().poll(cx) {
                    Poll::Ready(next) => Some(next),
                    Poll::Pending => None,
                })
            });
            if let Some(next) = ready.await {
                return next;
            }
            if !task.save_some()? {
                break;
            }
        }
        task.flush().await?;
        let waiting = task.subtask.times.idle();
        let next = next.await;
        drop(waiting);
        next
    }

    fn request_split(&self) {
        // There is room: this is the only open request. The enumerator is gone only if it failed, which ends
        // this task too.
        let _ = self.requests.try_send(self.subtask);
    }

    fn take_splits(
        &mut self,
        message: Option<SplitMessage>,
        reader: &mut dyn SourceReader,
        progress: &mut Progress,
        out: &mut Vec<StreamElement>,
    ) -> Result<()> {
        match message {
            None => progress.listening = false,
            Some(SplitMessage::NoMore) => progress.complete = true,
            Some(SplitMessage::Add(splits)) => {
                let before = self.ids.len();
                for AssignedSplit { split, watermark } in splits {
                    let marks = self.board.add(&split.id, self.subtask);
                    if let Some(event_time) = &mut self.event_time {
                        let now_ms = self.clock.monotonic_ms();
                        event_time.add_split(&split.id, marks.clone(), watermark, now_ms, out);
                    }
                    self.ids.push(split.id.clone());
                    self.marks.push(marks);
                    reader.add_split(split)?;
                    progress.live += 1;
                }
                if let Some(event_time) = &mut self.event_time {
                    event_time.go_on(before, out);
                }
            }
        }
        self.idle_without_splits(progress, out);
        Ok(())
    }

    /// A subtask that was told that there is nothing for it holds nothing back.
    fn idle_without_splits(&mut self, progress: &Progress, out: &mut Vec<StreamElement>) {
        let waits = progress.live == 0 && !progress.complete;
        if let Some(event_time) = self.event_time.as_mut().filter(|_| waits) {
            event_time.idle_without_splits(out);
        }
    }

    fn finish_split(&mut self, split: usize, progress: &mut Progress, out: &mut Vec<StreamElement>) {
        if let Some(event_time) = &mut self.event_time {
            event_time.finish_split(split, out);
        }
        if let Some(marks) = self.marks.get(split) {
            marks.finish();
        }
        if let Some(id) = self.ids.get(split) {
            self.finished.push(id.clone());
        }
        progress.live = progress.live.saturating_sub(1);
        match self.assignment {
            // After a restore it may have several at once.
            SplitAssignment::OnDemand if progress.live > 0 => {}
            SplitAssignment::OnDemand => self.request_split(),
            SplitAssignment::Eager => self.idle_without_splits(progress, out),
        }
    }

    fn rows(
        &mut self,
        rows: SourceBatch,
        reader: &dyn SourceReader,
        now_ms: i64,
        out: &mut Vec<StreamElement>,
    ) -> Result<()> {
        let SourceBatch { split, columns, kinds, positions } = rows;
        let place = |row: usize| match positions.get(row) {
            Some(position) => reader.locate(split, *position),
            None => format!("split {split}"),
        };
        let watermark = self.event_time.as_ref().map_or(Watermark::MIN, EventTime::watermark);
        let known = watermark != Watermark::MIN;
        let eval = EvalContext { watermark: known.then_some(watermark.timestamp()), now_ms: self.clock.now_ms() };
        let columns =
            self.projection.project(&columns, &eval).map_err(|e| Error::job(e.message).context(place(e.row)))?;
        if let Some(marks) = self.marks.get(split) {
            marks.read(columns.num_rows(), eval.now_ms);
        }
        let batch = Batch { columns, kinds };
        match &mut self.event_time {
            Some(event_time) => event_time.rows(split, batch, &eval, &place, now_ms, out)?,
            None if batch.num_rows() > 0 => out.push(StreamElement::Batch(batch)),
            None => {}
        }
        Ok(())
    }
}

/// A split that has been read to its end, as a checkpoint keeps it.
fn finished_split(split: String) -> SplitPosition {
    SplitPosition { split, position: Value::Null, watermark_ms: None, finished: true }
}
