//! The shapes of the requests that are served: Kafka's message definitions, reduced to what takes room on
//! the wire. A test holds each against the codec in each version.

use kafka_protocol::messages::ApiKey;

use super::shape::Fields;
use super::shape::Kind::{Array, Bytes, Fixed, OptionStruct, String, Struct};
use super::shape::{LAST, always, tagged, within};

/// The shape of a request's body; none if that request is not served.
pub(super) fn of(key: ApiKey) -> Option<Fields> {
    Some(match key {
        ApiKey::Produce => PRODUCE,
        ApiKey::Fetch => FETCH,
        ApiKey::ListOffsets => LIST_OFFSETS,
        ApiKey::Metadata => METADATA,
        ApiKey::OffsetCommit => OFFSET_COMMIT,
        ApiKey::OffsetFetch => OFFSET_FETCH,
        ApiKey::FindCoordinator => FIND_COORDINATOR,
        ApiKey::JoinGroup => JOIN_GROUP,
        ApiKey::Heartbeat => HEARTBEAT,
        ApiKey::LeaveGroup => LEAVE_GROUP,
        ApiKey::SyncGroup => SYNC_GROUP,
        ApiKey::DescribeGroups => DESCRIBE_GROUPS,
        ApiKey::ListGroups => LIST_GROUPS,
        ApiKey::ApiVersions => API_VERSIONS,
        ApiKey::CreateTopics => CREATE_TOPICS,
        ApiKey::DeleteTopics => DELETE_TOPICS,
        ApiKey::DeleteRecords => DELETE_RECORDS,
        ApiKey::InitProducerId => INIT_PRODUCER_ID,
        ApiKey::OffsetForLeaderEpoch => OFFSET_FOR_LEADER_EPOCH,
        ApiKey::AddPartitionsToTxn => ADD_PARTITIONS_TO_TXN,
        ApiKey::AddOffsetsToTxn => ADD_OFFSETS_TO_TXN,
        ApiKey::EndTxn => END_TXN,
        ApiKey::TxnOffsetCommit => TXN_OFFSET_COMMIT,
        ApiKey::DescribeConfigs => DESCRIBE_CONFIGS,
        ApiKey::AlterConfigs => ALTER_CONFIGS,
        ApiKey::DescribeLogDirs => DESCRIBE_LOG_DIRS,
        ApiKey::CreatePartitions => CREATE_PARTITIONS,
        ApiKey::DeleteGroups => DELETE_GROUPS,
        ApiKey::IncrementalAlterConfigs => INCREMENTAL_ALTER_CONFIGS,
        ApiKey::OffsetDelete => OFFSET_DELETE,
        ApiKey::DescribeCluster => DESCRIBE_CLUSTER,
        ApiKey::DescribeProducers => DESCRIBE_PRODUCERS,
        ApiKey::DescribeTransactions => DESCRIBE_TRANSACTIONS,
        ApiKey::ListTransactions => LIST_TRANSACTIONS,
        ApiKey::DescribeTopicPartitions => DESCRIBE_TOPIC_PARTITIONS,
        _ => return None,
    })
}

const PRODUCE: Fields = &[
    always("transactional_id", String),
    always("acks", Fixed(2)),
    always("timeout_ms", Fixed(4)),
    always(
        "topic_data",
        Array(&Struct(&[
            within("name", 3, 12, String),
            within("topic_id", 13, LAST, Fixed(16)),
            always("partition_data", Array(&Struct(&[always("index", Fixed(4)), always("records", Bytes)]))),
        ])),
    ),
];

