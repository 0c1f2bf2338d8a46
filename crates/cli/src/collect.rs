//! The sink of a top-level `SELECT`: rows on standard output as Flink's tableau.

use std::sync::Arc;

use arrow::array::{Array, StringArray};
use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, Sink, SinkMode, SinkWriter, TableDescriptor, WriterContext};
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::function::{EvalContext, Evaluator, FunctionLibrary};
use tidegate_api::types::{LogicalType, Schema};
use tidegate_api::{Batch, Error, Result};

use crate::console::Console;
use crate::tableau::Tableau;

/// Makes the sinks of `SELECT`s.
pub struct CollectFactory {
    /// Casts values to text.
    pub functions: Arc<dyn FunctionLibrary>,
    /// Takes the text.
    pub console: Console,
}

impl ConnectorFactory for CollectFactory {
    fn identifier(&self) -> &'static str {
        "collect"
    }

    fn is_public(&self) -> bool {
        false
    }

    fn sink(&self, table: &TableDescriptor, config: &Configuration) -> Result<Arc<dyn Sink>> {
        if table.identifier != self.identifier() {
            return Err(Error::invalid("Connector 'collect' is not for tables; SELECT uses it to show rows."));
        }
        let zone = config.time_zone().to_owned();
        Ok(Arc::new(CollectSink {
            schema: table.physical.clone(),
            functions: self.functions.clone(),
            console: self.console.clone(),
            zone,
        }))
    }
}

struct CollectSink {
    schema: Schema,
    functions: Arc<dyn FunctionLibrary>,
    console: Console,
    zone: String,
}

impl Sink for CollectSink {
    fn mode(&self) -> SinkMode {
        SinkMode::Changelog
    }

    fn parallelism(&self) -> Option<usize> {
        Some(1)
    }

    fn writer(&self, _ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        let cast = |(i, field): (usize, &tidegate_api::Field)| {
            let node = ExprNode::Cast { input: Box::new(Expr::input(i, field.ty.clone())), lenient: false };
            let expr = if matches!(field.ty.kind, tidegate_api::TypeKind::Varchar(_)) {
                Expr::input(i, field.ty.clone())
            } else {
                Expr { ty: LogicalType::string(), node }
            };
            self.functions.compile(&expr, &self.schema, &self.zone)
        };
        let columns = self.schema.fields.iter().enumerate().map(cast).collect::<Result<Vec<_>>>()?;
        let names: Vec<String> = self.schema.fields.iter().map(|f| f.name.clone()).collect();
        let types: Vec<LogicalType> = self.schema.fields.iter().map(|f| f.ty.clone()).collect();
        let (tableau, head) = Tableau::new(&names, &types);
        self.console.out(&head)?;
        Ok(Box::new(CollectWriter { columns, tableau, console: self.console.clone(), rows: 0, whole: false }))
    }
}

struct CollectWriter {
    columns: Vec<Box<dyn Evaluator>>,
    tableau: Tableau,
    console: Console,
    rows: usize,
    /// The input has ended, so the table is whole.
    whole: bool,
}

impl CollectWriter {
    fn rows_text(&self) -> String {
        format!("{} {}", self.rows, if self.rows == 1 { "row" } else { "rows" })
    }
}

impl Drop for CollectWriter {
    fn drop(&mut self) {
        if !self.whole {
            // Nobody may be there to read it.
            let _ = self.console.out(&format!("Query terminated, received a total of {}\n", self.rows_text()));
        }
    }
}

#[async_trait]
impl SinkWriter for CollectWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        // Casts to text depend on neither time nor watermark.
        let ctx = EvalContext { watermark: None, now_ms: 0 };
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            columns.push(column.evaluate(&batch.columns, &ctx)?);
        }
        let columns: Vec<&StringArray> = columns
            .iter()
            .map(|c| c.as_any().downcast_ref().ok_or_else(|| Error::internal("a cast to STRING gave no string")))
            .collect::<Result<_>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            let mut cells = vec![batch.kind(row).short().to_owned()];
            cells.extend(columns.iter().map(|c| if c.is_null(row) { "<NULL>" } else { c.value(row) }.to_owned()));
            text += &self.tableau.line(&cells);
            text.push('\n');
        }
        self.rows += batch.num_rows();
        self.console.out(&text)
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        self.whole = true;
        self.console.out(&format!("{}\nReceived a total of {}\n", self.tableau.border(), self.rows_text()))
    }
}
