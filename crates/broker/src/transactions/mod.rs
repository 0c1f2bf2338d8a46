//! The transaction coordinator.
//!
//! Coordinator and participants live in one process, so a commit is: write to the journal that it *will*
//! commit, write a marker to every partition, make the groups' offsets visible, write to the journal that
//! it is complete. The first entry is the point of no return: whoever reads it at a start finishes the
//! rest, and every step after it may be repeated. An open transaction stays open over a restart, and its
//! timeout runs on from its recorded beginning.
//!
//! [`machine`] decides; this file writes down what it decided, then carries it out.
//!
//! Between the check that a record may join a transaction and its append to the log, the transaction must
//! not end: its record would land behind the marker and belong to the next one. A check therefore gives
//! an [`Appending`], and while one is alive, ends answer `CONCURRENT_TRANSACTIONS`, which clients retry.

mod entry;
mod machine;
mod participants;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kafka_protocol::ResponseError;

use self::entry::{Entry, ProducerIds, Replayed};
use self::machine::{End, Init, Txn};
pub(crate) use self::machine::{EndRequest, Identity, Partition, TxnState};
pub(crate) use self::participants::{Local, Participants};
pub(crate) use self::verify::Appending;
use crate::groups::Groups;
use crate::journal::Journal;
use crate::options::BrokerOptions;
use crate::report::Report;
use crate::topics::Topics;

/// How long an unused transactional id is remembered (`transactional.id.expiration.ms`).
const EXPIRATION_MS: i64 = 7 * 24 * 3600 * 1000;
/// The journal is rewritten when it has this many entries more than needed.
const SLACK: usize = 10_000;

/// All transactional ids. Every method is a step of its own; they do not overlap.
pub(crate) struct Transactions {
    inner: Mutex<Inner>,
    timeout_max_ms: i64,
}

struct Inner {
    journal: Journal<Entry>,
    report: Report,
    slots: BTreeMap<String, Slot>,
    ids: ProducerIds,
}

struct Slot {
    txn: Txn,
    /// Appends that were allowed and are not done yet.
    appending: Arc<AtomicUsize>,
}

impl Slot {
    fn new(txn: Txn) -> Slot {
        Slot { txn, appending: Arc::default() }
    }

    /// # Errors
    /// `CONCURRENT_TRANSACTIONS` while a record is on its way to a log.
    fn check_quiet(&self) -> Result<(), ResponseError> {
        match self.appending.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(ResponseError::ConcurrentTransactions),
        }
    }
}

/// What a transactional id looks like from outside.
#[derive(Clone, Debug)]
pub(crate) struct TxnView {
    pub(crate) id: String,
    pub(crate) state: TxnState,
    pub(crate) producer: Identity,
    pub(crate) timeout_ms: i32,
    /// When the transaction began, or -1.
    pub(crate) start_ms: i64,
    pub(crate) partitions: Vec<Partition>,
}

impl Transactions {
    /// Reads `<data>/transactions.journal` and finishes what was decided before the last end.
    pub(crate) fn open(
        data: &Path,
        topics: &Topics,
        groups: &Groups,
        options: &BrokerOptions,
        now_ms: i64,
    ) -> io::Result<Transactions> {
        let timeout_max_ms = i64::try_from(options.transaction_timeout_max.as_millis()).unwrap_or(i64::MAX);
        Transactions::open_with(data, &Local { topics, groups }, timeout_max_ms, options.report.clone(), now_ms)
    }

