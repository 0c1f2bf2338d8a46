//! DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings of topics, and of this broker.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, alter_configs_request, alter_configs_response,
    incremental_alter_configs_request, incremental_alter_configs_response,
};
use kafka_protocol::protocol::StrBytes;

use super::{message, refuse};
use crate::state::{Client, State};
use crate::topics::{ConfigChange, ConfigEntry, ConfigKind, ConfigOp, Refusal};

/// Kafka's `ConfigResource.Type`.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Kafka's `ConfigSource`: who has set a value.
pub(super) const SOURCE_TOPIC: i8 = 1;
const SOURCE_START: i8 = 4;
pub(super) const SOURCE_DEFAULT: i8 = 5;

/// Kafka's `AlterConfigOp`.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// One setting as it is described.
struct Described {
    name: &'static str,
    value: String,
    source: i8,
    read_only: bool,
    kind: ConfigKind,
    documentation: &'static str,
}

pub(crate) async fn describe(
    state: &State,
    request: DescribeConfigsRequest,
    version: i16,
    _client: &Client,
) -> DescribeConfigsResponse {
    let wording = Wording {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation,
        types: version >= 3,
    };
    let results = request.resources.into_iter().map(|resource| describe_one(state, resource, &wording)).collect();
    DescribeConfigsResponse::default().with_results(results)
}

fn describe_one(state: &State, asked: DescribeConfigsResource, wording: &Wording) -> DescribeConfigsResult {
    let outcome = settings(state, asked.resource_type, &asked.resource_name);
    let result = DescribeConfigsResult::default()
        .with_resource_type(asked.resource_type)
        .with_resource_name(asked.resource_name);
    match outcome {
        Ok(settings) => {
            let wanted = |name: &str| match &asked.configuration_keys {
                Some(keys) => keys.iter().any(|key| key.as_str() == name),
                None => true,
            };
            let settings = settings.into_iter().filter(|setting| wanted(setting.name));
            result.with_configs(settings.map(|setting| wording.word(setting)).collect())
        }
        Err(refusal) => result.with_error_code(refusal.error.code()).with_error_message(message(&refusal)),
    }
}

/// All settings of a resource.
fn settings(state: &State, kind: i8, name: &str) -> Result<Vec<Described>, Refusal> {
    match kind {
        TOPIC => {
            let entries = state.topics.configs(name).ok_or_else(unknown_topic)?;
            Ok(entries.into_iter().map(Described::of_topic).collect())
        }
        // Settings of all brokers together; none was ever changed.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER if name == state.node.id.to_string() => Ok(of_broker(state)),
        BROKER => Err(refuse(
            ResponseError::InvalidRequest,
            format!("there is no broker {name}: the only one is {}", state.node.id),
        )),
        other => Err(no_such_resource(other)),
    }
}

fn unknown_topic() -> Refusal {
    refuse(ResponseError::UnknownTopicOrPartition, "there is no such topic")
}

fn no_such_resource(kind: i8) -> Refusal {
    let words = format!("this broker has settings of topics (2) and of itself (4), none of resource type {kind}");
    refuse(ResponseError::InvalidRequest, words)
}

impl Described {
    fn of_topic(entry: ConfigEntry) -> Described {
        Described {
            name: entry.name,
            value: entry.value,
            source: if entry.is_default { SOURCE_DEFAULT } else { SOURCE_TOPIC },
            read_only: false,
            kind: entry.kind,
            documentation: entry.documentation,
        }
    }
}

/// What this broker was started with. All of it is fixed until its next start.
fn of_broker(state: &State) -> Vec<Described> {
    let options = &state.options;
    let setting = |name, value: String, kind, documentation| Described {
        name,
        value,
        source: SOURCE_START,
        read_only: true,
        kind,
        documentation,
    };
    vec![
        setting("node.id", state.node.id.to_string(), ConfigKind::Int, "Id of this node."),
        setting("broker.id", state.node.id.to_string(), ConfigKind::Int, "Id of this node."),
        setting(
            "num.partitions",
            options.default_partitions.to_string(),
            ConfigKind::Int,
            "Partitions of a topic that is made without a number.",
        ),
        setting(
            "auto.create.topics.enable",
            options.auto_create_topics.to_string(),
            ConfigKind::Boolean,
            "Whether a topic is made when a client asks for one that does not exist.",
        ),
        setting("delete.topic.enable", true.to_string(), ConfigKind::Boolean, "Whether topics can be deleted."),
        setting(
            "default.replication.factor",
            1.to_string(),
            ConfigKind::Int,
            "Replicas of a topic that is made without a number.",
        ),
        setting(
            "transaction.max.timeout.ms",
            options.transaction_timeout_max.as_millis().to_string(),
            ConfigKind::Int,
            "Longest timeout a producer may ask for its transactions.",
        ),
        setting(
            "log.retention.check.interval.ms",
            options.clean_interval.as_millis().to_string(),
            ConfigKind::Long,
            "How often retention and compaction run.",
        ),
    ]
}

