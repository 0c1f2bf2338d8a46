//! Reads partitions in turns, a batch at a time, and sleeps while there is nothing.
//!
//! librdkafka fetches in its own threads and calls back when a queue gets its first message; the
//! reader looks at all queues, and waits for that call. A partition counts as quiet only behind its end
//! event and while its leader is connected: before the first answer, or cut off from the broker, it has
//! not been asked.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::connector::{ReaderContext, SourceBatch, SourceEvent, SourceReader, Split};
use tidegate_api::metrics::{Counter, Gauge};
use tidegate_api::{Error, Result};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::client::{Consumer, is_transient};
use super::commits::OffsetCommits;
use super::consume::{PartitionQueue, Record};
use super::enumerator::PartitionState;
use super::rows::{AddError, RowBuilder};
use super::source::SourceTable;
use crate::format::decode_failure;

/// How often silence is reported; the contract wants at least every 50 ms.
const QUIET_INTERVAL: Duration = Duration::from_millis(40);

/// Reads the partitions of one subtask.
pub(super) struct KafkaReader {
    table: Arc<SourceTable>,
    rows: RowBuilder,
    ctx: ReaderContext,
    consumer: Option<Arc<Consumer>>,
    wake: Arc<Notify>,
    partitions: Vec<Partition>,
    /// The partition whose turn it is.
    turn: usize,
    /// Events that are ready.
    ready: VecDeque<SourceEvent>,
    /// What ends the job once the rows before it are out.
    failed: Option<Error>,
    /// Partitions that were asked since the last report and had nothing.
    quiet: BTreeSet<usize>,
    quiet_reported: Instant,
    pending: Gauge,
    bytes: Counter,
    commits: OffsetCommits,
}

struct Partition {
    state: PartitionState,
    /// `None` once it has been read to its end.
    queue: Option<PartitionQueue>,
    /// Offset of the next record, or a later one if those between are no records.
    position: i64,
    /// Offset behind the last record whose rows were returned.
    returned: i64,
    /// Its end was returned.
    has_returned_all: bool,
    /// Its end event came and no record since.
    at_end: bool,
    lag: i64,
    current_offset: Gauge,
}

impl Partition {
    fn is_finished(&self) -> bool {
        self.state.stop.is_some_and(|stop| self.position >= stop)
    }

    fn place(&self, offset: i64) -> String {
        format!("topic {}, partition {}, offset {offset}", self.state.topic, self.state.partition)
    }
}

impl KafkaReader {
    pub fn new(table: Arc<SourceTable>, rows: RowBuilder, ctx: ReaderContext) -> KafkaReader {
        KafkaReader {
            table,
            rows,
            consumer: None,
            wake: Arc::new(Notify::new()),
            partitions: Vec::new(),
            turn: 0,
            ready: VecDeque::new(),
            failed: None,
            quiet: BTreeSet::new(),
            quiet_reported: Instant::now(),
            pending: ctx.metrics.gauge("pendingRecords", 0),
            bytes: ctx.metrics.counter("numBytesIn"),
            commits: OffsetCommits::new(&ctx.metrics),
            ctx,
        }
    }

    fn open(&mut self, state: PartitionState) -> Result<()> {
        let consumer = match &self.consumer {
            Some(consumer) => Arc::clone(consumer),
            None => Arc::clone(self.consumer.insert(Arc::new(self.table.waking_consumer(&self.wake)?))),
        };
        let (topic, number) = (state.topic.clone(), state.partition);
        let group = format!("KafkaSourceReader.topic.{topic}.partition.{number}");
        self.commits.follow(&topic, number, self.ctx.metrics.gauge(&format!("{group}.committedOffset"), -1));
        let mut partition = Partition {
            position: state.start,
            returned: state.start,
            has_returned_all: false,
            at_end: false,
            lag: 0,
            current_offset: self.ctx.metrics.gauge(&format!("{group}.currentOffset"), -1),
            queue: None,
            state,
        };
        if partition.is_finished() {
            self.ready.push_back(SourceEvent::SplitFinished(self.partitions.len()));
            self.wake.notify_one();
        } else {
            let queue = PartitionQueue::new(&consumer, &topic, number, &self.wake);
            partition.queue = Some(queue.ok_or_else(|| Error::internal(format!("no queue for topic {topic}")))?);
            let mut list = TopicPartitionList::with_capacity(1);
            let start = Offset::Offset(partition.position);
            let assigned =
                list.add_partition_offset(&topic, number, start).and_then(|()| consumer.incremental_assign(&list));
            assigned.map_err(|e| {
                Error::job(format!(
                    "Topic '{topic}', partition {number} cannot be read from offset {}: {e}",
                    partition.position
                ))
            })?;
        }
        self.partitions.push(partition);
        Ok(())
    }