    fn open_with(
        data: &Path,
        participants: &impl Participants,
        timeout_max_ms: i64,
        report: Report,
        now_ms: i64,
    ) -> io::Result<Transactions> {
        let (journal, entries) = Journal::open(&data.join("transactions.journal"))?;
        let mut replayed = Replayed::default();
        entries.into_iter().for_each(|entry| replayed.apply(entry));
        let slots = replayed.txns.into_iter().map(|(id, txn)| (id, Slot::new(txn))).collect();
        let mut inner = Inner { journal, report, slots, ids: ProducerIds::from(replayed.next_id) };
        if let Err(error) = inner.finish_prepared(participants, now_ms) {
            inner.report.trouble(&error.to_string());
        }
        inner.abort_orphans(participants, now_ms);
        Ok(Transactions { inner: Mutex::new(inner), timeout_max_ms })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A state is replaced as a whole after it was written, so a panic elsewhere leaves none half made.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `InitProducerId`. Without a transactional id it gives a new producer id.
    ///
    /// # Errors
    /// `INVALID_REQUEST`, `INVALID_TRANSACTION_TIMEOUT`, `PRODUCER_FENCED`, and `CONCURRENT_TRANSACTIONS`
    /// if an open transaction was in the way: it is aborted then, and the client asks again.
    pub(crate) fn init_producer_id(
        &self,
        participants: &impl Participants,
        transactional_id: Option<&str>,
        timeout_ms: i32,
        expected: Option<Identity>,
        now_ms: i64,
    ) -> Result<Identity, ResponseError> {
        let mut inner = self.lock();
        let Some(id) = transactional_id else {
            return Ok(Identity { id: inner.new_producer_id()?, epoch: 0 });
        };
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        if timeout_ms <= 0 || i64::from(timeout_ms) > self.timeout_max_ms {
            return Err(ResponseError::InvalidTransactionTimeout);
        }
        let txn = match inner.slots.get(id) {
            Some(slot) => slot.txn.clone(),
            None => Txn::new(inner.new_producer_id()?, timeout_ms, now_ms),
        };
        let next = match txn.init(expected, timeout_ms, now_ms)? {
            Init::Ready(next) => next,
            Init::NeedsProducerId => txn.rotated(inner.new_producer_id()?, expected, timeout_ms, now_ms),
            Init::Abort(aborting) => {
                inner.slot(id)?.check_quiet()?;
                inner.install(id, aborting)?;
                inner.finish(participants, id, now_ms)?;
                return Err(ResponseError::ConcurrentTransactions);
            }
        };
        let identity = next.identity();
        inner.install(id, next)?;
        Ok(identity)
    }

    /// `EndTxn`. The answer is the identity that the producer goes on with.
    ///
    /// Once the outcome is in the journal the answer is a success; what could not be written for trouble
    /// of the disk is written again by [`tick`](Transactions::tick).
    ///
    /// # Errors
    /// See [`Txn::end`]; `INVALID_PRODUCER_ID_MAPPING` also for an unknown transactional id.
    pub(crate) fn end(
        &self,
        participants: &impl Participants,
        transactional_id: &str,
        request: EndRequest,
        now_ms: i64,
    ) -> Result<Identity, ResponseError> {
        let mut inner = self.lock();
        let txn = inner.slot(transactional_id)?.txn.clone();
        let mut decision = txn.end(request, None, now_ms)?;
        if decision == End::NeedsProducerId {
            let next_id = inner.new_producer_id()?;
            decision = txn.end(request, Some(next_id), now_ms)?;
        }
        match decision {
            End::Repeated(identity) => Ok(identity),
            End::NeedsProducerId => Err(ResponseError::UnknownServerError),
            End::Prepared(prepared) => {
                inner.slot(transactional_id)?.check_quiet()?;
                let identity = prepared.identity_after_end();
                inner.install(transactional_id, prepared)?;
                // The outcome is decided; `tick` repeats what fails here.
                let _ = inner.finish(participants, transactional_id, now_ms);
                Ok(identity)
            }
        }
    }

    /// `AddPartitionsToTxn`, for partitions that exist.
    ///
    /// # Errors
    /// See [`Txn::check`]; `INVALID_PRODUCER_ID_MAPPING` also for an unknown transactional id.
    pub(crate) fn add_partitions(
        &self,
        transactional_id: &str,
        producer: Identity,
        partitions: &[Partition],
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        self.lock().add(transactional_id, producer, partitions, None, now_ms)
    }

    /// `AddOffsetsToTxn`.
    ///
    /// # Errors
    /// As [`add_partitions`](Transactions::add_partitions).
    pub(crate) fn add_offsets(
        &self,
        transactional_id: &str,
        producer: Identity,
        group: &str,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        self.lock().add(transactional_id, producer, &[], Some(group), now_ms)
    }

    /// Aborts what is open for too long, writes markers that could not be written, forgets unused ids and
    /// shortens the journal.
    pub(crate) fn tick(&self, topics: &Topics, groups: &Groups, now_ms: i64) -> io::Result<()> {
        self.tick_with(&Local { topics, groups }, now_ms)
    }

    fn tick_with(&self, participants: &impl Participants, now_ms: i64) -> io::Result<()> {
        let mut inner = self.lock();
        inner.abort_timed_out(now_ms)?;
        inner.finish_prepared(participants, now_ms)?;
        inner.forget_expired(now_ms)?;
        inner.compact()
    }

    /// Takes a deleted topic out of every transaction.
    pub(crate) fn topic_deleted(&self, topic: &str) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.slots.values().any(|slot| slot.txn.partitions.iter().any(|partition| partition.0 == topic)) {
            inner.journal.append(&Entry::TopicDeleted { topic: topic.to_owned() })?;
            for slot in inner.slots.values_mut() {
                slot.txn.partitions.retain(|partition| partition.0 != topic);
            }
        }
        Ok(())
    }

