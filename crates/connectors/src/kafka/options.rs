//! What a Kafka table's `WITH` options say, checked without the network. Rules and texts are Flink's.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use tidegate_api::connector::TableDescriptor;
use tidegate_api::{Error, Result, Schema};

use super::properties::Properties;
use crate::option::OptionReader;

/// Which topics.
#[derive(Clone, Debug)]
pub(super) enum Topics {
    /// `topic`: these, all of which must exist.
    List(Vec<String>),
    /// `topic-pattern`: those whose whole name matches.
    Pattern(Regex),
}

/// A place in every partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The first record that is still there.
    Earliest,
    /// Behind the last record that can be read.
    Latest,
    /// What the group has committed.
    Group,
    /// The first record with this time (milliseconds) or a later one; the end if there is none.
    Timestamp(i64),
    /// These offsets; for other partitions what the group has committed, else the first record.
    Offsets(BTreeMap<i32, i64>),
}

/// What to do where an offset is missing (`properties.auto.offset.reset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffsetReset {
    /// Fail.
    None,
    /// Start at the first record.
    Earliest,
    /// Start at the end.
    Latest,
}

/// Key columns and the shape of the key.
#[derive(Clone, Debug)]
pub(super) struct KeyColumns {
    /// Physical columns, in the order of `key.fields`.
    pub columns: Vec<usize>,
    /// Their names without `key.fields-prefix`, and types.
    pub schema: Schema,
}

/// `sink.partitioner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partitioning {
    /// Kafka's: by hash of the key, sticky without one. Flink's `round-robin` is the same.
    Default,
    /// Subtask i writes to one partition, i modulo their number.
    Fixed,
}

/// `sink.delivery-guarantee`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Guarantee {
    /// A flush waits for nothing.
    None,
    /// A flush waits until the brokers have what was written.
    AtLeastOnce,
    /// Rows are staged and written in a transaction when their checkpoint is complete.
    ExactlyOnce {
        /// `sink.transactional-id-prefix`.
        prefix: String,
        /// `sink.exactly-once.force-recovery`: go on though it cannot be told whether staged rows were
        /// written.
        forced: bool,
    },
}

/// A table's options.
#[derive(Clone, Debug)]
pub(super) struct KafkaOptions {
    pub topics: Option<Topics>,
    pub properties: Properties,
    pub startup: Place,
    /// Where reading ends; `None` is never.
    pub end: Option<Place>,
    pub reset: OffsetReset,
    pub discovery: Option<Duration>,
    pub key: Option<KeyColumns>,
    /// Physical columns that are in the value.
    pub value_columns: Vec<usize>,
    pub source_parallelism: Option<usize>,
    pub sink_parallelism: Option<usize>,
    pub partitioning: Partitioning,
    pub guarantee: Guarantee,
    /// `format` or `value.format`, whichever is set.
    pub value_format_key: &'static str,
}

impl KafkaOptions {
    /// Reads all options but the formats' own; the caller reads these and then finishes the reader.
    pub fn read(reader: &mut OptionReader<'_>, table: &TableDescriptor) -> Result<KafkaOptions> {
        reader.require(&["properties.bootstrap.servers"])?;
        let properties = Properties::translate(&reader.prefixed("properties."))?;
        let reset = offset_reset(properties.offset_reset.as_deref())?;
        let value_format_key = value_format_key(reader)?;
        let topics = topics(reader)?;
        let startup = startup(reader, topics.as_ref())?;
        let end = end(reader, topics.as_ref())?;
        let key = key_columns(reader, table)?;
        let value_columns = value_columns(reader, table, key.as_ref())?;
        let discovery = reader.duration_ms("scan.topic-partition-discovery.interval")?.unwrap_or(300_000);
        let discovery = u64::try_from(discovery).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        let partitioning = partitioning(reader, key.is_some())?;
        let guarantee = guarantee(reader)?;
        Ok(KafkaOptions {
            topics,
            properties,
            startup,
            discovery: if end.is_some() { None } else { discovery },
            end,
            reset,
            key,
            value_columns,
            source_parallelism: reader.positive("scan.parallelism")?,
            sink_parallelism: reader.positive("sink.parallelism")?,
            partitioning,
            guarantee,
            value_format_key,
        })
    }
}

