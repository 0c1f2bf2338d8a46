//! The rows of a `VALUES` list: a source like any other, with one split, so that a checkpoint may fall between
//! two rows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use async_trait::async_trait;
use tidegate_api::connector::{
    EnumeratorContext, ReadColumn, ReaderContext, Source, SourceBatch, SourceEvent, SourceReader, Split,
    SplitAssignment, SplitEnumerator,
};
use tidegate_api::expr::Expr;
use tidegate_api::function::{EvalContext, FunctionLibrary};
use tidegate_api::{Error, Result, Schema, Value};

/// Constant rows.
pub(crate) struct ValuesSource {
    rows: Arc<Vec<Vec<Value>>>,
    schema: Schema,
    functions: Arc<dyn FunctionLibrary>,
    zone: String,
    now_ms: i64,
}

impl ValuesSource {
    /// Rows of `schema`. Constants are evaluated by the function library, the only one that knows how a value of
    /// each type becomes a column.
    pub(crate) fn new(
        rows: &[Vec<Value>],
        schema: &Schema,
        functions: Arc<dyn FunctionLibrary>,
        zone: &str,
        now_ms: i64,
    ) -> Self {
        ValuesSource { rows: Arc::new(rows.to_vec()), schema: schema.clone(), functions, zone: zone.to_owned(), now_ms }
    }
}

impl Source for ValuesSource {
    fn is_bounded(&self) -> bool {
        true
    }

    fn enumerator(&self, _: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(ValuesEnumerator { given: false }))
    }

    /// All columns, whatever is asked for.
    fn reader(&self, _: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(ValuesReader {
            rows: self.rows.clone(),
            schema: self.schema.clone(),
            functions: self.functions.clone(),
            zone: self.zone.clone(),
            now_ms: self.now_ms,
            batch_rows: ctx.batch_rows.max(1),
            splits: Vec::new(),
        }))
    }
}

struct ValuesEnumerator {
    given: bool,
}

#[async_trait]
impl SplitEnumerator for ValuesEnumerator {
    async fn discover(&mut self) -> Result<Vec<Split>> {
        let splits = usize::from(!std::mem::replace(&mut self.given, true));
        let split = |_| Split { id: "values".to_owned(), owner: 0, state: 0.into() };
        Ok((0..splits).map(split).collect())
    }

    fn discovery_interval(&self) -> Option<Duration> {
        None
    }

    fn assignment(&self) -> SplitAssignment {
        SplitAssignment::Eager
    }

    fn snapshot(&self) -> Result<serde_json::Value> {
        Ok(self.given.into())
    }

    fn restore(&mut self, state: serde_json::Value) -> Result<()> {
        self.given = state.as_bool().unwrap_or(true);
        Ok(())
    }
}

struct ValuesReader {
    rows: Arc<Vec<Vec<Value>>>,
    schema: Schema,
    functions: Arc<dyn FunctionLibrary>,
    zone: String,
    now_ms: i64,
    batch_rows: usize,
    splits: Vec<OpenList>,
}

/// The list being read.
struct OpenList {
    split: Split,
    /// Rows that were handed out.
    read: usize,
    batches: VecDeque<RecordBatch>,
    finished: bool,
}

impl ValuesReader {
    /// Some of the rows as columns.
    fn columns(&self, rows: &[Vec<Value>]) -> Result<RecordBatch> {
        let (empty, ctx) = (Schema::default(), EvalContext { watermark: None, now_ms: self.now_ms });
        let count = |n| RecordBatchOptions::new().with_row_count(Some(n));
        let unit = RecordBatch::try_new_with_options(empty.to_arrow(), Vec::new(), &count(1))?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.len());
        for (column, field) in self.schema.fields.iter().enumerate() {
            let mut values: Vec<ArrayRef> = Vec::with_capacity(rows.len());
            for row in rows {
                let value = row.get(column).cloned().unwrap_or(Value::Null);
                let literal = Expr::literal(value, field.ty.clone());
                values.push(self.functions.compile(&literal, &empty, &self.zone)?.evaluate(&unit, &ctx)?);
            }
            let parts: Vec<&dyn arrow::array::Array> = values.iter().map(|v| v.as_ref()).collect();
            columns.push(concat(&parts)?);
        }
        Ok(RecordBatch::try_new_with_options(self.schema.to_arrow(), columns, &count(rows.len()))?)
    }
}

#[async_trait]
impl SourceReader for ValuesReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let read = split.state.as_u64().map(|read| read as usize);
        let rest = read.and_then(|read| self.rows.get(read..));
        let (Some(read), Some(rest)) = (read, rest) else {
            return Err(Error::job(format!(
                "Cannot go on behind row {} of a VALUES list that has {} rows now.",
                split.state,
                self.rows.len()
            )));
        };
        let batches = rest.chunks(self.batch_rows).map(|rows| self.columns(rows)).collect::<Result<_>>()?;
        self.splits.push(OpenList { split, read, batches, finished: false });
        Ok(())
    }

    async fn next(&mut self) -> Result<SourceEvent> {
        let open = self.splits.iter_mut().enumerate().find(|(_, list)| !list.finished);
        let Some((split, list)) = open else { return std::future::pending().await };
        let Some(columns) = list.batches.pop_front() else {
            list.finished = true;
            return Ok(SourceEvent::SplitFinished(split));
        };
        let first = list.read as i64 + 1;
        list.read += columns.num_rows();
        let positions = (first..).take(columns.num_rows()).collect();
        Ok(SourceEvent::Rows(SourceBatch { split, columns, kinds: None, positions }))
    }

    fn snapshot(&self) -> Result<Vec<(usize, Split)>> {
        let open = self.splits.iter().enumerate().filter(|(_, list)| !list.finished);
        Ok(open.map(|(i, list)| (i, Split { state: list.read.into(), ..list.split.clone() })).collect())
    }

    fn locate(&self, _: usize, position: i64) -> String {
        format!("row {position} of VALUES")
    }
}
