//! What administrators ask: DescribeTransactions, ListTransactions, DescribeProducers.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState as DescribedTransaction};
use kafka_protocol::messages::list_transactions_response::TransactionState as ListedTransaction;
use kafka_protocol::messages::{
    DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest, DescribeTransactionsResponse,
    ListTransactionsRequest, ListTransactionsResponse, ProducerId, TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use regex::Regex;

use crate::state::{Client, State};
use crate::transactions::{TxnState, TxnView};

pub(crate) async fn describe(
    state: &State,
    request: DescribeTransactionsRequest,
    _version: i16,
    _client: &Client,
) -> DescribeTransactionsResponse {
    let described = request.transactional_ids.into_iter().map(|id| {
        let error = match state.transactions.describe(&id) {
            Some(view) => return described(id, view),
            None if id.is_empty() => ResponseError::InvalidRequest,
            None => ResponseError::TransactionalIdNotFound,
        };
        DescribedTransaction::default().with_transactional_id(id).with_error_code(error.code())
    });
    DescribeTransactionsResponse::default().with_transaction_states(described.collect())
}

fn described(id: TransactionalId, view: TxnView) -> DescribedTransaction {
    let mut topics: Vec<TopicData> = Vec::new();
    for (topic, index) in view.partitions {
        match topics.last_mut() {
            Some(last) if last.topic.as_str() == topic => last.partitions.push(index),
            _ => {
                let name = TopicName(StrBytes::from_string(topic));
                topics.push(TopicData::default().with_topic(name).with_partitions(vec![index]));
            }
        }
    }
    DescribedTransaction::default()
        .with_transactional_id(id)
        .with_transaction_state(StrBytes::from_static_str(view.state.name()))
        .with_transaction_timeout_ms(view.timeout_ms)
        .with_transaction_start_time_ms(view.start_ms)
        .with_producer_id(ProducerId(view.producer.id))
        .with_producer_epoch(view.producer.epoch)
        .with_topics(topics)
}

pub(crate) async fn list(
    state: &State,
    request: ListTransactionsRequest,
    version: i16,
    _client: &Client,
) -> ListTransactionsResponse {
    let pattern = match pattern(&request, version) {
        Ok(pattern) => pattern,
        Err(error) => return ListTransactionsResponse::default().with_error_code(error.code()),
    };
    let is_state = |name: &StrBytes| TxnState::ALL.iter().any(|state| state.name() == name.as_str());
    let unknown = request.state_filters.iter().filter(|name| !is_state(name)).cloned().collect();
    let now_ms = state.now_ms();
    let wanted = |view: &TxnView| {
        let of_state = request.state_filters.is_empty()
            || request.state_filters.iter().any(|name| name.as_str() == view.state.name());
        let of_producer = request.producer_id_filters.is_empty()
            || request.producer_id_filters.contains(&ProducerId(view.producer.id));
        let open = matches!(view.state, TxnState::Ongoing | TxnState::PrepareCommit | TxnState::PrepareAbort);
        let of_duration =
            request.duration_filter < 0 || (open && now_ms.saturating_sub(view.start_ms) > request.duration_filter);
        of_state && of_producer && of_duration && pattern.as_ref().is_none_or(|pattern| pattern.is_match(&view.id))
    };
    let listed = state.transactions.list().into_iter().filter(wanted).map(|view| {
        ListedTransaction::default()
            .with_transactional_id(TransactionalId(StrBytes::from_string(view.id)))
            .with_producer_id(ProducerId(view.producer.id))
            .with_transaction_state(StrBytes::from_static_str(view.state.name()))
    });
    ListTransactionsResponse::default().with_unknown_state_filters(unknown).with_transaction_states(listed.collect())
}

/// The pattern that whole ids must match, if there is one (version 2, KIP-1152).
fn pattern(request: &ListTransactionsRequest, version: i16) -> Result<Option<Regex>, ResponseError> {
    let pattern = request.transactional_id_pattern.as_deref().filter(|pattern| version >= 2 && !pattern.is_empty());
    let whole = pattern.map(|pattern| Regex::new(&format!("^(?:{pattern})$"))).transpose();
    whole.map_err(|_| ResponseError::InvalidRegularExpression)
}

pub(crate) async fn describe_producers(
    state: &State,
    request: DescribeProducersRequest,
    _version: i16,
    _client: &Client,
) -> DescribeProducersResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let known = state.topics.get(&topic.name);
        let partitions = topic.partition_indexes.iter().map(|&index| {
            let answer = PartitionResponse::default().with_partition_index(index).with_error_message(None);
            let log = known.as_ref().and_then(|known| known.partitions.get(usize::try_from(index).ok()?));
            let Some(log) = log else {
                return answer.with_error_code(ResponseError::UnknownTopicOrPartition.code());
            };
            let producers = log.producers().into_iter().map(|view| {
                ProducerState::default()
                    .with_producer_id(ProducerId(view.producer_id))
                    .with_producer_epoch(i32::from(view.producer_epoch))
                    .with_last_sequence(view.last_sequence)
                    .with_last_timestamp(view.last_timestamp)
                    .with_coordinator_epoch(view.coordinator_epoch)
                    .with_current_txn_start_offset(view.current_txn_start_offset.unwrap_or(-1))
            });
            answer.with_active_producers(producers.collect())
        });
        let partitions = partitions.collect();
        TopicResponse::default().with_name(topic.name).with_partitions(partitions)
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}
