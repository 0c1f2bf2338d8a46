//! What an unaligned barrier has overtaken, as bytes and back.
//!
//! ```text
//! 0 batch       number of rows (u32), then of each: kind (1 byte), length (u32), encoded row
//! 1 watermark   milliseconds (i64)
//! 2 status      1 if idle
//! 3 end of input
//! ```
//!
//! Numbers are little endian.

use arrow::array::{RecordBatch, RecordBatchOptions, UInt8Array};
use arrow::datatypes::DataType;
use tidegate_api::{Batch, Error, Result, Schema, StreamElement, Watermark, WatermarkStatus};

use super::codec::{RowDecoder, encode_row};

const BATCH: u8 = 0;
const WATERMARK: u8 = 1;
const STATUS: u8 = 2;
const END: u8 = 3;

/// Appends an element to `into`.
pub(crate) fn encode_element(element: &StreamElement, into: &mut Vec<u8>) -> Result<()> {
    match element {
        StreamElement::Batch(batch) => {
            into.push(BATCH);
            into.extend_from_slice(&(batch.num_rows() as u32).to_le_bytes());
            for row in 0..batch.num_rows() {
                into.push(batch.kind(row).to_byte());
                let at = into.len();
                into.extend_from_slice(&[0; 4]);
                encode_row(batch.columns.columns(), row, into)?;
                let length = (into.len() - at - 4) as u32;
                into[at..at + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
        StreamElement::Watermark(watermark) => {
            into.push(WATERMARK);
            into.extend_from_slice(&watermark.timestamp().to_le_bytes());
        }
        StreamElement::Status(status) => into.extend_from_slice(&[STATUS, u8::from(*status == WatermarkStatus::Idle)]),
        StreamElement::EndOfInput => into.push(END),
    }
    Ok(())
}

/// Reads elements of rows of this schema.
pub(crate) fn decode_elements(mut bytes: &[u8], schema: &Schema) -> Result<Vec<StreamElement>> {
    let types: Vec<DataType> = schema.fields.iter().map(|f| f.ty.to_arrow()).collect();
    let mut elements = Vec::new();
    while !bytes.is_empty() {
        let [tag] = take(&mut bytes)?;
        elements.push(match tag {
            BATCH => StreamElement::Batch(decode_batch(&mut bytes, schema, &types)?),
            WATERMARK => StreamElement::Watermark(Watermark(i64::from_le_bytes(take(&mut bytes)?))),
            STATUS => match take(&mut bytes)? {
                [0] => StreamElement::Status(WatermarkStatus::Active),
                _ => StreamElement::Status(WatermarkStatus::Idle),
            },
            END => StreamElement::EndOfInput,
            _ => return Err(damaged()),
        });
    }
    Ok(elements)
}

fn decode_batch(bytes: &mut &[u8], schema: &Schema, types: &[DataType]) -> Result<Batch> {
    let rows = u32::from_le_bytes(take(bytes)?) as usize;
    let mut decoder = RowDecoder::new(types)?;
    let mut kinds = Vec::new();
    for _ in 0..rows {
        let [kind] = take(bytes)?;
        kinds.push(kind);
        let length = u32::from_le_bytes(take(bytes)?) as usize;
        let (row, rest) = bytes.split_at_checked(length).ok_or_else(damaged)?;
        decoder.read(row)?;
        *bytes = rest;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = RecordBatch::try_new_with_options(schema.to_arrow(), decoder.finish()?, &options)?;
    let kinds = kinds.iter().any(|k| *k != 0).then(|| UInt8Array::from(kinds));
    Ok(Batch { columns, kinds })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    *bytes = rest;
    Ok(*taken)
}

fn damaged() -> Error {
    Error::job("Rows that a checkpoint had overtaken cannot be read: the file is damaged.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use proptest::prelude::*;
    use std::sync::Arc;
    use tidegate_api::Field;
    use tidegate_api::types::{LogicalType, TypeKind};

    fn schema() -> Schema {
        Schema::new(vec![Field::new("k", LogicalType::string()), Field::new("v", LogicalType::new(TypeKind::BigInt))])
    }

    fn batch(rows: &[(Option<String>, Option<i64>, u8)]) -> StreamElement {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|r| r.0.clone()).collect::<StringArray>()),
            Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
        ];
        let columns = RecordBatch::try_new(schema().to_arrow(), columns).unwrap();
        let kinds = rows.iter().any(|r| r.2 != 0).then(|| rows.iter().map(|r| Some(r.2)).collect());
        StreamElement::Batch(Batch { columns, kinds })
    }

    fn element() -> impl Strategy<Value = StreamElement> {
        let row = (any::<Option<String>>(), any::<Option<i64>>(), 0..4_u8);
        prop_oneof![
            proptest::collection::vec(row, 1..6).prop_map(|rows| batch(&rows)),
            any::<i64>().prop_map(|ms| StreamElement::Watermark(Watermark(ms))),
            any::<bool>().prop_map(|idle| StreamElement::Status(if idle {
                WatermarkStatus::Idle
            } else {
                WatermarkStatus::Active
            })),
            Just(StreamElement::EndOfInput),
        ]
    }

    proptest! {
        #[test]
        fn what_was_overtaken_comes_back(elements in proptest::collection::vec(element(), 0..8)) {
            let mut bytes = Vec::new();
            elements.iter().try_for_each(|e| encode_element(e, &mut bytes)).unwrap();
            let back = decode_elements(&bytes, &schema()).unwrap();
            prop_assert_eq!(format!("{back:?}"), format!("{elements:?}"));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_elements(&bytes, &schema());
        }
    }
}