    /// Serves the client's own events; these are errors, all messages go to partition queues.
    fn serve_client(&mut self) -> Result<()> {
        let Some(consumer) = &self.consumer else { return Ok(()) };
        self.commits.serve(consumer, &self.wake);
        while let Some(event) = consumer.poll(Duration::ZERO) {
            let error = match event {
                Ok(message) => {
                    use rdkafka::Message;
                    return Err(Error::internal(format!(
                        "a message of topic {} came by the wrong queue",
                        message.topic()
                    )));
                }
                Err(error) => error,
            };
            let health = consumer.client().context();
            let bootstrap = &self.table.options.properties.bootstrap;
            if let Some(reason) = health.login_error() {
                return Err(Error::job(format!("The Kafka brokers at '{bootstrap}' refuse the login: {reason}")));
            }
            let is_fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
            if is_fatal || !error.rdkafka_error_code().is_some_and(is_transient) {
                let reason = health.last_error().unwrap_or_default();
                return Err(Error::job(format!("Reading from Kafka at '{bootstrap}' failed: {error} {reason}")));
            }
        }
        Ok(())
    }

    /// Gives each partition its turn until there is an event.
    fn look_around(&mut self) -> Result<Option<SourceEvent>> {
        for _ in 0..self.partitions.len() {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.partitions.len();
            self.read(index)?;
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.failed.is_some() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Reads what one partition has now.
    fn read(&mut self, index: usize) -> Result<()> {
        let partition = &mut self.partitions[index];
        let Some(mut queue) = partition.queue.take() else { return Ok(()) };
        let taken = queue.take(self.ctx.batch_rows);
        for record in taken.iter() {
            if let Err(error) = accept(&mut self.rows, partition, &record, &self.table, &self.bytes) {
                self.failed = Some(error);
                break;
            }
            if partition.is_finished() {
                break;
            }
        }
        drop(taken);
        let finished = partition.is_finished();
        if let Some(high) = queue.high_watermark() {
            let lag = if finished { 0 } else { (high - partition.position).max(0) };
            self.pending.set(self.pending.get() + lag - partition.lag);
            partition.lag = lag;
        }
        let (topic, number) = (partition.state.topic.clone(), partition.state.partition);
        if finished {
            drop(queue);
        } else {
            partition.queue = Some(queue);
        }
        let silent = self.rows.rows() == 0 && partition.at_end && !finished;
        self.note_silence(index, silent, &topic, number);
        self.hand_over(index)?;
        if finished {
            self.ready.push_back(SourceEvent::SplitFinished(index));
            self.close(&topic, number)?;
        }
        Ok(())
    }

    fn note_silence(&mut self, index: usize, silent: bool, topic: &str, partition: i32) {
        let health = self.consumer.as_ref().map(|c| c.client().context());
        if silent && health.is_some_and(|h| h.can_ask(topic, partition)) {
            self.quiet.insert(index);
        } else {
            self.quiet.remove(&index);
        }
    }

    /// Makes events of the rows decoded so far. A changelog record may give more rows than one, so
    /// these may be more than a batch; the rows of one record stay together, for a position is a record.
    fn hand_over(&mut self, split: usize) -> Result<()> {
        if self.rows.rows() == 0 {
            return Ok(());
        }
        let (columns, kinds, positions) = self.rows.finish()?;
        let mut start = 0;
        while start < positions.len() {
            let len = batch_len(&positions[start..], self.ctx.batch_rows.max(1));
            self.ready.push_back(SourceEvent::Rows(SourceBatch {
                split,
                columns: columns.slice(start, len),
                kinds: kinds.as_ref().map(|k| k.slice(start, len)),
                positions: positions[start..start + len].to_vec(),
            }));
            start += len;
        }
        Ok(())
    }

    fn close(&mut self, topic: &str, partition: i32) -> Result<()> {
        let Some(consumer) = &self.consumer else { return Ok(()) };
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(topic, partition);
        let closed = consumer.incremental_unassign(&list);
        closed.map_err(|e| Error::job(format!("Topic '{topic}', partition {partition} cannot be closed: {e}")))
    }

    /// Notes how far the events that leave have come.
    fn returned(&mut self, event: SourceEvent) -> SourceEvent {
        match &event {
            SourceEvent::Rows(rows) => {
                if let Some(last) = rows.positions.last() {
                    self.partitions[rows.split].returned = last + 1;
                }
            }
            SourceEvent::SplitFinished(split) => self.partitions[*split].has_returned_all = true,
            SourceEvent::Quiet(_) => {}
        }
        event
    }

    fn quiet_due(&mut self) -> Option<SourceEvent> {
        if self.quiet.is_empty() || self.quiet_reported.elapsed() < QUIET_INTERVAL {
            return None;
        }
        self.quiet_reported = Instant::now();
        Some(SourceEvent::Quiet(std::mem::take(&mut self.quiet).into_iter().collect()))
    }
}

/// How many rows make a batch: at most `limit`, or more if one record has more.
fn batch_len(positions: &[i64], limit: usize) -> usize {
    if positions.len() <= limit {
        return positions.len();
    }
    let before = positions[..limit].iter().rposition(|p| *p != positions[limit]);
    match before {
        Some(last) => last + 1,
        None => positions.iter().take_while(|p| **p == positions[0]).count(),
    }
}

/// Waits for a queue to fill, or until silence is to be reported. Nothing is lost when this is dropped: a
/// wake-up that nobody waits for is kept.
async fn wait(wake: Arc<Notify>, report_at: Option<Instant>) {
    match report_at {
        None => wake.notified().await,
        Some(at) => tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep_until(at) => {}
        },
    }
}

/// Takes a record, or an event, into a partition.
fn accept(
    rows: &mut RowBuilder,
    partition: &mut Partition,
    record: &Record<'_>,
    table: &SourceTable,
    bytes: &Counter,
) -> Result<()> {
    match record.error() {
        None => {}
        Some(RDKafkaErrorCode::PartitionEOF) => {
            partition.position = partition.position.max(record.offset());
            partition.at_end = true;
            return Ok(());
        }
        Some(code) if is_transient(code) => return Ok(()),
        Some(code) => return Err(partition_error(partition, code, &record.error_text())),
    }
    let offset = record.offset();
    if partition.state.stop.is_some_and(|stop| offset >= stop) {
        partition.position = offset;
        return Ok(());
    }
    partition.at_end = false;
    bytes.add((record.payload().map_or(0, <[u8]>::len) + record.key().map_or(0, <[u8]>::len)) as u64);
    match rows.add(record, &partition.state.topic, partition.state.partition) {
        Ok(()) => {}
        Err(AddError::Other(error)) => return Err(error),
        Err(AddError::Decode(failure)) => {
            let (format, text, part) = match failure.in_key {
                true => (table.key_format.as_ref(), record.key(), " (key)"),
                false => (Some(&table.value_format), record.payload(), ""),
            };
            let name = format.map_or("", |f| f.identifier());
            let place = format!("{}{part}", partition.place(offset));
            return Err(decode_failure(name, text.unwrap_or_default(), &place, &failure.error));
        }
    }
    partition.position = offset + 1;
    partition.current_offset.set(offset);
    Ok(())
}

fn partition_error(partition: &Partition, code: RDKafkaErrorCode, text: &str) -> Error {
    let (topic, number, offset) = (&partition.state.topic, partition.state.partition, partition.position);
    match code {
        RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => Error::job(format!(
            "Topic '{topic}', partition {number} has no record at offset {offset} (any more, or yet): {text}. Set \
             'properties.auto.offset.reset' to 'earliest' or 'latest' to go on elsewhere."
        )),
        RDKafkaErrorCode::UnknownTopicOrPartition
        | RDKafkaErrorCode::UnknownTopic
        | RDKafkaErrorCode::UnknownPartition => Error::job(format!(
            "Topic '{topic}', partition {number} does not exist any more (read up to offset {offset})."
        )),
        _ => {
            Error::job(format!("Topic '{topic}', partition {number}, offset {offset} cannot be read: {text} ({code})"))
        }
    }
}

#[async_trait]
impl SourceReader for KafkaReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let state: PartitionState = serde_json::from_value(split.state)
            .map_err(|e| Error::internal(format!("split {} is no Kafka partition: {e}", split.id)))?;
        self.open(state)
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(self.returned(event));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.serve_client()?;
            if let Some(event) = self.quiet_due() {
                return Ok(event);
            }
            if let Some(event) = self.look_around()? {
                return Ok(self.returned(event));
            }
            if self.failed.is_none() {
                if let Some(event) = self.quiet_due() {
                    return Ok(event);
                }
                let report_at = (!self.quiet.is_empty()).then(|| self.quiet_reported + QUIET_INTERVAL);
                wait(Arc::clone(&self.wake), report_at).await;
            }
        }
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        let open = self.partitions.iter().enumerate().filter(|(_, p)| !p.has_returned_all);
        open.map(|(number, partition)| {
            let state = PartitionState { start: partition.returned, ..partition.state.clone() };
            Ok((number, state.to_split()?))
        })
        .collect()
    }

    fn snapshot_taken(&mut self, checkpoint: u64) {
        if self.table.options.properties.commits_offsets {
            // Partitions that were read to their end are told too.
            let offsets = self.partitions.iter().map(|p| ((p.state.topic.clone(), p.state.partition), p.returned));
            self.commits.taken(checkpoint, offsets.collect());
        }
    }

    fn snapshot_completed(&mut self, checkpoint: u64) {
        if let Some(consumer) = &self.consumer {
            self.commits.completed(checkpoint, consumer, &self.wake);
        }
    }

    fn locate(&self, split: usize, position: i64) -> String {
        self.partitions.get(split).map_or_else(|| format!("offset {position}"), |p| p.place(position))
    }
}
