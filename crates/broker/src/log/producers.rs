//! What a partition remembers of each idempotent producer, so that a batch sent twice is stored once.
//!
//! A producer numbers its records. The log keeps the last five batches of each producer: one of them again is a
//! duplicate and gets the old answer, the next in sequence is appended, anything else is refused. A new epoch
//! starts a new sequence and makes everything sent under an older one a zombie's. Source: Kafka's
//! `ProducerAppendInfo` and `ProducerStateEntry`.

use std::collections::{BTreeSet, HashMap, VecDeque};

use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};

use crate::batch::BatchHeader;

/// Batches remembered for each producer: as many as a client may have under way.
const WINDOW: usize = 5;
/// How long a producer that sends nothing is remembered (`producer.id.expiration.ms`).
const EXPIRATION_MS: i64 = 24 * 60 * 60 * 1000;

/// What is to be done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is new and follows its predecessor.
    Append,
    /// It is here already.
    Duplicate { base_offset: i64, timestamp: i64 },
}

/// One producer's state, for `DescribeProducers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerView {
    /// Its id.
    pub producer_id: i64,
    /// Its latest epoch here.
    pub producer_epoch: i16,
    /// Sequence number of its last record, or -1.
    pub last_sequence: i32,
    /// Largest time in its last batch, in epoch milliseconds, or -1.
    pub last_timestamp: i64,
    /// Offset at which its open transaction began here.
    pub current_txn_start_offset: Option<i64>,
    /// Epoch of the coordinator that wrote its last end marker, or -1.
    pub coordinator_epoch: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Sent>,
    /// First offset of its open transaction.
    open_since: Option<i64>,
    coordinator_epoch: i32,
    /// When it last wrote, by the broker's clock.
    seen_ms: i64,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Sent {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    timestamp: i64,
}

/// The producers of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Producers {
    known: HashMap<i64, Producer>,
    /// First offsets of open transactions; the smallest is the last stable offset.
    open: BTreeSet<i64>,
}

/// Producers as they are written at the begin of a segment.
#[derive(Deserialize, Serialize)]
pub(super) struct Snapshot(Vec<(i64, Producer)>);

impl Producers {
    /// Judges a batch before it is appended.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_EPOCH` for an old epoch, `OUT_OF_ORDER_SEQUENCE_NUMBER` for a gap or for a new epoch
    /// that does not begin at 0, `INVALID_TXN_STATE` for a plain batch amid the producer's transaction.
    pub(super) fn judge(&self, header: &BatchHeader) -> Result<Verdict, ResponseError> {
        if !header.has_producer() {
            return Ok(Verdict::Append);
        }
        // Of a producer that is not known, or no longer, any sequence is taken, as in Kafka.
        let Some(producer) = self.known.get(&header.producer_id) else { return Ok(Verdict::Append) };
        if header.producer_epoch < producer.epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        let same_epoch = header.producer_epoch == producer.epoch;
        if same_epoch && let Some(sent) = producer.batches.iter().find(|sent| sent.is(header)) {
            return Ok(Verdict::Duplicate { base_offset: sent.base_offset, timestamp: sent.timestamp });
        }
        let expected = if same_epoch { producer.next_sequence() } else { 0 };
        if header.base_sequence != expected {
            return Err(ResponseError::OutOfOrderSequenceNumber);
        }
        if producer.open_since.is_some() && !header.is_transactional() {
            return Err(ResponseError::InvalidTxnState);
        }
        Ok(Verdict::Append)
    }

    /// Remembers a batch that was appended at `base_offset`.
    pub(super) fn appended(&mut self, header: &BatchHeader, base_offset: i64, now_ms: i64) {
        if !header.has_producer() {
            return;
        }
        let producer = self.known.entry(header.producer_id).or_insert_with(|| Producer::new(header.producer_epoch));
        producer.enter_epoch(header.producer_epoch);
        producer.seen_ms = now_ms;
        producer.batches.push_back(Sent {
            first_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            base_offset,
            timestamp: header.max_timestamp,
        });
        if producer.batches.len() > WINDOW {
            producer.batches.pop_front();
        }
        if header.is_transactional() && producer.open_since.is_none() {
            producer.open_since = Some(base_offset);
            self.open.insert(base_offset);
        }
    }