    /// All transactional ids, in order.
    pub(crate) fn list(&self) -> Vec<TxnView> {
        self.lock().slots.iter().map(|(id, slot)| view(id, &slot.txn)).collect()
    }

    /// One transactional id.
    pub(crate) fn describe(&self, transactional_id: &str) -> Option<TxnView> {
        self.lock().slots.get(transactional_id).map(|slot| view(transactional_id, &slot.txn))
    }
}

fn view(id: &str, txn: &Txn) -> TxnView {
    TxnView {
        id: id.to_owned(),
        state: txn.state,
        producer: txn.identity(),
        timeout_ms: txn.timeout_ms,
        start_ms: txn.start_ms,
        partitions: txn.partitions.iter().cloned().collect(),
    }
}

impl Inner {
    /// Writes what comes next.
    ///
    /// # Errors
    /// `KAFKA_STORAGE_ERROR`; the trouble itself is reported.
    fn write(&mut self, entry: &Entry) -> Result<(), ResponseError> {
        self.journal.append(entry).map_err(|error| {
            self.report.trouble(&format!("cannot write the journal of transactions: {error}"));
            ResponseError::KafkaStorageError
        })
    }

    /// # Errors
    /// `INVALID_PRODUCER_ID_MAPPING`, Kafka's answer for an id that was never initialized or has expired.
    fn slot(&self, id: &str) -> Result<&Slot, ResponseError> {
        self.slots.get(id).ok_or(ResponseError::InvalidProducerIdMapping)
    }

    fn new_producer_id(&mut self) -> Result<i64, ResponseError> {
        if let Some(entry) = self.ids.reservation() {
            self.write(&entry)?;
        }
        Ok(self.ids.take())
    }

    /// Writes the new state, then makes it true.
    fn install(&mut self, id: &str, txn: Txn) -> Result<(), ResponseError> {
        let entry = Entry::Txn { id: id.to_owned(), txn };
        self.write(&entry)?;
        let Entry::Txn { id, txn } = entry else { return Ok(()) };
        match self.slots.get_mut(&id) {
            Some(slot) => slot.txn = txn,
            None => drop(self.slots.insert(id, Slot::new(txn))),
        }
        Ok(())
    }

