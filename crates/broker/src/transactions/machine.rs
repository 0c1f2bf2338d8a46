//! What one transactional id may do next: facts in, the next state or Kafka's error out.
//!
//! ```text
//!            add                     end                       markers written
//!  Empty ─────────▶ Ongoing ───────────────────▶ PrepareCommit ─────────────────▶ CompleteCommit
//!    ▲                 │  end, timeout, a newer producer                                │
//!    │                 └──────────▶ PrepareAbort ─────────────────▶ CompleteAbort        │
//!    └──────────── init ────────────────────────────────────────────────┴────────────────┘
//! ```
//!
//! Nothing here changes in place: a decision gives the whole next [`Txn`], which the owner writes to the
//! journal before it becomes true. The rules are those of Kafka's `TransactionMetadata` and
//! `TransactionCoordinator`, in both versions of the protocol:
//!
//! - **Version 1** (EndTxn up to 4): the epoch stays the same from one `InitProducerId` to the next, so a
//!   repeated EndTxn is told from a new one only by the state.
//! - **Version 2** (EndTxn 5, KIP-890): each end raises the epoch, and its marker carries the new one, so
//!   whatever the old transaction still has on the wire is refused by the partitions. A repeated EndTxn
//!   carries the epoch before.
//!
//! The invariant that fences zombies: of one producer id, the epoch never goes back, and what was handed
//! out once is never handed to somebody else.

use std::collections::BTreeSet;

use kafka_protocol::ResponseError;
use serde::{Deserialize, Serialize};

/// No producer id, or no epoch, as the protocol writes it.
pub(crate) const NONE: i64 = -1;

/// Where a transactional id stands; names and meaning are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TxnState {
    /// Nothing was done since `InitProducerId`.
    Empty,
    /// Partitions or groups were added, and nobody ended it yet.
    Ongoing,
    /// It will commit, whatever happens: the markers are being written.
    PrepareCommit,
    /// It will abort, whatever happens.
    PrepareAbort,
    /// Every partition has its commit marker.
    CompleteCommit,
    /// Every partition has its abort marker.
    CompleteAbort,
}

impl TxnState {
    /// All states a client may ask for.
    pub(crate) const ALL: [TxnState; 6] = [
        TxnState::Empty,
        TxnState::Ongoing,
        TxnState::PrepareCommit,
        TxnState::PrepareAbort,
        TxnState::CompleteCommit,
        TxnState::CompleteAbort,
    ];

    /// The name as DescribeTransactions and ListTransactions write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TxnState::Empty => "Empty",
            TxnState::Ongoing => "Ongoing",
            TxnState::PrepareCommit => "PrepareCommit",
            TxnState::PrepareAbort => "PrepareAbort",
            TxnState::CompleteCommit => "CompleteCommit",
            TxnState::CompleteAbort => "CompleteAbort",
        }
    }

    /// Whether the outcome is decided and the markers are not all written.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, TxnState::PrepareCommit | TxnState::PrepareAbort)
    }
}

/// A producer id and the epoch of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// A topic's name and the index of one of its partitions.
pub(crate) type Partition = (String, i32);

/// Everything known of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Txn {
    pub(crate) state: TxnState,
    pub(crate) producer_id: i64,
    /// -1 until the first `InitProducerId` was answered.
    pub(crate) epoch: i16,
    /// Epoch before the last bump, if its holder may learn the new one by asking again; else -1.
    pub(crate) last_epoch: i16,
    /// Id before the last change of the id, else -1.
    pub(crate) previous_producer_id: i64,
    /// Id that takes over once the markers are written, if the epochs ran out, else -1.
    pub(crate) next_producer_id: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) partitions: BTreeSet<Partition>,
    /// Groups whose offsets may be part of the transaction.
    pub(crate) groups: BTreeSet<String>,
    /// When the transaction began, or -1.
    pub(crate) start_ms: i64,
    pub(crate) update_ms: i64,
}