    /// Whether an end marker has anything to end or to fence here.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_EPOCH` for the marker of an older epoch.
    pub(super) fn needs_marker(&self, producer_id: i64, epoch: i16) -> Result<bool, ResponseError> {
        match self.known.get(&producer_id) {
            Some(producer) if epoch < producer.epoch => Err(ResponseError::InvalidProducerEpoch),
            Some(producer) => Ok(producer.open_since.is_some() || epoch > producer.epoch),
            None => Ok(true),
        }
    }

    /// Ends the producer's transaction; returns the offset at which it began here.
    pub(super) fn ended(&mut self, producer_id: i64, epoch: i16, coordinator_epoch: i32, now_ms: i64) -> Option<i64> {
        let producer = self.known.entry(producer_id).or_insert_with(|| Producer::new(epoch));
        producer.enter_epoch(epoch);
        producer.coordinator_epoch = coordinator_epoch;
        producer.seen_ms = now_ms;
        let first = producer.open_since.take()?;
        self.open.remove(&first);
        Some(first)
    }

    /// Where the first open transaction began.
    pub(super) fn first_unstable(&self) -> Option<i64> {
        self.open.first().copied()
    }

    /// Forgets producers that have been idle for a day. Unlike Kafka, which goes by record times, idle is
    /// measured by the broker's clock: replayed old records must not cost a producer its duplicates' detection.
    pub(super) fn expire(&mut self, now_ms: i64) {
        self.known.retain(|_, producer| {
            producer.open_since.is_some() || now_ms.saturating_sub(producer.seen_ms) < EXPIRATION_MS
        });
    }

    /// Every producer, by id.
    pub(super) fn views(&self) -> Vec<ProducerView> {
        let mut views: Vec<ProducerView> = self.known.iter().map(|(&id, producer)| producer.view(id)).collect();
        views.sort_by_key(|view| view.producer_id);
        views
    }

    /// The state to write down.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut known: Vec<(i64, Producer)> = self.known.iter().map(|(&id, producer)| (id, producer.clone())).collect();
        known.sort_by_key(|(id, _)| *id);
        Snapshot(known)
    }
}

impl From<Snapshot> for Producers {
    fn from(snapshot: Snapshot) -> Self {
        let open = snapshot.0.iter().filter_map(|(_, producer)| producer.open_since).collect();
        Producers { known: snapshot.0.into_iter().collect(), open }
    }
}

impl Producer {
    fn new(epoch: i16) -> Producer {
        Producer { epoch, batches: VecDeque::new(), open_since: None, coordinator_epoch: -1, seen_ms: 0 }
    }

    /// A new epoch begins a new sequence: kept batches would make its first ones look like duplicates.
    fn enter_epoch(&mut self, epoch: i16) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    fn next_sequence(&self) -> i32 {
        match self.batches.back().map(|sent| sent.last_sequence) {
            None | Some(i32::MAX) => 0,
            Some(last) => last + 1,
        }
    }

    fn view(&self, producer_id: i64) -> ProducerView {
        let last = self.batches.back();
        ProducerView {
            producer_id,
            producer_epoch: self.epoch,
            last_sequence: last.map_or(-1, |sent| sent.last_sequence),
            last_timestamp: last.map_or(-1, |sent| sent.timestamp),
            current_txn_start_offset: self.open_since,
            coordinator_epoch: self.coordinator_epoch,
        }
    }
}

impl Sent {
    fn is(&self, header: &BatchHeader) -> bool {
        self.first_sequence == header.base_sequence && self.last_sequence == header.last_sequence()
    }
}
