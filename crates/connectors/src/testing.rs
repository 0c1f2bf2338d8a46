//! What the tests of formats share: options in, printed rows out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::RecordBatch;
use tidegate_api::connector::{EnumeratorContext, ReadColumn, ReaderContext, Source, SourceEvent, Split};
use tidegate_api::metrics::MetricGroup;
use tidegate_api::{Batch, Error, Field, LogicalType, Result, Schema, TypeKind};

use crate::format::{Chunk, DecodeMetrics, decode_failure, decoding_format, encoding_format, to_batch};
use crate::option::OptionReader;
use crate::row_text::format_rows;

/// A schema of nullable columns.
pub(crate) fn schema(columns: &[(&str, TypeKind)]) -> Schema {
    Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, LogicalType::new(kind.clone()))).collect())
}

pub(crate) const STRING: TypeKind = TypeKind::Varchar(tidegate_api::types::MAX_LENGTH);
pub(crate) const BYTES: TypeKind = TypeKind::Varbinary(tidegate_api::types::MAX_LENGTH);

pub(crate) fn array(element: TypeKind) -> TypeKind {
    TypeKind::Array(Box::new(LogicalType::new(element)))
}

fn options(format: &str, pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = pairs.iter().map(|(k, v)| (format!("{format}.{k}"), (*v).to_owned()));
    own.chain([("format".to_owned(), format.to_owned())]).collect()
}

/// Decodes text as a file: printed rows, or the error with its line.
pub(crate) fn decode_file(
    format: &str,
    pairs: &[(&str, &str)],
    row: &Schema,
    text: &str,
) -> (Result<Vec<String>>, DecodeMetrics) {
    let metrics = DecodeMetrics::default();
    (try_decode(format, pairs, row, text, metrics.clone()), metrics)
}

fn try_decode(
    format: &str,
    pairs: &[(&str, &str)],
    row: &Schema,
    text: &str,
    metrics: DecodeMetrics,
) -> Result<Vec<String>> {
    let options = options(format, pairs);
    let mut reader = OptionReader::of("test", &options);
    let decoding = decoding_format(&mut reader, "format")?;
    reader.finish()?;
    let all: Vec<usize> = (0..row.len()).collect();
    let mut decoder = decoding.decoder(row, &all, metrics)?;
    let mut positions = Vec::new();
    let mut chunk =
        Chunk { bytes: text.as_bytes(), at_end: true, max_rows: 1000, line: 1, consumed: 0, positions: &mut positions };
    if let Err(e) = decoder.decode_chunk(&mut chunk) {
        return Err(decode_failure(format, &e.record, &format!("line {}", e.line), &e.error));
    }
    let rows = decoder.rows();
    assert_eq!(positions.len(), rows);
    let (columns, kinds) = decoder.finish()?;
    let columns = to_batch(row.to_arrow(), columns, rows)?;
    if kinds.is_none() {
        return print(row, &columns);
    }
    let mut lines = Vec::new();
    format_rows(&Batch { columns, kinds }, row, 0..rows, |_, line| lines.push(line.to_owned()))?;
    Ok(lines)
}

/// The rows of a batch as `print` shows them, without the row kind.
pub(crate) fn print(row: &Schema, columns: &RecordBatch) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let batch = Batch::inserts(columns.clone());
    format_rows(&batch, row, 0..columns.num_rows(), |_, line| {
        lines.push(line.strip_prefix("+I").unwrap_or(line).to_owned());
    })?;
    Ok(lines)
}

/// Decodes JSON lines and writes the rows in another format.
pub(crate) fn encode(format: &str, pairs: &[(&str, &str)], row: &Schema, json: &str) -> Result<Vec<String>> {
    let metrics = DecodeMetrics::default();
    let json_options = options("json", &[]);
    let decoding = decoding_format(&mut OptionReader::of("test", &json_options), "format")?;
    let all: Vec<usize> = (0..row.len()).collect();
    let mut decoder = decoding.decoder(row, &all, metrics)?;
    for line in json.lines() {
        decoder.decode(Some(line.as_bytes())).map_err(|e| Error::job(e.message))?;
    }
    let rows = decoder.rows();
    let (columns, _) = decoder.finish()?;
    let batch = Batch::inserts(to_batch(row.to_arrow(), columns, rows)?);
    let options = options(format, pairs);
    let encoding = encoding_format(&mut OptionReader::of("test", &options), "format")?;
    let mut lines = Vec::new();
    encoding.encoder(row)?.encode(&batch, 0..rows, &mut |_, bytes| {
        lines.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(())
    })?;
    Ok(lines)
}

/// Reads a bounded source to its end, split by split: rows with their positions. With `resume` a new reader
/// and a new enumerator take over after every event, from a snapshot that went through its text form.
pub(crate) async fn read_with(
    source: &dyn Source,
    row: &Schema,
    batch_rows: usize,
    resume: bool,
) -> Result<Vec<String>> {
    let columns: Vec<ReadColumn> = (0..row.len()).map(ReadColumn::Physical).collect();
    let reader = || {
        let metrics = Arc::new(MetricGroup::default());
        source.reader(&columns, ReaderContext { subtask: 0, parallelism: 1, batch_rows, metrics })
    };
    let mut enumerator = source.enumerator(EnumeratorContext::silent())?;
    let mut waiting: VecDeque<Split> = enumerator.discover().await?.into();
    let mut lines = Vec::new();
    while let Some(split) = waiting.pop_front() {
        let mut current = reader()?;
        current.add_split(split)?;
        loop {
            match current.next().await? {
                SourceEvent::Rows(rows) => {
                    let printed = print(row, &rows.columns)?;
                    lines.extend(rows.positions.iter().zip(printed).map(|(at, row)| format!("{at}: {row}")));
                }
                SourceEvent::SplitFinished(_) => break,
                SourceEvent::Quiet(_) => {}
            }
            if resume {
                let taken = current.snapshot()?;
                assert_eq!(taken.len(), 1, "the split is not finished");
                let text = serde_json::to_string(&taken[0].1).expect("a split");
                current = reader()?;
                current.add_split(serde_json::from_str(&text).expect("a split"))?;
                let state = enumerator.snapshot()?;
                enumerator = source.enumerator(EnumeratorContext::silent())?;
                enumerator.restore(state)?;
                assert!(enumerator.discover().await?.is_empty(), "no split is found twice");
            }
        }
        assert!(current.snapshot()?.is_empty(), "a finished split is not read again");
    }
    Ok(lines)
}