/// What `InitProducerId` leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum Init {
    /// The producer gets the identity of this state.
    Ready(Txn),
    /// A transaction is open: this state aborts it, and the producer has to ask again.
    Abort(Txn),
    /// The epochs of the producer id are used up: call [`Txn::rotated`] with a new one.
    NeedsProducerId,
}

/// What an end of a transaction leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// It was ended this way before: nothing to do, this is the answer.
    Repeated(Identity),
    /// The outcome is decided: write markers and offsets, then call [`Txn::completed`].
    Prepared(Txn),
    /// The epochs of the producer id are used up: call again with a new one.
    NeedsProducerId,
}

/// An EndTxn as the coordinator sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRequest {
    pub(crate) producer: Identity,
    pub(crate) commit: bool,
    /// Whether the client speaks version 2 of the transaction protocol.
    pub(crate) bumps_epoch: bool,
}

/// The highest epoch is kept back, so that the holder of any other one can be fenced.
pub(crate) fn is_exhausted(epoch: i16) -> bool {
    epoch >= i16::MAX - 1
}

impl Txn {
    /// A transactional id that nobody has initialized yet.
    pub(crate) fn new(producer_id: i64, timeout_ms: i32, now_ms: i64) -> Txn {
        Txn {
            state: TxnState::Empty,
            producer_id,
            epoch: -1,
            last_epoch: -1,
            previous_producer_id: NONE,
            next_producer_id: NONE,
            timeout_ms,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
            start_ms: -1,
            update_ms: now_ms,
        }
    }

    /// The identity that the producer works with now.
    pub(crate) fn identity(&self) -> Identity {
        Identity { id: self.producer_id, epoch: self.epoch }
    }

    /// The identity that an ended transaction leaves to its producer.
    pub(crate) fn identity_after_end(&self) -> Identity {
        match self.next_producer_id {
            NONE => self.identity(),
            id => Identity { id, epoch: 0 },
        }
    }

    /// `InitProducerId`. A producer that goes on after an error (KIP-360) says which identity it `expected`
    /// to have; without that it is a new one, and fences whoever was there.
    ///
    /// # Errors
    /// `CONCURRENT_TRANSACTIONS` while markers are written; `PRODUCER_FENCED` if somebody newer is there.
    pub(crate) fn init(&self, expected: Option<Identity>, timeout_ms: i32, now_ms: i64) -> Result<Init, ResponseError> {
        let known = expected.is_none_or(|e| {
            self.epoch == -1 || e.id == self.producer_id || (e.id == self.previous_producer_id && is_exhausted(e.epoch))
        });
        if !known {
            return Err(ResponseError::ProducerFenced);
        }
        match self.state {
            TxnState::PrepareCommit | TxnState::PrepareAbort => Err(ResponseError::ConcurrentTransactions),
            TxnState::Ongoing => Ok(Init::Abort(self.fenced(now_ms))),
            TxnState::Empty | TxnState::CompleteCommit | TxnState::CompleteAbort => {
                if is_exhausted(self.epoch) && expected.is_none_or(|e| e.epoch == self.epoch) {
                    return Ok(Init::NeedsProducerId);
                }
                let (epoch, last_epoch) = self.next_epoch(expected.map(|e| e.epoch))?;
                Ok(Init::Ready(Txn { epoch, last_epoch, ..self.emptied(timeout_ms, now_ms) }))
            }
        }
    }

    /// The epoch after an initialization, and the one before it if asking again may give the same answer.
    fn next_epoch(&self, expected: Option<i16>) -> Result<(i16, i16), ResponseError> {
        match expected {
            None => Ok((self.epoch + 1, -1)),
            Some(epoch) if self.epoch == -1 || epoch == self.epoch => Ok((self.epoch + 1, self.epoch)),
            Some(epoch) if epoch >= 0 && epoch == self.last_epoch => Ok((self.epoch, self.last_epoch)),
            Some(_) => Err(ResponseError::ProducerFenced),
        }
    }

