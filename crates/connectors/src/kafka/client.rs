//! One client's view of the brokers: what failed last, and which partitions cannot be asked now.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;

/// A consumer that keeps its [`Health`].
pub(super) type Consumer = BaseConsumer<Health>;

/// Filled by the client's events.
#[derive(Debug, Default)]
pub(super) struct Health {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_error: Option<(RDKafkaErrorCode, String)>,
    /// A connection broke; until the next statistics nothing counts as asked.
    disturbed: bool,
    /// Partitions whose leader is not connected.
    unreachable: HashSet<(String, i32)>,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reason brokers gave, or the network, the last time something failed.
    pub fn last_error(&self) -> Option<String> {
        self.lock().last_error.as_ref().map(|(_, reason)| reason.clone())
    }

    /// The reason if a login was refused or impossible; trying again does not help.
    pub fn login_error(&self) -> Option<String> {
        let state = self.lock();
        let (code, reason) = state.last_error.as_ref()?;
        let hopeless = [
            RDKafkaErrorCode::Authentication,
            RDKafkaErrorCode::SSL,
            RDKafkaErrorCode::SaslAuthenticationFailed,
            RDKafkaErrorCode::UnsupportedSASLMechanism,
        ];
        hopeless.contains(code).then(|| reason.clone())
    }

    /// Whether the partition's leader is connected, so that silence means it has nothing.
    pub fn can_ask(&self, topic: &str, partition: i32) -> bool {
        let state = self.lock();
        let is_down = |(t, p): &(String, i32)| t == topic && *p == partition;
        !state.disturbed && !state.unreachable.iter().any(is_down)
    }
}

impl ClientContext for Health {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {
        // What matters comes as an error event too, and standard error is the user's.
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        let mut state = self.lock();
        state.disturbed |= matches!(
            code,
            RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::Resolve
        );
        // "All brokers are down" says less than the reason that came before it.
        if code != RDKafkaErrorCode::AllBrokersDown || state.last_error.is_none() {
            state.last_error = Some((code, reason.to_owned()));
        }
    }

    fn stats(&self, statistics: Statistics) {
        let brokers = statistics.brokers.values();
        let up: HashMap<i32, bool> = brokers.map(|b| (b.nodeid, b.state == "UP")).collect();
        let mut unreachable = HashSet::new();
        for (name, topic) in &statistics.topics {
            for partition in topic.partitions.values() {
                if !up.get(&partition.leader).copied().unwrap_or(false) {
                    unreachable.insert((name.clone(), partition.partition));
                }
            }
        }
        let mut state = self.lock();
        state.disturbed = false;
        state.unreachable = unreachable;
    }
}

impl ConsumerContext for Health {}

/// Whether trying again may help.
pub(super) fn is_transient(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::Resolve
            | Code::WaitingForCoordinator
            | Code::WaitCache
            | Code::RequestTimedOut
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::ReplicaNotAvailable
            | Code::BrokerNotAvailable
            | Code::NetworkException
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::PreferredLeaderNotAvailable
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::OffsetNotAvailable
            | Code::Retry
    )
}
