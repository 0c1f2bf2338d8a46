//! Tells the source's group how far complete checkpoints have read.
//!
//! Others watch a group to see how far a job is behind. The job itself goes on from its checkpoints: a commit that
//! fails or is lost changes nothing, the next checkpoint commits again. One commit is under way at a time; while it is,
//! only the newest offsets wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use tidegate_api::metrics::{Counter, Gauge, MetricGroup};
use tokio::sync::Notify;

use super::client::Consumer;
use super::offsets::Partition;

/// Snapshots that wait for their checkpoint. If so many fail in a row, the oldest is of no use any more.
const WAITING_MAX: usize = 100;

type Offsets = Vec<(Partition, i64)>;

/// The offsets of one reader that are to be committed.
pub(super) struct OffsetCommits {
    /// Offsets behind what was returned, by checkpoint.
    taken: BTreeMap<u64, Offsets>,
    /// To be committed when the commit under way has been answered.
    next: Option<Offsets>,
    under_way: Option<UnderWay>,
    shown: HashMap<Partition, Gauge>,
    succeeded: Counter,
    failed: Counter,
}

struct UnderWay {
    offsets: Offsets,
    answer: Receiver<Result<(), KafkaError>>,
}

impl OffsetCommits {
    /// Nothing is taken yet.
    pub fn new(metrics: &MetricGroup) -> OffsetCommits {
        OffsetCommits {
            taken: BTreeMap::new(),
            next: None,
            under_way: None,
            shown: HashMap::new(),
            succeeded: metrics.counter("commitsSucceeded"),
            failed: metrics.counter("commitsFailed"),
        }
    }

    /// Shows what is committed of a partition.
    pub fn follow(&mut self, topic: &str, partition: i32, committed: Gauge) {
        self.shown.insert((topic.to_owned(), partition), committed);
    }

    /// These offsets are part of a checkpoint.
    pub fn taken(&mut self, checkpoint: u64, offsets: Offsets) {
        self.taken.insert(checkpoint, offsets);
        if self.taken.len() > WAITING_MAX {
            self.taken.pop_first();
        }
    }

    /// A checkpoint is complete: its offsets are sent, and `wake` hears when there is an answer.
    pub fn completed(&mut self, checkpoint: u64, consumer: &Arc<Consumer>, wake: &Arc<Notify>) {
        let later = self.taken.split_off(&(checkpoint + 1));
        let offsets = std::mem::replace(&mut self.taken, later).remove(&checkpoint);
        if let Some(offsets) = offsets.filter(|offsets| !offsets.is_empty()) {
            self.next = Some(offsets);
            self.start(consumer, wake);
        }
    }

    /// Takes the answer if there is one, and goes on with what waits.
    pub fn serve(&mut self, consumer: &Arc<Consumer>, wake: &Arc<Notify>) {
        let Some(UnderWay { offsets, answer }) = &self.under_way else { return };
        match answer.try_recv() {
            Err(TryRecvError::Empty) => return,
            Ok(Ok(())) => {
                self.succeeded.add(1);
                for (partition, offset) in offsets {
                    if let Some(shown) = self.shown.get(partition) {
                        shown.set(*offset);
                    }
                }
            }
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => self.failed.add(1),
        }
        self.under_way = None;
        self.start(consumer, wake);
    }

    /// Commits what waits, on a thread for blocking work: the client's asynchronous commit tells nobody how it went.
    fn start(&mut self, consumer: &Arc<Consumer>, wake: &Arc<Notify>) {
        if self.under_way.is_some() {
            return;
        }
        let Some(offsets) = self.next.take() else { return };
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        let listed = offsets.iter().try_for_each(|((topic, partition), offset)| {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
        });
        if listed.is_err() {
            self.failed.add(1);
            return;
        }
        let (tell, answer) = channel();
        let (consumer, wake) = (Arc::clone(consumer), Arc::clone(wake));
        tokio::task::spawn_blocking(move || {
            // A reader that is gone does not ask any more.
            let _ = tell.send(consumer.commit(&list, CommitMode::Sync));
            wake.notify_one();
        });
        self.under_way = Some(UnderWay { offsets, answer });
    }
}