    /// The state of a producer whose epochs were used up, with the first epoch of a new producer id.
    pub(crate) fn rotated(&self, new_id: i64, expected: Option<Identity>, timeout_ms: i32, now_ms: i64) -> Txn {
        Txn {
            producer_id: new_id,
            previous_producer_id: self.producer_id,
            epoch: 0,
            last_epoch: if expected.is_some() { self.epoch } else { -1 },
            ..self.emptied(timeout_ms, now_ms)
        }
    }

    fn emptied(&self, timeout_ms: i32, now_ms: i64) -> Txn {
        Txn {
            state: TxnState::Empty,
            timeout_ms,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
            start_ms: -1,
            update_ms: now_ms,
            ..self.clone()
        }
    }

    /// Whether `producer` may add to the transaction now.
    ///
    /// # Errors
    /// `INVALID_PRODUCER_ID_MAPPING` for another producer id, `PRODUCER_FENCED` for another epoch,
    /// `CONCURRENT_TRANSACTIONS` while the transaction before is being ended.
    pub(crate) fn check(&self, producer: Identity) -> Result<(), ResponseError> {
        if producer.id != self.producer_id {
            Err(ResponseError::InvalidProducerIdMapping)
        } else if producer.epoch != self.epoch {
            Err(ResponseError::ProducerFenced)
        } else if self.state.is_prepared() {
            Err(ResponseError::ConcurrentTransactions)
        } else {
            Ok(())
        }
    }

    /// Whether adding these would change anything.
    pub(crate) fn has_all(&self, partitions: &[Partition], group: Option<&str>) -> bool {
        self.state == TxnState::Ongoing
            && partitions.iter().all(|partition| self.partitions.contains(partition))
            && group.is_none_or(|group| self.groups.contains(group))
    }

    /// Adds partitions and a group; the first ones begin the transaction. Call [`check`](Txn::check) first.
    pub(crate) fn add(&mut self, partitions: &[Partition], group: Option<&str>, now_ms: i64) {
        if self.state != TxnState::Ongoing {
            self.state = TxnState::Ongoing;
            self.start_ms = now_ms;
        }
        self.partitions.extend(partitions.iter().cloned());
        self.groups.extend(group.map(str::to_owned));
        self.update_ms = now_ms;
    }

    /// A client's EndTxn. `next_id` is a new producer id, if one was asked for before.
    ///
    /// # Errors
    /// As Kafka's table of states says: `INVALID_PRODUCER_ID_MAPPING`, `PRODUCER_FENCED`,
    /// `CONCURRENT_TRANSACTIONS`, `INVALID_TXN_STATE`.
    pub(crate) fn end(&self, request: EndRequest, next_id: Option<i64>, now_ms: i64) -> Result<End, ResponseError> {
        if request.bumps_epoch { self.end_v2(request, next_id, now_ms) } else { self.end_v1(request, now_ms) }
    }

    fn end_v1(&self, request: EndRequest, now_ms: i64) -> Result<End, ResponseError> {
        if request.producer.id != self.producer_id {
            return Err(ResponseError::InvalidProducerIdMapping);
        }
        if request.producer.epoch != self.epoch {
            return Err(ResponseError::ProducerFenced);
        }
        match (self.state, request.commit) {
            (TxnState::Ongoing, commit) => Ok(End::Prepared(Txn { update_ms: now_ms, ..self.prepared(commit) })),
            (TxnState::CompleteCommit, true) | (TxnState::CompleteAbort, false) => Ok(End::Repeated(self.identity())),
            (TxnState::PrepareCommit, true) | (TxnState::PrepareAbort, false) => {
                Err(ResponseError::ConcurrentTransactions)
            }
            _ => Err(ResponseError::InvalidTxnState),
        }
    }

