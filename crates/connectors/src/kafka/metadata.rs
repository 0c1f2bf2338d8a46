//! Metadata columns: what a record carries besides key and value.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, Int32Builder, Int64Builder, ListBuilder, MapBuilder, MapFieldNames,
    StringBuilder, StructBuilder, TimestampMillisecondBuilder,
};
use arrow::datatypes::DataType;
use tidegate_api::connector::MetadataColumn;
use tidegate_api::types::{list_field, map_field, row_fields};
use tidegate_api::{Error, Field, LogicalType, Result, TypeKind};

use super::consume::{Record, TimestampKind};

/// A metadata key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Topic,
    Partition,
    Headers,
    HeaderList,
    LeaderEpoch,
    Offset,
    Timestamp,
    TimestampType,
}

const KEYS: [(&str, Key); 8] = [
    ("topic", Key::Topic),
    ("partition", Key::Partition),
    ("headers", Key::Headers),
    ("header-list", Key::HeaderList),
    ("leader-epoch", Key::LeaderEpoch),
    ("offset", Key::Offset),
    ("timestamp", Key::Timestamp),
    ("timestamp-type", Key::TimestampType),
];

impl Key {
    /// The key of this name.
    pub fn named(name: &str) -> Result<Key> {
        KEYS.iter().find(|(n, _)| *n == name).map(|(_, key)| *key).ok_or_else(|| {
            let known: Vec<&str> = KEYS.iter().map(|(n, _)| *n).collect();
            Error::invalid(format!(
                "Invalid metadata key '{name}' of a Kafka table. Supported metadata keys are: {}",
                known.join(", ")
            ))
        })
    }

    /// Whether a sink can write it.
    pub fn is_writable(self) -> bool {
        matches!(self, Key::Topic | Key::Headers | Key::HeaderList | Key::Timestamp)
    }

    fn ty(self) -> LogicalType {
        match self {
            Key::Topic | Key::TimestampType => LogicalType::string().with_nullable(false),
            Key::Partition => LogicalType::not_null(TypeKind::Int),
            Key::Headers => {
                LogicalType::not_null(TypeKind::Map(Box::new(LogicalType::string()), Box::new(LogicalType::bytes())))
            }
            Key::HeaderList => LogicalType::not_null(TypeKind::Array(Box::new(header_row()))),
            Key::LeaderEpoch => LogicalType::new(TypeKind::Int),
            Key::Offset => LogicalType::not_null(TypeKind::BigInt),
            // Flink says NOT NULL; but a record may have no time (-1), and that must not become 1969.
            Key::Timestamp => LogicalType::new(TypeKind::TimestampLtz(3)),
        }
    }
}

fn header_row() -> LogicalType {
    LogicalType::new(TypeKind::Row(vec![
        Field::new("key", LogicalType::string()),
        Field::new("value", LogicalType::bytes()),
    ]))
}

/// All keys with their types.
pub(super) fn keys() -> Vec<(String, LogicalType)> {
    KEYS.iter().map(|(name, key)| ((*name).to_owned(), key.ty())).collect()
}

/// Refuses keys that do not exist.
pub(super) fn check(columns: &[MetadataColumn]) -> Result<()> {
    columns.iter().try_for_each(|column| Key::named(&column.key).map(|_| ()))
}

/// Collects one metadata column of a batch.
pub(super) enum Collector {
    Topic(StringBuilder),
    Partition(Int32Builder),
    Headers(MapBuilder<StringBuilder, BinaryBuilder>),
    HeaderList(ListBuilder<StructBuilder>),
    LeaderEpoch(Int32Builder),
    Offset(Int64Builder),
    Timestamp(TimestampMillisecondBuilder),
    TimestampType(StringBuilder),
}

