//! One function for each request of the protocol: it checks, calls the part that decides, and words the
//! answer. A request that fails as a whole is answered with an error in its own shape; nothing here
//! closes a connection.

pub(crate) mod api_versions;
pub(crate) mod configs;
pub(crate) mod coordinator;
pub(crate) mod fetch;
pub(crate) mod groups;
pub(crate) mod leader_epoch;
pub(crate) mod list_offsets;
pub(crate) mod log_dirs;
pub(crate) mod metadata;
pub(crate) mod offsets;
pub(crate) mod produce;
pub(crate) mod records;
pub(crate) mod topics;
pub(crate) mod transactions;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::BrokerId;
use kafka_protocol::protocol::StrBytes;

use crate::log::PartitionLog;
use crate::state::State;
use crate::topics::Refusal;

/// Epoch of every partition's leader: with one node it never changes.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// The words of a refusal, for an `error_message`.
fn message(refusal: &Refusal) -> Option<StrBytes> {
    Some(StrBytes::from_string(refusal.message.clone()))
}

/// A refusal in words.
fn refuse(error: ResponseError, message: impl Into<String>) -> Refusal {
    Refusal { error, message: message.into() }
}

/// The only node, as a list of replicas.
fn replicas(state: &State) -> Vec<BrokerId> {
    vec![BrokerId(state.node.id)]
}

/// Checks the leader epoch a client believes in; below zero it has none (KIP-320).
fn check_leader_epoch(believed: i32) -> Result<(), ResponseError> {
    if believed > LEADER_EPOCH { Err(ResponseError::UnknownLeaderEpoch) } else { Ok(()) }
}

/// Passes an outcome on; what the disk said behind a storage error goes to the owner of this broker.
fn noted<T>(state: &State, log: &PartitionLog, outcome: Result<T, ResponseError>) -> Result<T, ResponseError> {
    if matches!(outcome, Err(ResponseError::KafkaStorageError))
        && let Some(trouble) = log.take_trouble()
    {
        state.options.report.trouble(&trouble);
    }
    outcome
}

/// The code of an outcome, 0 for success.
fn code<T>(outcome: &Result<T, ResponseError>) -> i16 {
    outcome.as_ref().err().map_or(0, ResponseError::code)
}
