//! Whether a record or an offset may join a transaction.
//!
//! In version 1 of the protocol the producer adds partitions and groups itself, and the coordinator only
//! checks. In version 2 (Produce 12, TxnOffsetCommit 5) the write itself adds them.
//!
//! The errors are those that the clients of each version know; see Kafka's `AddPartitionsToTxnManager`
//! and `ReplicaManager`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka_protocol::ResponseError;

use super::machine::{Identity, Txn};
use super::{Inner, Slot, Transactions};

/// First version of Produce that adds its partitions to the transaction.
const PRODUCE_ADDS: i16 = 12;
/// First version of Produce whose clients know `TRANSACTION_ABORTABLE`.
const PRODUCE_ABORTABLE: i16 = 11;
/// First version of TxnOffsetCommit that adds its group to the transaction.
const OFFSETS_ADD: i16 = 5;
/// First version of TxnOffsetCommit whose clients know `TRANSACTION_ABORTABLE`.
const OFFSETS_ABORTABLE: i16 = 4;

/// Keeps a transaction from ending while something that belongs to it is written.
#[must_use = "drop it only after the write"]
#[derive(Debug)]
pub(crate) struct Appending(Arc<AtomicUsize>);

impl Appending {
    fn new(slot: &Slot) -> Appending {
        slot.appending.fetch_add(1, Ordering::AcqRel);
        Appending(Arc::clone(&slot.appending))
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Transactions {
    /// Whether a transactional batch may be appended to a partition; in version 2 it adds the partition.
    ///
    /// # Errors
    /// What Produce answers for the partition: `INVALID_PRODUCER_ID_MAPPING`, `INVALID_PRODUCER_EPOCH`,
    /// `INVALID_TXN_STATE` or `TRANSACTION_ABORTABLE`, and while the transaction before is being ended
    /// `CONCURRENT_TRANSACTIONS` or `NOT_ENOUGH_REPLICAS`, whichever the client retries.
    pub(crate) fn verify_produce(
        &self,
        transactional_id: &str,
        producer_id: i64,
        producer_epoch: i16,
        topic: &str,
        partition: i32,
        request_version: i16,
        now_ms: i64,
    ) -> Result<Appending, ResponseError> {
        let mut inner = self.lock();
        let producer = Identity { id: producer_id, epoch: producer_epoch };
        let partition = (topic.to_owned(), partition);
        let adds = request_version >= PRODUCE_ADDS;
        let joined = if adds {
            inner.add(transactional_id, producer, std::slice::from_ref(&partition), None, now_ms)
        } else {
            inner.expect(transactional_id, producer, |txn| txn.has_all(std::slice::from_ref(&partition), None))
        };
        match joined {
            Ok(()) => Ok(Appending::new(inner.slot(transactional_id)?)),
            Err(ResponseError::ProducerFenced) => Err(ResponseError::InvalidProducerEpoch),
            Err(ResponseError::TransactionAbortable) if request_version < PRODUCE_ABORTABLE => {
                Err(ResponseError::InvalidTxnState)
            }
            Err(ResponseError::ConcurrentTransactions) if !adds => Err(ResponseError::NotEnoughReplicas),
            Err(error) => Err(error),
        }
    }

    /// Whether offsets of a group may be staged; in version 2 it adds the group.
    ///
    /// # Errors
    /// What TxnOffsetCommit answers: as [`verify_produce`](Transactions::verify_produce), with
    /// `COORDINATOR_NOT_AVAILABLE` in place of `NOT_ENOUGH_REPLICAS`.
    pub(crate) fn verify_offsets(
        &self,
        transactional_id: &str,
        producer: Identity,
        group: &str,
        request_version: i16,
        now_ms: i64,
    ) -> Result<Appending, ResponseError> {
        let mut inner = self.lock();
        let adds = request_version >= OFFSETS_ADD;
        let joined = if adds {
            inner.add(transactional_id, producer, &[], Some(group), now_ms)
        } else {
            inner.expect(transactional_id, producer, |txn| txn.has_all(&[], Some(group)))
        };
        match joined {
            Ok(()) => Ok(Appending::new(inner.slot(transactional_id)?)),
            Err(ResponseError::ProducerFenced) => Err(ResponseError::InvalidProducerEpoch),
            Err(ResponseError::TransactionAbortable) if request_version < OFFSETS_ABORTABLE => {
                Err(ResponseError::InvalidTxnState)
            }
            Err(ResponseError::ConcurrentTransactions) if !adds => Err(ResponseError::CoordinatorNotAvailable),
            Err(error) => Err(error),
        }
    }

    /// Whether partitions are part of a transaction (AddPartitionsToTxn with `verify_only`), one by one.
    ///
    /// # Errors
    /// See [`Txn::check`]. A partition that is not part gets `TRANSACTION_ABORTABLE`.
    pub(crate) fn verify_partitions(
        &self,
        transactional_id: &str,
        producer: Identity,
        partitions: &[super::Partition],
    ) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
        let inner = self.lock();
        let txn = &inner.slot(transactional_id)?.txn;
        txn.check(producer)?;
        let known = |partition| match txn.partitions.contains(partition) {
            true => Ok(()),
            false => Err(ResponseError::TransactionAbortable),
        };
        Ok(partitions.iter().map(known).collect())
    }
}

impl Inner {
    fn expect(&self, id: &str, producer: Identity, joined: impl Fn(&Txn) -> bool) -> Result<(), ResponseError> {
        let txn = &self.slot(id)?.txn;
        txn.check(producer)?;
        if joined(txn) { Ok(()) } else { Err(ResponseError::TransactionAbortable) }
    }
}
