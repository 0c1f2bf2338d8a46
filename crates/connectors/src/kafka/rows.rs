//! Records become rows: value, key and metadata columns side by side.
//!
//! A record gives as many rows as its value has (two for an update of a changelog format), each beside
//! its key. Where that is one row for one record, as nearly always, columns go through as decoded;
//! else rows are picked by index at the end.

use arrow::array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use tidegate_api::connector::ReadColumn;
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Error, Field, Result, Schema};

use super::consume::Record;
use super::metadata::{Collector, Key};
use super::source::SourceTable;
use crate::format::{DecodeError, DecodeMetrics, Decoder, to_batch};

/// Where an output column comes from: the how-manieth of its kind.
enum Origin {
    Value(usize),
    Key(usize),
    Metadata(usize),
}

/// Which part of a record was no row.
pub(super) struct Failure {
    /// `true`: the key, else the value.
    pub in_key: bool,
    pub error: DecodeError,
}

/// Why a record could not be added.
pub(super) enum AddError {
    Decode(Failure),
    Other(Error),
}

/// Fills a batch from records.
pub(super) struct RowBuilder {
    schema: SchemaRef,
    origins: Vec<Origin>,
    value: Box<dyn Decoder>,
    key: Option<Box<dyn Decoder>>,
    metadata: Vec<Collector>,
    picked: Picked,
    positions: Vec<i64>,
}

/// Which decoded rows an output row is made of, if not row for row.
#[derive(Default)]
struct Picked {
    value: Vec<u32>,
    key: Vec<u32>,
}

impl RowBuilder {
    /// A builder of these columns.
    pub fn new(table: &SourceTable, columns: &[ReadColumn], metrics: &MetricGroup) -> Result<RowBuilder> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut origins = Vec::with_capacity(columns.len());
        let (mut value_projection, mut key_projection, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
        for column in columns {
            match column {
                ReadColumn::Physical(index) => {
                    let field = table.physical.fields.get(*index).ok_or_else(no_column)?;
                    fields.push(field.clone());
                    // A column that is in both is the value's: that is decoded last.
                    if let Some(at) = table.options.value_columns.iter().position(|c| c == index) {
                        origins.push(Origin::Value(value_projection.len()));
                        value_projection.push(at);
                    } else {
                        let key = table.options.key.as_ref().ok_or_else(no_column)?;
                        origins.push(Origin::Key(key_projection.len()));
                        key_projection.push(key.columns.iter().position(|c| c == index).ok_or_else(no_column)?);
                    }
                }
                ReadColumn::Metadata(index) => {
                    let column = table.metadata.get(*index).ok_or_else(no_column)?;
                    fields.push(Field::new(&column.name, column.ty.clone()));
                    origins.push(Origin::Metadata(metadata.len()));
                    metadata.push(Collector::new(Key::named(&column.key)?));
                }
            }
        }
        let decode_metrics = DecodeMetrics::of(metrics);
        let key = match (&table.key_format, &table.options.key) {
            (Some(format), Some(key)) => Some(format.decoder(&key.schema, &key_projection, decode_metrics.clone())?),
            _ => None,
        };
        Ok(RowBuilder {
            schema: Schema::new(fields).to_arrow(),
            origins,
            value: table.value_format.decoder(&table.value_schema, &value_projection, decode_metrics)?,
            key,
            metadata,
            picked: Picked::default(),
            positions: Vec::new(),
        })
    }

    /// Rows waiting.
    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    /// Adds a record's rows.
    pub fn add(&mut self, record: &Record<'_>, topic: &str, partition: i32) -> Result<(), AddError> {
        let keys = match &mut self.key {
            None => None,
            Some(decoder) => {
                let first = decoder.rows();
                let count = decoder.decode(record.key()).map_err(|error| decode_error(true, error))?;
                Some((first, count))
            }
        };
        let first = self.value.rows();
        let count = self.value.decode(record.payload()).map_err(|error| decode_error(false, error))?;
        let rows = match keys {
            None => count,
            Some((first_key, keys)) => {
                for value in first..first + count {
                    for key in first_key..first_key + keys {
                        self.picked.value.push(value as u32);
                        self.picked.key.push(key as u32);
                    }
                }
                count * keys
            }
        };
        for collector in &mut self.metadata {
            collector.append(record, topic, partition, rows).map_err(AddError::Other)?;
        }
        self.positions.extend(std::iter::repeat_n(record.offset(), rows));
        Ok(())
    }

    /// Takes the rows: columns, kinds and offsets.
    pub fn finish(&mut self) -> Result<(RecordBatch, Option<UInt8Array>, Vec<i64>)> {
        let positions = std::mem::take(&mut self.positions);
        let picked = std::mem::take(&mut self.picked);
        let (mut values, mut kinds) = self.value.finish()?;
        let mut keys = Vec::new();
        if let Some(decoder) = &mut self.key {
            let (key_rows, value_rows) = (decoder.rows(), kinds.as_ref().map_or(usize::MAX, |k| k.len()));
            keys = decoder.finish()?.0;
            pick(&mut keys, &picked.key, key_rows)?;
            let value_rows = values.first().map_or(value_rows, |column| column.len());
            if !is_identity(&picked.value, value_rows) {
                let indices = UInt32Array::from(picked.value.clone());
                kinds = match kinds {
                    Some(k) => Some(
                        take(&k, &indices, None)?
                            .as_any()
                            .downcast_ref::<UInt8Array>()
                            .cloned()
                            .ok_or_else(no_column)?,
                    ),
                    None => None,
                };
                pick(&mut values, &picked.value, value_rows)?;
            }
        }
        let metadata: Vec<ArrayRef> = self.metadata.iter_mut().map(Collector::finish).collect();
        let column = |origin: &Origin| match origin {
            Origin::Value(at) => values.get(*at),
            Origin::Key(at) => keys.get(*at),
            Origin::Metadata(at) => metadata.get(*at),
        };
        let columns: Option<Vec<ArrayRef>> = self.origins.iter().map(|origin| column(origin).cloned()).collect();
        let columns = columns.ok_or_else(no_column)?;
        Ok((to_batch(SchemaRef::clone(&self.schema), columns, positions.len())?, kinds, positions))
    }
}

fn is_identity(indices: &[u32], rows: usize) -> bool {
    indices.len() == rows && indices.iter().enumerate().all(|(at, index)| at == *index as usize)
}

fn pick(columns: &mut [ArrayRef], indices: &[u32], rows: usize) -> Result<()> {
    if is_identity(indices, rows) {
        return Ok(());
    }
    let indices = UInt32Array::from(indices.to_vec());
    for column in columns {
        *column = take(column.as_ref(), &indices, None)?;
    }
    Ok(())
}

fn decode_error(in_key: bool, error: DecodeError) -> AddError {
    AddError::Decode(Failure { in_key, error })
}

fn no_column() -> Error {
    Error::internal("a Kafka reader was asked for a column its table does not have")
}