impl Collector {
    pub fn new(key: Key) -> Collector {
        match key {
            Key::Topic => Collector::Topic(StringBuilder::new()),
            Key::Partition => Collector::Partition(Int32Builder::new()),
            Key::Headers => Collector::Headers(headers_builder()),
            Key::HeaderList => {
                let fields = match &header_row().kind {
                    TypeKind::Row(fields) => row_fields(fields),
                    _ => arrow::datatypes::Fields::empty(),
                };
                let rows = StructBuilder::from_fields(fields, 0);
                Collector::HeaderList(ListBuilder::new(rows).with_field(list_field(&header_row())))
            }
            Key::LeaderEpoch => Collector::LeaderEpoch(Int32Builder::new()),
            Key::Offset => Collector::Offset(Int64Builder::new()),
            Key::Timestamp => Collector::Timestamp(TimestampMillisecondBuilder::new()),
            Key::TimestampType => Collector::TimestampType(StringBuilder::new()),
        }
    }

    /// Appends the record's value `times` times.
    pub fn append(&mut self, record: &Record<'_>, topic: &str, partition: i32, times: usize) -> Result<()> {
        for _ in 0..times {
            match self {
                Collector::Topic(b) => b.append_value(topic),
                Collector::Partition(b) => b.append_value(partition),
                Collector::Headers(b) => append_headers(b, record)?,
                Collector::HeaderList(b) => append_header_list(b, record)?,
                Collector::LeaderEpoch(b) => b.append_option(record.leader_epoch()),
                Collector::Offset(b) => b.append_value(record.offset()),
                Collector::Timestamp(b) => {
                    let (time, kind) = record.timestamp();
                    b.append_option((kind != TimestampKind::None && time >= 0).then_some(time));
                }
                Collector::TimestampType(b) => b.append_value(match record.timestamp().1 {
                    TimestampKind::None => "NoTimestampType",
                    TimestampKind::Create => "CreateTime",
                    TimestampKind::LogAppend => "LogAppendTime",
                }),
            }
        }
        Ok(())
    }

    /// Takes what was collected.
    pub fn finish(&mut self) -> ArrayRef {
        let builder: &mut dyn ArrayBuilder = match self {
            Collector::Topic(b) | Collector::TimestampType(b) => b,
            Collector::Partition(b) | Collector::LeaderEpoch(b) => b,
            Collector::Headers(b) => b,
            Collector::HeaderList(b) => b,
            Collector::Offset(b) => b,
            Collector::Timestamp(b) => b,
        };
        builder.finish()
    }
}

fn headers_builder() -> MapBuilder<StringBuilder, BinaryBuilder> {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let field = map_field(&LogicalType::string(), &LogicalType::bytes());
    let builder = MapBuilder::new(Some(names), StringBuilder::new(), BinaryBuilder::new());
    match field.data_type() {
        DataType::Struct(entries) if entries.len() == 2 => {
            builder.with_keys_field(Arc::clone(&entries[0])).with_values_field(Arc::clone(&entries[1]))
        }
        _ => builder,
    }
}

/// A map has each name once: the last header of a name counts, as in Flink.
fn append_headers(builder: &mut MapBuilder<StringBuilder, BinaryBuilder>, record: &Record<'_>) -> Result<()> {
    let mut entries: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    record.headers(|name, value| {
        let value = value.map(<[u8]>::to_vec);
        match entries.iter_mut().find(|(n, _)| n == name) {
            Some(entry) => entry.1 = value,
            None => entries.push((name.to_owned(), value)),
        }
    });
    for (name, value) in entries {
        builder.keys().append_value(name);
        builder.values().append_option(value);
    }
    Ok(builder.append(true)?)
}

fn append_header_list(builder: &mut ListBuilder<StructBuilder>, record: &Record<'_>) -> Result<()> {
    let rows = builder.values();
    let mut complete = true;
    record.headers(|name, value| {
        match rows.field_builder::<StringBuilder>(0) {
            Some(keys) => keys.append_value(name),
            None => complete = false,
        }
        match rows.field_builder::<BinaryBuilder>(1) {
            Some(values) => values.append_option(value),
            None => complete = false,
        }
        rows.append(true);
    });
    builder.append(true);
    match complete {
        true => Ok(()),
        false => Err(Error::internal("header list builders have other types than their fields")),
    }
}