const FETCH: Fields = &[
    within("replica_id", 4, 14, Fixed(4)),
    always("max_wait_ms", Fixed(4)),
    always("min_bytes", Fixed(4)),
    always("max_bytes", Fixed(4)),
    always("isolation_level", Fixed(1)),
    within("session_id", 7, LAST, Fixed(4)),
    within("session_epoch", 7, LAST, Fixed(4)),
    always(
        "topics",
        Array(&Struct(&[
            within("topic", 4, 12, String),
            within("topic_id", 13, LAST, Fixed(16)),
            always(
                "partitions",
                Array(&Struct(&[
                    always("partition", Fixed(4)),
                    within("current_leader_epoch", 9, LAST, Fixed(4)),
                    always("fetch_offset", Fixed(8)),
                    within("last_fetched_epoch", 12, LAST, Fixed(4)),
                    within("log_start_offset", 5, LAST, Fixed(8)),
                    always("partition_max_bytes", Fixed(4)),
                    tagged("replica_directory_id", 0, 17, Fixed(16)),
                ])),
            ),
        ])),
    ),
    within(
        "forgotten_topics_data",
        7,
        LAST,
        Array(&Struct(&[
            within("topic", 7, 12, String),
            within("topic_id", 13, LAST, Fixed(16)),
            within("partitions", 7, LAST, Array(&Fixed(4))),
        ])),
    ),
    within("rack_id", 11, LAST, String),
    tagged("cluster_id", 0, 12, String),
    tagged(
        "replica_state",
        1,
        15,
        Struct(&[within("replica_id", 15, LAST, Fixed(4)), within("replica_epoch", 15, LAST, Fixed(8))]),
    ),
];

const LIST_OFFSETS: Fields = &[
    always("replica_id", Fixed(4)),
    within("isolation_level", 2, LAST, Fixed(1)),
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always(
                "partitions",
                Array(&Struct(&[
                    always("partition_index", Fixed(4)),
                    within("current_leader_epoch", 4, LAST, Fixed(4)),
                    always("timestamp", Fixed(8)),
                ])),
            ),
        ])),
    ),
    within("timeout_ms", 10, LAST, Fixed(4)),
];

const METADATA: Fields = &[
    always("topics", Array(&Struct(&[within("topic_id", 10, LAST, Fixed(16)), always("name", String)]))),
    within("allow_auto_topic_creation", 4, LAST, Fixed(1)),
    within("include_cluster_authorized_operations", 8, 10, Fixed(1)),
    within("include_topic_authorized_operations", 8, LAST, Fixed(1)),
];

const OFFSET_COMMIT: Fields = &[
    always("group_id", String),
    always("generation_id_or_member_epoch", Fixed(4)),
    always("member_id", String),
    within("group_instance_id", 7, LAST, String),
    within("retention_time_ms", 2, 4, Fixed(8)),
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always(
                "partitions",
                Array(&Struct(&[
                    always("partition_index", Fixed(4)),
                    always("committed_offset", Fixed(8)),
                    within("committed_leader_epoch", 6, LAST, Fixed(4)),
                    always("committed_metadata", String),
                ])),
            ),
        ])),
    ),
];

const OFFSET_FETCH: Fields = &[
    within("group_id", 1, 7, String),
    within(
        "topics",
        1,
        7,
        Array(&Struct(&[within("name", 1, 7, String), within("partition_indexes", 1, 7, Array(&Fixed(4)))])),
    ),
    within(
        "groups",
        8,
        LAST,
        Array(&Struct(&[
            within("group_id", 8, LAST, String),
            within("member_id", 9, LAST, String),
            within("member_epoch", 9, LAST, Fixed(4)),
            within(
                "topics",
                8,
                LAST,
                Array(&Struct(&[
                    within("name", 8, LAST, String),
                    within("partition_indexes", 8, LAST, Array(&Fixed(4))),
                ])),
            ),
        ])),
    ),
    within("require_stable", 7, LAST, Fixed(1)),
];

const FIND_COORDINATOR: Fields = &[
    within("key", 0, 3, String),
    within("key_type", 1, LAST, Fixed(1)),
    within("coordinator_keys", 4, LAST, Array(&String)),
];

const JOIN_GROUP: Fields = &[
    always("group_id", String),
    always("session_timeout_ms", Fixed(4)),
    within("rebalance_timeout_ms", 1, LAST, Fixed(4)),
    always("member_id", String),
    within("group_instance_id", 5, LAST, String),
    always("protocol_type", String),
    always("protocols", Array(&Struct(&[always("name", String), always("metadata", Bytes)]))),
    within("reason", 8, LAST, String),
];

