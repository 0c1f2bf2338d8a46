//! Who takes part in a transaction: partitions of topics and offsets of groups.

use kafka_protocol::ResponseError;

use super::machine::{Identity, Partition};
use crate::groups::Groups;
use crate::topics::Topics;

/// What the coordinator asks of the participants. Every call may be repeated after a restart, and then
/// changes nothing more.
pub(crate) trait Participants {
    /// Ends `producer`'s transaction in one partition. A partition that is gone has nothing to end.
    fn write_marker(
        &self,
        partition: &Partition,
        producer: Identity,
        commit: bool,
        now_ms: i64,
    ) -> Result<(), ResponseError>;

    /// Makes the offsets that a transaction staged visible, or drops them.
    fn end_offsets(&self, producer_id: i64, commit: bool, now_ms: i64) -> Result<(), ResponseError>;

    /// Transactions that are open in a partition, with their producer.
    fn open_transactions(&self) -> Vec<(Partition, Identity)>;
}

/// The participants in this process.
pub(crate) struct Local<'a> {
    pub(crate) topics: &'a Topics,
    pub(crate) groups: &'a Groups,
}

impl Participants for Local<'_> {
    fn write_marker(
        &self,
        (topic, partition): &Partition,
        producer: Identity,
        commit: bool,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        let topic = self.topics.get(topic);
        let log = topic.as_ref().and_then(|topic| topic.partitions.get(usize::try_from(*partition).ok()?));
        log.map_or(Ok(()), |log| log.append_end_marker(producer.id, producer.epoch, commit, now_ms).map(drop))
    }

    fn end_offsets(&self, producer_id: i64, commit: bool, now_ms: i64) -> Result<(), ResponseError> {
        self.groups.end_transaction(producer_id, commit, now_ms)
    }

    fn open_transactions(&self) -> Vec<(Partition, Identity)> {
        let mut open = Vec::new();
        for topic in self.topics.names().iter().filter_map(|name| self.topics.get(name)) {
            for (index, log) in topic.partitions.iter().enumerate() {
                let producers = log.producers().into_iter().filter(|view| view.current_txn_start_offset.is_some());
                let partition = (topic.name.clone(), index as i32);
                open.extend(
                    producers
                        .map(|view| (partition.clone(), Identity { id: view.producer_id, epoch: view.producer_epoch })),
                );
            }
        }
        open
    }
}