/// What a request wants to read of each setting.
struct Wording {
    synonyms: bool,
    documentation: bool,
    types: bool,
}

impl Wording {
    fn word(&self, setting: Described) -> DescribeConfigsResourceResult {
        let name = StrBytes::from_static_str(setting.name);
        let value = Some(StrBytes::from_string(setting.value));
        let result = DescribeConfigsResourceResult::default()
            .with_name(name.clone())
            .with_value(value.clone())
            .with_read_only(setting.read_only)
            .with_config_source(setting.source);
        let result = if self.synonyms {
            let synonym =
                DescribeConfigsSynonym::default().with_name(name).with_value(value).with_source(setting.source);
            result.with_synonyms(vec![synonym])
        } else {
            result
        };
        let result = if self.types { result.with_config_type(type_code(setting.kind)) } else { result };
        if self.types && self.documentation {
            return result.with_documentation(Some(StrBytes::from_static_str(setting.documentation)));
        }
        result
    }
}

/// Kafka's `ConfigType`.
fn type_code(kind: ConfigKind) -> i8 {
    match kind {
        ConfigKind::Boolean => 1,
        ConfigKind::String => 2,
        ConfigKind::Int => 3,
        ConfigKind::Long => 5,
        ConfigKind::Double => 6,
        ConfigKind::List => 7,
    }
}

pub(crate) async fn alter(
    state: &State,
    request: AlterConfigsRequest,
    _version: i16,
    _client: &Client,
) -> AlterConfigsResponse {
    let responses = request
        .resources
        .into_iter()
        .map(|asked| {
            let outcome = replace(state, &asked, request.validate_only);
            let response = alter_configs_response::AlterConfigsResourceResponse::default()
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name);
            match outcome {
                Ok(()) => response,
                Err(refusal) => response.with_error_code(refusal.error.code()).with_error_message(message(&refusal)),
            }
        })
        .collect();
    AlterConfigsResponse::default().with_responses(responses)
}

/// Gives a topic exactly these settings of its own.
fn replace(
    state: &State,
    asked: &alter_configs_request::AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    check_changeable(asked.resource_type)?;
    let mut configs = BTreeMap::new();
    for config in &asked.configs {
        let value = config.value.as_ref().ok_or_else(|| without_value(&config.name))?;
        if configs.insert(config.name.to_string(), value.to_string()).is_some() {
            return Err(twice(&config.name));
        }
    }
    state.topics.replace_configs(&asked.resource_name, &configs, validate_only)
}

pub(crate) async fn alter_incrementally(
    state: &State,
    request: IncrementalAlterConfigsRequest,
    _version: i16,
    _client: &Client,
) -> IncrementalAlterConfigsResponse {
    let responses = request
        .resources
        .into_iter()
        .map(|asked| {
            let outcome = change(state, &asked, request.validate_only);
            let response = incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name);
            match outcome {
                Ok(()) => response,
                Err(refusal) => response.with_error_code(refusal.error.code()).with_error_message(message(&refusal)),
            }
        })
        .collect();
    IncrementalAlterConfigsResponse::default().with_responses(responses)
}

/// Changes some settings of a topic and leaves the others.
fn change(
    state: &State,
    asked: &incremental_alter_configs_request::AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    check_changeable(asked.resource_type)?;
    let mut changes: Vec<ConfigChange> = Vec::with_capacity(asked.configs.len());
    let mut names = std::collections::HashSet::new();
    for config in &asked.configs {
        if !names.insert(&config.name) {
            return Err(twice(&config.name));
        }
        let value = || config.value.as_ref().map(|v| v.to_string()).ok_or_else(|| without_value(&config.name));
        let op = match config.config_operation {
            SET => ConfigOp::Set(value()?),
            DELETE => ConfigOp::Delete,
            APPEND => ConfigOp::Append(value()?),
            SUBTRACT => ConfigOp::Subtract(value()?),
            other => {
                let words = format!("there is no operation {other} on a setting, only 0 to 3");
                return Err(refuse(ResponseError::InvalidRequest, words));
            }
        };
        changes.push(ConfigChange { name: config.name.to_string(), op });
    }
    state.topics.set_configs(&asked.resource_name, changes, validate_only)
}

fn check_changeable(kind: i8) -> Result<(), Refusal> {
    match kind {
        TOPIC => Ok(()),
        BROKER => Err(refuse(
            ResponseError::InvalidRequest,
            "the settings of this broker are given at its start and cannot be changed while it runs",
        )),
        other => Err(no_such_resource(other)),
    }
}

fn without_value(name: &str) -> Refusal {
    refuse(ResponseError::InvalidConfig, format!("the setting {name} has no value"))
}

fn twice(name: &str) -> Refusal {
    refuse(ResponseError::InvalidRequest, format!("the setting {name} is named several times"))
}