const HEARTBEAT: Fields = &[
    always("group_id", String),
    always("generation_id", Fixed(4)),
    always("member_id", String),
    within("group_instance_id", 3, LAST, String),
];

const LEAVE_GROUP: Fields = &[
    always("group_id", String),
    within("member_id", 0, 2, String),
    within(
        "members",
        3,
        LAST,
        Array(&Struct(&[
            within("member_id", 3, LAST, String),
            within("group_instance_id", 3, LAST, String),
            within("reason", 5, LAST, String),
        ])),
    ),
];

const SYNC_GROUP: Fields = &[
    always("group_id", String),
    always("generation_id", Fixed(4)),
    always("member_id", String),
    within("group_instance_id", 3, LAST, String),
    within("protocol_type", 5, LAST, String),
    within("protocol_name", 5, LAST, String),
    always("assignments", Array(&Struct(&[always("member_id", String), always("assignment", Bytes)]))),
];

const DESCRIBE_GROUPS: Fields =
    &[always("groups", Array(&String)), within("include_authorized_operations", 3, LAST, Fixed(1))];

const LIST_GROUPS: Fields =
    &[within("states_filter", 4, LAST, Array(&String)), within("types_filter", 5, LAST, Array(&String))];

const API_VERSIONS: Fields =
    &[within("client_software_name", 3, LAST, String), within("client_software_version", 3, LAST, String)];

const CREATE_TOPICS: Fields = &[
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always("num_partitions", Fixed(4)),
            always("replication_factor", Fixed(2)),
            always(
                "assignments",
                Array(&Struct(&[always("partition_index", Fixed(4)), always("broker_ids", Array(&Fixed(4)))])),
            ),
            always("configs", Array(&Struct(&[always("name", String), always("value", String)]))),
        ])),
    ),
    always("timeout_ms", Fixed(4)),
    always("validate_only", Fixed(1)),
];

const DELETE_TOPICS: Fields = &[
    within(
        "topics",
        6,
        LAST,
        Array(&Struct(&[within("name", 6, LAST, String), within("topic_id", 6, LAST, Fixed(16))])),
    ),
    within("topic_names", 1, 5, Array(&String)),
    always("timeout_ms", Fixed(4)),
];

const DELETE_RECORDS: Fields = &[
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always("partitions", Array(&Struct(&[always("partition_index", Fixed(4)), always("offset", Fixed(8))]))),
        ])),
    ),
    always("timeout_ms", Fixed(4)),
];

const INIT_PRODUCER_ID: Fields = &[
    always("transactional_id", String),
    always("transaction_timeout_ms", Fixed(4)),
    within("producer_id", 3, LAST, Fixed(8)),
    within("producer_epoch", 3, LAST, Fixed(2)),
];

const OFFSET_FOR_LEADER_EPOCH: Fields = &[
    within("replica_id", 3, LAST, Fixed(4)),
    always(
        "topics",
        Array(&Struct(&[
            always("topic", String),
            always(
                "partitions",
                Array(&Struct(&[
                    always("partition", Fixed(4)),
                    always("current_leader_epoch", Fixed(4)),
                    always("leader_epoch", Fixed(4)),
                ])),
            ),
        ])),
    ),
];

const ADD_PARTITIONS_TO_TXN: Fields = &[
    within(
        "transactions",
        4,
        LAST,
        Array(&Struct(&[
            within("transactional_id", 4, LAST, String),
            within("producer_id", 4, LAST, Fixed(8)),
            within("producer_epoch", 4, LAST, Fixed(2)),
            within("verify_only", 4, LAST, Fixed(1)),
            within(
                "topics",
                4,
                LAST,
                Array(&Struct(&[always("name", String), always("partitions", Array(&Fixed(4)))])),
            ),
        ])),
    ),
    within("v3_and_below_transactional_id", 0, 3, String),
    within("v3_and_below_producer_id", 0, 3, Fixed(8)),
    within("v3_and_below_producer_epoch", 0, 3, Fixed(2)),
    within(
        "v3_and_below_topics",
        0,
        3,
        Array(&Struct(&[always("name", String), always("partitions", Array(&Fixed(4)))])),
    ),
];

