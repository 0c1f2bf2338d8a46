//! `datagen`: made-up rows at a set pace.
//!
//! Each subtask has one split. Row `i` of split `k` of `n` is number `i * n + k` of the table, so a sequence is
//! complete and without repetition whatever the parallelism. With `tidegate.seed` the rows are the same in every run
//! (the times in them are not).

mod field;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{
    ConnectorFactory, EnumeratorContext, ReadColumn, ReaderContext, Source, SourceReader, Split, SplitAssignment,
    SplitEnumerator, TableDescriptor,
};
use tidegate_api::{Error, Field, Result, Schema};

use self::field::{Generator, read_generator, sequence_len};
use self::reader::DatagenReader;
use crate::option::OptionReader;

/// The factory of `'connector' = 'datagen'`.
pub struct DatagenFactory;

impl ConnectorFactory for DatagenFactory {
    fn identifier(&self) -> &'static str {
        "datagen"
    }

    fn source(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Source>> {
        let mut options = OptionReader::new(self.identifier(), table);
        let rows_per_second = options.positive("rows-per-second")?.unwrap_or(10_000) as u64;
        let number_of_rows: Option<u64> = options.integer("number-of-rows")?;
        let parallelism = options.positive("scan.parallelism")?;
        let seed: Option<u64> = options.integer("tidegate.seed")?;
        let mut fields = Vec::new();
        for field in &table.physical.fields {
            let generator = read_generator(&mut options, &format!("fields.{}", field.name), &field.ty)?;
            fields.push((field.clone(), generator));
        }
        options.finish()?;
        let sequences = fields.iter().filter_map(|(_, g)| sequence_len(g));
        let rows = sequences.chain(number_of_rows).min();
        let splits = match parallelism {
            Some(n) => n,
            None => default_parallelism(config)?,
        };
        Ok(Arc::new(Datagen { fields, rows_per_second, rows, parallelism, splits: splits as u64, seed }))
    }
}

fn default_parallelism(config: &Configuration) -> Result<usize> {
    match config.usize("table.exec.resource.default-parallelism", 0) {
        Ok(n) if n > 0 => Ok(n),
        _ => Ok(config.usize("parallelism.default", 1)?.max(1)),
    }
}

struct Datagen {
    fields: Vec<(Field, Generator)>,
    rows_per_second: u64,
    /// Rows of the whole table; `None` goes on for ever.
    rows: Option<u64>,
    parallelism: Option<usize>,
    splits: u64,
    seed: Option<u64>,
}

impl Source for Datagen {
    fn is_bounded(&self) -> bool {
        self.rows.is_some()
    }

    fn enumerator(&self, _ctx: EnumeratorContext) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(DatagenEnumerator { splits: self.splits, given: false }))
    }

    fn reader(&self, columns: &[ReadColumn], ctx: ReaderContext) -> Result<Box<dyn SourceReader>> {
        let mut wanted = Vec::new();
        for column in columns {
            let ReadColumn::Physical(i) = column else {
                return Err(Error::invalid("Connector 'datagen' has no metadata columns."));
            };
            let (field, generator) = self.fields.get(*i).ok_or_else(|| Error::internal("no such column"))?;
            wanted.push((*i as u64, field.clone(), generator.clone()));
        }
        let schema = Schema::new(wanted.iter().map(|(_, f, _)| f.clone()).collect());
        Ok(Box::new(DatagenReader::new(
            wanted,
            schema.to_arrow(),
            ctx.batch_rows.max(1),
            self.rows_per_second as f64 / self.splits as f64,
            self.rows,
            self.seed,
        )))
    }

    fn parallelism(&self) -> Option<usize> {
        self.parallelism
    }
}

struct DatagenEnumerator {
    splits: u64,
    given: bool,
}

#[async_trait]
impl SplitEnumerator for DatagenEnumerator {
    async fn discover(&mut self) -> Result<Vec<Split>> {
        let splits = if std::mem::replace(&mut self.given, true) { 0 } else { self.splits };
        let split = |index| Split {
            id: format!("datagen-{index}"),
            owner: index,
            state: serde_json::json!({ "index": index, "of": self.splits, "made": 0 }),
        };
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
        self.given = state.as_bool().ok_or_else(|| Error::job("The checkpoint of a datagen table is damaged."))?;
        Ok(())
    }
}