    fn end_v2(&self, request: EndRequest, next_id: Option<i64>, now_ms: i64) -> Result<End, ResponseError> {
        let producer = request.producer;
        let retry_after_overflow =
            producer.id == self.previous_producer_id && producer.epoch == i16::MAX - 1 && self.epoch == 0;
        if producer.id != self.producer_id && !retry_after_overflow {
            return Err(ResponseError::InvalidProducerIdMapping);
        }
        // A holder from before an initialization is no retrying one, even if it was one epoch ago.
        let is_retry = producer.epoch == self.last_epoch
            && (retry_after_overflow || producer.epoch.checked_add(1) == Some(self.epoch));
        let is_current = producer.id == self.producer_id && producer.epoch == self.epoch;
        let valid = match self.state {
            TxnState::Empty | TxnState::Ongoing => is_current,
            TxnState::PrepareCommit | TxnState::PrepareAbort => is_retry,
            TxnState::CompleteCommit | TxnState::CompleteAbort => is_retry || is_current,
        };
        if !valid {
            return Err(ResponseError::ProducerFenced);
        }
        match (self.state, request.commit, is_retry) {
            (TxnState::PrepareCommit, true, _) | (TxnState::PrepareAbort, false, _) => {
                Err(ResponseError::ConcurrentTransactions)
            }
            (TxnState::CompleteCommit, true, true) | (TxnState::CompleteAbort, false, true) => {
                Ok(End::Repeated(self.identity()))
            }
            // An abort with nothing to abort only raises the epoch: the producer may not know whether
            // a record of it reached the broker.
            (TxnState::Ongoing, _, _)
            | (TxnState::Empty | TxnState::CompleteCommit | TxnState::CompleteAbort, false, false) => {
                self.bumped(request.commit, next_id, now_ms)
            }
            _ => Err(ResponseError::InvalidTxnState),
        }
    }

    fn bumped(&self, commit: bool, next_id: Option<i64>, now_ms: i64) -> Result<End, ResponseError> {
        if is_exhausted(self.epoch) && next_id.is_none() {
            return Ok(End::NeedsProducerId);
        }
        let begun = if self.state == TxnState::Ongoing { self.start_ms } else { now_ms };
        Ok(End::Prepared(Txn {
            epoch: self.epoch + 1,
            last_epoch: self.epoch,
            next_producer_id: if is_exhausted(self.epoch) { next_id.unwrap_or(NONE) } else { NONE },
            start_ms: begun,
            update_ms: now_ms,
            ..self.prepared(commit)
        }))
    }

    fn prepared(&self, commit: bool) -> Txn {
        let state = if commit { TxnState::PrepareCommit } else { TxnState::PrepareAbort };
        Txn { state, ..self.clone() }
    }

    /// Aborts an open transaction from the coordinator's side (timeout, newer producer): the epoch rises,
    /// so its holder is fenced. As in Kafka 4 the holder may learn the new epoch by `InitProducerId` or by
    /// an abort of its own, as long as no newer producer has come.
    pub(crate) fn fenced(&self, now_ms: i64) -> Txn {
        Txn { epoch: self.epoch.saturating_add(1), last_epoch: self.epoch, update_ms: now_ms, ..self.prepared(false) }
    }

    /// The state once every marker and every group's offsets are written.
    pub(crate) fn completed(&self, now_ms: i64) -> Txn {
        let state =
            if self.state == TxnState::PrepareCommit { TxnState::CompleteCommit } else { TxnState::CompleteAbort };
        let identity = self.identity_after_end();
        let previous = if identity.id == self.producer_id { self.previous_producer_id } else { self.producer_id };
        Txn {
            state,
            producer_id: identity.id,
            epoch: identity.epoch,
            previous_producer_id: previous,
            next_producer_id: NONE,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
            update_ms: now_ms,
            ..self.clone()
        }
    }

    /// Whether it is open for longer than its producer allowed.
    pub(crate) fn is_timed_out(&self, now_ms: i64) -> bool {
        self.state == TxnState::Ongoing && self.start_ms.saturating_add(i64::from(self.timeout_ms)) < now_ms
    }

    /// Whether nobody used the id for so long that it is forgotten.
    pub(crate) fn is_expired(&self, now_ms: i64, expiration_ms: i64) -> bool {
        !matches!(self.state, TxnState::Ongoing | TxnState::PrepareCommit | TxnState::PrepareAbort)
            && self.update_ms.saturating_add(expiration_ms) <= now_ms
    }
}