const ADD_OFFSETS_TO_TXN: Fields = &[
    always("transactional_id", String),
    always("producer_id", Fixed(8)),
    always("producer_epoch", Fixed(2)),
    always("group_id", String),
];

const END_TXN: Fields = &[
    always("transactional_id", String),
    always("producer_id", Fixed(8)),
    always("producer_epoch", Fixed(2)),
    always("committed", Fixed(1)),
];

const TXN_OFFSET_COMMIT: Fields = &[
    always("transactional_id", String),
    always("group_id", String),
    always("producer_id", Fixed(8)),
    always("producer_epoch", Fixed(2)),
    within("generation_id", 3, LAST, Fixed(4)),
    within("member_id", 3, LAST, String),
    within("group_instance_id", 3, LAST, String),
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always(
                "partitions",
                Array(&Struct(&[
                    always("partition_index", Fixed(4)),
                    always("committed_offset", Fixed(8)),
                    within("committed_leader_epoch", 2, LAST, Fixed(4)),
                    always("committed_metadata", String),
                ])),
            ),
        ])),
    ),
];

const DESCRIBE_CONFIGS: Fields = &[
    always(
        "resources",
        Array(&Struct(&[
            always("resource_type", Fixed(1)),
            always("resource_name", String),
            always("configuration_keys", Array(&String)),
        ])),
    ),
    always("include_synonyms", Fixed(1)),
    within("include_documentation", 3, LAST, Fixed(1)),
];

const ALTER_CONFIGS: Fields = &[
    always(
        "resources",
        Array(&Struct(&[
            always("resource_type", Fixed(1)),
            always("resource_name", String),
            always("configs", Array(&Struct(&[always("name", String), always("value", String)]))),
        ])),
    ),
    always("validate_only", Fixed(1)),
];

const DESCRIBE_LOG_DIRS: Fields =
    &[always("topics", Array(&Struct(&[always("topic", String), always("partitions", Array(&Fixed(4)))])))];

const CREATE_PARTITIONS: Fields = &[
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always("count", Fixed(4)),
            always("assignments", Array(&Struct(&[always("broker_ids", Array(&Fixed(4)))]))),
        ])),
    ),
    always("timeout_ms", Fixed(4)),
    always("validate_only", Fixed(1)),
];

const DELETE_GROUPS: Fields = &[always("groups_names", Array(&String))];

const INCREMENTAL_ALTER_CONFIGS: Fields = &[
    always(
        "resources",
        Array(&Struct(&[
            always("resource_type", Fixed(1)),
            always("resource_name", String),
            always(
                "configs",
                Array(&Struct(&[
                    always("name", String),
                    always("config_operation", Fixed(1)),
                    always("value", String),
                ])),
            ),
        ])),
    ),
    always("validate_only", Fixed(1)),
];

const OFFSET_DELETE: Fields = &[
    always("group_id", String),
    always(
        "topics",
        Array(&Struct(&[
            always("name", String),
            always("partitions", Array(&Struct(&[always("partition_index", Fixed(4))]))),
        ])),
    ),
];

const DESCRIBE_CLUSTER: Fields = &[
    always("include_cluster_authorized_operations", Fixed(1)),
    within("endpoint_type", 1, LAST, Fixed(1)),
    within("include_fenced_brokers", 2, LAST, Fixed(1)),
];

const DESCRIBE_PRODUCERS: Fields =
    &[always("topics", Array(&Struct(&[always("name", String), always("partition_indexes", Array(&Fixed(4)))])))];

const DESCRIBE_TRANSACTIONS: Fields = &[always("transactional_ids", Array(&String))];

const LIST_TRANSACTIONS: Fields = &[
    always("state_filters", Array(&String)),
    always("producer_id_filters", Array(&Fixed(8))),
    within("duration_filter", 1, LAST, Fixed(8)),
    within("transactional_id_pattern", 2, LAST, String),
];

const DESCRIBE_TOPIC_PARTITIONS: Fields = &[
    always("topics", Array(&Struct(&[always("name", String)]))),
    always("response_partition_limit", Fixed(4)),
    always("cursor", OptionStruct(&[always("topic_name", String), always("partition_index", Fixed(4))])),
];
