//! A batch as Kafka records: key, value, topic, time and headers of each row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType};
use rdkafka::message::{Header, OwnedHeaders};
use tidegate_api::{Batch, Error, Result};

use super::options::Topics;
use super::sink::{HeaderColumn, SinkTable, Target};
use crate::format::Encoder;

/// Encodes batches.
pub(super) struct RecordEncoder {
    table: Arc<SinkTable>,
    value: Box<dyn Encoder>,
    key: Option<Box<dyn Encoder>>,
}

/// One record of a batch that is being written.
pub(super) struct Record<'b> {
    pub topic: &'b str,
    pub key: Option<&'b [u8]>,
    pub value: &'b [u8],
    /// Milliseconds since the epoch.
    pub timestamp: Option<i64>,
    pub headers: Option<OwnedHeaders>,
}

/// A batch's encoded records.
#[derive(Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// Row and bytes of each value.
    values: Vec<(usize, Range<usize>)>,
    /// Bytes of each row's key.
    keys: Vec<Option<Range<usize>>>,
}

impl Records {
    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// A record by its place; `rowtime` is the input column of the query's rowtime.
    pub fn get<'b>(
        &'b self,
        table: &'b SinkTable,
        rowtime: Option<usize>,
        columns: &'b RecordBatch,
        index: usize,
    ) -> Result<Record<'b>> {
        let (row, value) = &self.values[index];
        Ok(Record {
            topic: topic_of(&table.target, columns, *row)?,
            key: self.keys[*row].clone().map(|key| &self.bytes[key]),
            value: &self.bytes[value.clone()],
            timestamp: timestamp_of(table, rowtime, columns, *row)?,
            headers: table.headers.map_or(Ok(None), |column| headers_of(column, columns, *row))?,
        })
    }
}

impl RecordEncoder {
    pub fn new(table: Arc<SinkTable>) -> Result<RecordEncoder> {
        let key = match (&table.key_format, &table.options.key) {
            (Some(format), Some(key)) => Some(format.encoder(&key.schema)?),
            _ => None,
        };
        let value = table.value_format.encoder(&table.value_schema)?;
        Ok(RecordEncoder { table, value, key })
    }

    /// Encodes a batch into `encoded`, in place of what was there.
    pub fn encode(&mut self, batch: &Batch, encoded: &mut Records) -> Result<()> {
        let rows = batch.num_rows();
        encoded.bytes.clear();
        encoded.values.clear();
        encoded.keys.clear();
        encoded.keys.resize(rows, None);
        if let (Some(encoder), Some(key)) = (&mut self.key, &self.table.options.key) {
            // A key has no row kind.
            let keys = Batch::inserts(batch.columns.project(&key.columns)?);
            encoder.encode(&keys, 0..rows, &mut |row, bytes| {
                let range = encoded.push(bytes);
                encoded.keys[row] = Some(range);
                Ok(())
            })?;
        }
        let columns = batch.columns.project(&self.table.value_columns)?;
        let values = Batch { columns, kinds: batch.kinds.clone() };
        self.value.encode(&values, 0..rows, &mut |row, bytes| {
            let range = encoded.push(bytes);
            encoded.values.push((row, range));
            Ok(())
        })
    }
}

fn topic_of<'b>(target: &'b Target, columns: &'b RecordBatch, row: usize) -> Result<&'b str> {
    match target {
        Target::Topic(topic) => Ok(topic),
        Target::Column { column, allowed } => {
            let names = columns.column(*column).as_string_opt::<i32>().ok_or_else(|| wrong_type("topic"))?;
            if names.is_null(row) {
                return Err(Error::job("The metadata column 'topic' is NULL, so a record has no topic to go to."));
            }
            let name = names.value(row);
            let fits = match allowed {
                Topics::List(list) => list.iter().any(|t| t == name),
                Topics::Pattern(pattern) => pattern.is_match(name),
            };
            match fits {
                true => Ok(name),
                false => Err(Error::job(format!(
                    "The topic '{name}' of the current record is not one of the table's 'topic' or 'topic-pattern'."
                ))),
            }
        }
    }
}

/// The record's time: the `timestamp` metadata, else the query's rowtime, else Kafka's own.
fn timestamp_of(table: &SinkTable, rowtime: Option<usize>, columns: &RecordBatch, row: usize) -> Result<Option<i64>> {
    let Some(column) = table.timestamp.or(rowtime) else { return Ok(None) };
    let array = columns.column(column);
    if array.is_null(row) {
        return Ok(None);
    }
    let millis = match array.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => array.as_primitive::<TimestampMillisecondType>().value(row),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).div_euclid(1000)
        }
        DataType::Decimal128(..) => {
            let millis = array.as_primitive::<Decimal128Type>().value(row).div_euclid(1_000_000);
            i64::try_from(millis).map_err(|_| Error::job("A record's time is beyond Kafka's range."))?
        }
        _ => return Err(wrong_type("timestamp")),
    };
    // Kafka has no times before 1970, and the client takes 0 for "now".
    match millis > 0 {
        true => Ok(Some(millis)),
        false => Err(Error::job(format!(
            "A record's time is {millis} ms since 1970-01-01; Kafka stores only later times in a record."
        ))),
    }
}

fn headers_of(column: HeaderColumn, columns: &RecordBatch, row: usize) -> Result<Option<OwnedHeaders>> {
    let index = match column {
        HeaderColumn::Map(index) | HeaderColumn::List(index) => index,
    };
    let array = columns.column(index);
    if array.is_null(row) {
        return Ok(None);
    }
    let entries = match column {
        HeaderColumn::Map(_) => array.as_map_opt().map(|map| map.value(row)),
        HeaderColumn::List(_) => array.as_list_opt::<i32>().and_then(|list| list.value(row).as_struct_opt().cloned()),
    };
    let entries = entries.filter(|e| e.num_columns() == 2).ok_or_else(|| wrong_type("headers"))?;
    let names = entries.column(0).as_string_opt::<i32>().ok_or_else(|| wrong_type("headers"))?;
    let values = entries.column(1).as_binary_opt::<i32>().ok_or_else(|| wrong_type("headers"))?;
    let mut headers = OwnedHeaders::new_with_capacity(entries.len());
    for i in 0..entries.len() {
        // As in Flink, a header without a name is left out.
        if entries.is_valid(i) && names.is_valid(i) {
            let value = values.is_valid(i).then(|| values.value(i));
            headers = headers.insert(Header { key: names.value(i), value });
        }
    }
    Ok(Some(headers))
}

fn wrong_type(name: &str) -> Error {
    Error::internal(format!("the metadata column '{name}' of a Kafka sink has another type than declared"))
}