    fn add(
        &mut self,
        id: &str,
        producer: Identity,
        partitions: &[Partition],
        group: Option<&str>,
        now_ms: i64,
    ) -> Result<(), ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let txn = &self.slot(id)?.txn;
        txn.check(producer)?;
        if txn.has_all(partitions, group) {
            return Ok(());
        }
        let entry = Entry::Added {
            id: id.to_owned(),
            partitions: partitions.to_vec(),
            group: group.map(str::to_owned),
            now_ms,
        };
        self.write(&entry)?;
        if let Some(slot) = self.slots.get_mut(id) {
            slot.txn.add(partitions, group, now_ms);
        }
        Ok(())
    }

    /// Carries out the decided outcome of a transaction.
    fn finish(&mut self, participants: &impl Participants, id: &str, now_ms: i64) -> Result<(), ResponseError> {
        let txn = &self.slot(id)?.txn;
        let commit = txn.state == TxnState::PrepareCommit;
        for partition in &txn.partitions {
            match participants.write_marker(partition, txn.identity(), commit, now_ms) {
                // A newer producer wrote there already, so nothing of this one is open.
                Ok(()) | Err(ResponseError::InvalidProducerEpoch) => {}
                Err(error) => return Err(error),
            }
        }
        if !txn.groups.is_empty() {
            participants.end_offsets(txn.producer_id, commit, now_ms)?;
        }
        let completed = txn.completed(now_ms);
        self.install(id, completed)
    }

    /// Finishes every transaction whose outcome is decided; those that fail stay for the next time.
    fn finish_prepared(&mut self, participants: &impl Participants, now_ms: i64) -> io::Result<()> {
        let mut failed = None;
        for id in self.ids_where(|slot| slot.txn.state.is_prepared()) {
            if let Err(error) = self.finish(participants, &id, now_ms) {
                failed =
                    Some(io::Error::other(format!("the markers of transaction \"{id}\" were not written: {error}")));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Aborts transactions that a log has open and no transactional id knows: the journal lost its end
    /// to a death of the machine. Left alone they would hide all later records for ever.
    fn abort_orphans(&self, participants: &impl Participants, now_ms: i64) {
        let open: HashMap<i64, &Txn> = self
            .slots
            .values()
            .filter(|slot| slot.txn.state == TxnState::Ongoing || slot.txn.state.is_prepared())
            .map(|slot| (slot.txn.producer_id, &slot.txn))
            .collect();
        for (partition, producer) in participants.open_transactions() {
            if !open.get(&producer.id).is_some_and(|txn| txn.partitions.contains(&partition)) {
                // A log that cannot take a marker now is asked again at the next start.
                let _ = participants.write_marker(&partition, producer, false, now_ms);
            }
        }
    }

    fn abort_timed_out(&mut self, now_ms: i64) -> io::Result<()> {
        for id in self.ids_where(|slot| slot.txn.is_timed_out(now_ms) && slot.check_quiet().is_ok()) {
            if let Some(slot) = self.slots.get(&id) {
                let fenced = slot.txn.fenced(now_ms);
                self.install(&id, fenced).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    fn forget_expired(&mut self, now_ms: i64) -> io::Result<()> {
        for id in self.ids_where(|slot| slot.txn.is_expired(now_ms, EXPIRATION_MS)) {
            self.journal.append(&Entry::Forgotten { id: id.clone() })?;
            self.slots.remove(&id);
        }
        Ok(())
    }

    fn ids_where(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<String> {
        self.slots.iter().filter(|(_, slot)| wanted(slot)).map(|(id, _)| id.clone()).collect()
    }

    fn compact(&mut self) -> io::Result<()> {
        if self.journal.len() < SLACK + 2 * self.slots.len() {
            return Ok(());
        }
        let txns = self.slots.iter().map(|(id, slot)| Entry::Txn { id: id.clone(), txn: slot.txn.clone() });
        let entries: Vec<Entry> = std::iter::once(self.ids.snapshot()).chain(txns).collect();
        self.journal.rewrite(entries)
    }
}