fn value_format_key(reader: &mut OptionReader<'_>) -> Result<&'static str> {
    match (reader.text("format").is_some(), reader.text("value.format").is_some()) {
        (true, false) => Ok("format"),
        (false, true) => Ok("value.format"),
        (true, true) => Err(Error::invalid("Only one of the options 'format' and 'value.format' may be set.")),
        (false, false) => {
            Err(Error::invalid("One or more required options are missing.\n\nMissing required options are:\n\nformat"))
        }
    }
}

fn offset_reset(text: Option<&str>) -> Result<OffsetReset> {
    match text {
        None | Some("none") => Ok(OffsetReset::None),
        Some("earliest") => Ok(OffsetReset::Earliest),
        Some("latest") => Ok(OffsetReset::Latest),
        Some(other) => Err(Error::invalid(format!(
            "Invalid value for option 'properties.auto.offset.reset': '{other}'. Expected one of earliest, latest, none."
        ))),
    }
}

fn topics(reader: &mut OptionReader<'_>) -> Result<Option<Topics>> {
    match (reader.text("topic"), reader.text("topic-pattern")) {
        (Some(_), Some(_)) => Err(Error::invalid("Option 'topic' and 'topic-pattern' shouldn't be set together.")),
        (None, None) => Ok(None),
        (Some(list), None) => {
            let names: Vec<String> =
                list.split(';').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
            if names.is_empty() {
                return Err(Error::invalid("Option 'topic' names no topic."));
            }
            Ok(Some(Topics::List(names)))
        }
        (None, Some(pattern)) => {
            // Java's matches(): the whole name.
            let regex = Regex::new(&format!("^(?:{pattern})$")).map_err(|e| {
                Error::invalid(format!("Option 'topic-pattern' = '{pattern}' is no usable regular expression: {e}"))
            })?;
            Ok(Some(Topics::Pattern(regex)))
        }
    }
}

fn startup(reader: &mut OptionReader<'_>, topics: Option<&Topics>) -> Result<Place> {
    let modes = ["group-offsets", "earliest-offset", "latest-offset", "timestamp", "specific-offsets"];
    let mode = reader.choice("scan.startup.mode", &modes)?;
    let offsets = reader.text("scan.startup.specific-offsets");
    let millis = reader.integer::<i64>("scan.startup.timestamp-millis")?;
    place("scan.startup", mode, offsets, millis, topics, "startup")
}

fn end(reader: &mut OptionReader<'_>, topics: Option<&Topics>) -> Result<Option<Place>> {
    let modes = ["unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"];
    let mode = reader.choice("scan.bounded.mode", &modes)?;
    let offsets = reader.text("scan.bounded.specific-offsets");
    let millis = reader.integer::<i64>("scan.bounded.timestamp-millis")?;
    match mode {
        "unbounded" => Ok(None),
        mode => place("scan.bounded", mode, offsets, millis, topics, "bounded").map(Some),
    }
}

fn place(
    prefix: &str,
    mode: &str,
    offsets: Option<&str>,
    millis: Option<i64>,
    topics: Option<&Topics>,
    word: &str,
) -> Result<Place> {
    let missing =
        |key: &str| Error::invalid(format!("'{prefix}.{key}' is required in '{mode}' {word} mode but missing."));
    match mode {
        "earliest-offset" => Ok(Place::Earliest),
        "latest-offset" => Ok(Place::Latest),
        "group-offsets" => Ok(Place::Group),
        "timestamp" => {
            let millis = millis.ok_or_else(|| missing("timestamp-millis"))?;
            if millis < 0 {
                return Err(Error::invalid(format!("Option '{prefix}.timestamp-millis' = '{millis}' is negative.")));
            }
            Ok(Place::Timestamp(millis))
        }
        _ => {
            let text = offsets.ok_or_else(|| missing("specific-offsets"))?;
            if !matches!(topics, Some(Topics::List(names)) if names.len() == 1) {
                return Err(Error::invalid("Currently Kafka source only supports specific offset for single topic."));
            }
            specific_offsets(&format!("{prefix}.specific-offsets"), text).map(Place::Offsets)
        }
    }
}

/// Parses `partition:0,offset:42;partition:1,offset:300`.
fn specific_offsets(key: &str, text: &str) -> Result<BTreeMap<i32, i64>> {
    let one = |part: &str| -> Option<(i32, i64)> {
        let (partition, offset) = part.split_once(',')?;
        let partition = partition.trim().strip_prefix("partition:")?.trim().parse().ok().filter(|p| *p >= 0)?;
        let offset = offset.trim().strip_prefix("offset:")?.trim().parse().ok().filter(|o| *o >= 0)?;
        Some((partition, offset))
    };
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let offsets: Option<BTreeMap<i32, i64>> = parts.map(one).collect();
    offsets.filter(|o| !o.is_empty()).ok_or_else(|| {
        Error::invalid(format!(
            "Invalid properties '{key}' should follow the format 'partition:0,offset:42;partition:1,offset:300', but \
             is '{text}'."
        ))
    })
}

fn key_columns(reader: &mut OptionReader<'_>, table: &TableDescriptor) -> Result<Option<KeyColumns>> {
    let fields = reader.text("key.fields");
    let prefix = reader.text("key.fields-prefix").unwrap_or_default();
    let names: Vec<&str> =
        fields.unwrap_or_default().split(';').map(str::trim).filter(|name| !name.is_empty()).collect();
    match (reader.text("key.format").is_some(), names.is_empty()) {
        (false, true) => return Ok(None),
        (false, false) => {
            return Err(Error::invalid(
                "The option 'key.fields' can only be declared if a key format is defined using 'key.format'.",
            ));
        }
        (true, true) => {
            return Err(Error::invalid(
                "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'.",
            ));
        }
        (true, false) => {}
    }
    let mut columns = Vec::with_capacity(names.len());
    let mut schema = Schema::default();
    for name in names {
        let column = table.physical.index_of(name).ok_or_else(|| unknown_key_field(name, table))?;
        let bare = name.strip_prefix(prefix).ok_or_else(|| {
            Error::invalid(format!(
                "All fields in 'key.fields' must be prefixed with '{prefix}' when option 'key.fields-prefix' is set \
                 but field '{name}' is not prefixed."
            ))
        })?;
        let mut field = table.physical.fields[column].clone();
        field.name = bare.to_owned();
        columns.push(column);
        schema.fields.push(field);
    }
    Ok(Some(KeyColumns { columns, schema }))
}

fn unknown_key_field(name: &str, table: &TableDescriptor) -> Error {
    let known: Vec<&str> = table.physical.fields.iter().map(|f| f.name.as_str()).collect();
    Error::invalid(format!(
        "Could not find the field '{name}' in the table schema for usage in the key format. A key field must be a \
         regular, physical column. The following columns can be selected in the 'key.fields' option: [{}]",
        known.join(", ")
    ))
}

fn value_columns(
    reader: &mut OptionReader<'_>,
    table: &TableDescriptor,
    key: Option<&KeyColumns>,
) -> Result<Vec<usize>> {
    let include = reader.choice("value.fields-include", &["ALL", "EXCEPT_KEY"])?;
    let prefixed = reader.text("key.fields-prefix").is_some_and(|p| !p.is_empty());
    let all = 0..table.physical.len();
    if include == "ALL" {
        if prefixed {
            return Err(Error::invalid(
                "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to \
                 'EXCEPT_KEY' instead to avoid field overlaps.",
            ));
        }
        return Ok(all.collect());
    }
    Ok(all.filter(|c| key.is_none_or(|k| !k.columns.contains(c))).collect())
}

fn partitioning(reader: &mut OptionReader<'_>, keyed: bool) -> Result<Partitioning> {
    match reader.text("sink.partitioner") {
        None | Some("default") => Ok(Partitioning::Default),
        Some("fixed") => Ok(Partitioning::Fixed),
        Some("round-robin") if keyed => Err(Error::invalid(
            "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified.",
        )),
        Some("round-robin") => Ok(Partitioning::Default),
        Some("") => Err(Error::invalid("Option 'sink.partitioner' should be a non-empty string.")),
        Some(class) => Err(Error::unsupported(format!(
            "Option 'sink.partitioner' = '{class}' names a Java class, which cannot be run. Supported are default, \
             fixed and round-robin."
        ))),
    }
}

fn guarantee(reader: &mut OptionReader<'_>) -> Result<Guarantee> {
    let guarantees = ["at-least-once", "exactly-once", "none"];
    let prefix = reader.text("sink.transactional-id-prefix");
    let forced = reader.bool("sink.exactly-once.force-recovery", false)?;
    // Both of Flink's strategies are about open transactions; here each subtask has one id for ever.
    reader.accept(&["sink.transaction-naming-strategy"]);
    let old = reader.text("sink.semantic").is_some();
    let key = if old { "sink.semantic" } else { "sink.delivery-guarantee" };
    reader.accept(&["sink.semantic", "sink.delivery-guarantee"]);
    match (reader.choice(key, &guarantees)?, prefix) {
        ("none", _) => Ok(Guarantee::None),
        ("at-least-once", _) => Ok(Guarantee::AtLeastOnce),
        (_, Some(prefix)) if !prefix.is_empty() => Ok(Guarantee::ExactlyOnce { prefix: prefix.to_owned(), forced }),
        (_, _) => Err(Error::invalid(
            "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_api::{Field, LogicalType, TypeKind};

    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<KafkaOptions> {
        let mut table = TableDescriptor {
            physical: Schema::new(vec![
                Field::new("k_id", LogicalType::string()),
                Field::new("v", LogicalType::new(TypeKind::Int)),
            ]),
            ..TableDescriptor::default()
        };
        for (key, value) in [("properties.bootstrap.servers", "h:1"), ("format", "json")].iter().chain(options) {
            table.options.insert((*key).to_owned(), (*value).to_owned());
        }
        KafkaOptions::read(&mut OptionReader::new("kafka", &table), &table)
    }

    fn fails(options: &[(&str, &str)], text: &str) {
        let error = read(options).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    }

    #[test]
    fn places_are_read() {
        let options = read(&[
            ("topic", "a"),
            ("scan.startup.mode", "specific-offsets"),
            ("scan.startup.specific-offsets", "partition:0,offset:42;partition:1,offset:300"),
            ("scan.bounded.mode", "latest-offset"),
        ])
        .expect("valid");
        assert_eq!(options.startup, Place::Offsets(BTreeMap::from([(0, 42), (1, 300)])));
        assert_eq!(options.end, Some(Place::Latest));
        assert_eq!(options.discovery, None, "a bounded read knows its partitions");
        let options = read(&[("topic", "a;b")]).expect("valid");
        assert!(matches!(options.topics, Some(Topics::List(ref names)) if names == &["a", "b"]));
        assert_eq!((options.startup, options.end), (Place::Group, None));
        assert_eq!(options.discovery, Some(Duration::from_secs(300)));
    }

    #[test]
    fn contradictions_are_refused() {
        fails(&[("topic", "a"), ("topic-pattern", "b")], "shouldn't be set together");
        fails(&[("topic", "a"), ("scan.startup.mode", "timestamp")], "'scan.startup.timestamp-millis' is required");
        let specific = ("scan.startup.mode", "specific-offsets");
        fails(&[("topic", "a;b"), specific, ("scan.startup.specific-offsets", "partition:0,offset:1")], "single topic");
        fails(&[("topic", "a"), specific, ("scan.startup.specific-offsets", "0:1")], "should follow the format");
        fails(&[("key.fields", "k_id")], "can only be declared if a key format");
        fails(&[("key.format", "json")], "requires the declaration");
        fails(&[("key.format", "json"), ("key.fields", "x")], "[k_id, v]");
        fails(&[("sink.partitioner", "org.example.Mine")], "org.example.Mine");
        fails(&[("value.format", "json")], "Only one of");
        let once = ("sink.delivery-guarantee", "exactly-once");
        fails(&[once], "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE.");
        fails(&[once, ("sink.transactional-id-prefix", "")], "must be specified");
        fails(&[("sink.delivery-guarantee", "twice")], "at-least-once, exactly-once, none");
    }

    #[test]
    fn a_key_prefix_is_cut_off_in_the_key() {
        let prefix = ("key.fields-prefix", "k_");
        let key = [("key.format", "json"), ("key.fields", "k_id"), prefix];
        fails(&key, "A key prefix is not allowed");
        let options = read(&[key[0], key[1], prefix, ("value.fields-include", "EXCEPT_KEY")]).expect("valid");
        let key = options.key.expect("a key");
        assert_eq!((key.columns.as_slice(), key.schema.fields[0].name.as_str()), ([0].as_slice(), "id"));
        assert_eq!(options.value_columns, [1]);
    }
}
