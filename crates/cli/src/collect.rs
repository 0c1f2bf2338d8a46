//! The sink of a top-level `SELECT`: rows as text, for whatever shows them.
//!
//! A SELECT runs like any other job; only its sink is special. It casts every value to text and hands the rows to
//! the [`Screen`] that the console shows SELECTs on when the job starts: Flink's tableau on standard output, or a
//! view of the interactive client.

use std::sync::Arc;

use arrow::array::{Array, StringArray};
use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, Sink, SinkMode, SinkWriter, TableDescriptor, WriterContext};
use tidegate_api::element::RowKind;
use tidegate_api::expr::{Expr, ExprNode};
use tidegate_api::function::{EvalContext, Evaluator, FunctionLibrary};
use tidegate_api::types::{LogicalType, Schema};
use tidegate_api::{Batch, Error, Result};

use crate::console::Console;
use crate::tableau::{Tableau, max_column_width};

/// A row of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it does to the result.
    pub kind: RowKind,
    /// Its values as text; NULL is `<NULL>`.
    pub cells: Vec<String>,
}

/// The columns of a result.
pub struct Columns {
    /// Their names.
    pub names: Vec<String>,
    /// Their types.
    pub types: Vec<LogicalType>,
    /// How wide a column of text may be.
    pub text_width: usize,
}

/// Shows the results of SELECTs.
pub trait Screen: Send + Sync {
    /// A SELECT starts, with these columns.
    fn open(&self, columns: Columns) -> Result<Box<dyn RowSink>>;
}

/// Takes the rows of one SELECT. Dropped before [`RowSink::finish`], the SELECT did not come to its end.
pub trait RowSink: Send {
    /// More rows.
    fn rows(&mut self, rows: Vec<Row>) -> Result<()>;

    /// That was all.
    fn finish(&mut self) -> Result<()>;
}

/// Makes the sinks of `SELECT`s.
pub struct CollectFactory {
    /// Casts values to text.
    pub functions: Arc<dyn FunctionLibrary>,
    /// Knows where SELECTs are shown.
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
        Ok(Arc::new(CollectSink {
            schema: table.physical.clone(),
            functions: self.functions.clone(),
            screen: self.console.screen(),
            text_width: max_column_width(config)?,
            zone: config.time_zone().to_owned(),
        }))
    }
}

struct CollectSink {
    schema: Schema,
    functions: Arc<dyn FunctionLibrary>,
    screen: Arc<dyn Screen>,
    text_width: usize,
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
        let casts = self.schema.fields.iter().enumerate().map(cast).collect::<Result<Vec<_>>>()?;
        let names: Vec<String> = self.schema.fields.iter().map(|f| f.name.clone()).collect();
        let types: Vec<LogicalType> = self.schema.fields.iter().map(|f| f.ty.clone()).collect();
        let rows = self.screen.open(Columns { names, types, text_width: self.text_width })?;
        Ok(Box::new(CollectWriter { casts, rows }))
    }
}

struct CollectWriter {
    casts: Vec<Box<dyn Evaluator>>,
    rows: Box<dyn RowSink>,
}

#[async_trait]
impl SinkWriter for CollectWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        // Casts to text depend on neither time nor watermark.
        let ctx = EvalContext { watermark: None, now_ms: 0 };
        let mut columns = Vec::with_capacity(self.casts.len());
        for cast in &mut self.casts {
            columns.push(cast.evaluate(&batch.columns, &ctx)?);
        }
        let columns: Vec<&StringArray> = columns
            .iter()
            .map(|c| c.as_any().downcast_ref().ok_or_else(|| Error::internal("a cast to STRING gave no string")))
            .collect::<Result<_>>()?;
        let cell = |c: &&StringArray, row| if c.is_null(row) { "<NULL>" } else { c.value(row) }.to_owned();
        let row = |i| Row { kind: batch.kind(i), cells: columns.iter().map(|c| cell(c, i)).collect() };
        self.rows.rows((0..batch.num_rows()).map(row).collect())
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self) -> Result<()> {
        self.rows.finish()
    }
}

/// Flink's tableau on standard output.
pub struct TableauScreen {
    /// Takes the text.
    pub console: Console,
    /// Tells the wall clock in milliseconds, if the result says how long it took.
    pub clock: Option<Arc<dyn Fn() -> i64 + Send + Sync>>,
}

impl Screen for TableauScreen {
    fn open(&self, columns: Columns) -> Result<Box<dyn RowSink>> {
        let (tableau, head) = Tableau::new(&columns.names, &columns.types, columns.text_width);
        self.console.out(&head)?;
        let started = self.clock.clone().map(|clock| (clock(), clock));
        Ok(Box::new(TableauRows { tableau, console: self.console.clone(), started, rows: 0, whole: false }))
    }
}

struct TableauRows {
    tableau: Tableau,
    console: Console,
    started: Option<(i64, Arc<dyn Fn() -> i64 + Send + Sync>)>,
    rows: usize,
    /// The input has ended, so the table is whole.
    whole: bool,
}

impl TableauRows {
    /// `12 rows (0.34 seconds)`.
    fn total(&self) -> String {
        let rows = if self.rows == 1 { "row" } else { "rows" };
        let time = self.started.as_ref().map(|(started, clock)| time_cost(clock() - started));
        format!("{} {rows}{}", self.rows, time.unwrap_or_default())
    }
}

/// ` (0.34 seconds)`, as Flink's client says how long a statement took.
pub fn time_cost(milliseconds: i64) -> String {
    format!(" ({:.2} seconds)", milliseconds as f64 / 1000.0)
}

impl RowSink for TableauRows {
    fn rows(&mut self, rows: Vec<Row>) -> Result<()> {
        let mut text = String::new();
        self.rows += rows.len();
        for row in rows {
            let mut cells = vec![row.kind.short().to_owned()];
            cells.extend(row.cells);
            text += &self.tableau.line(&cells);
            text.push('\n');
        }
        self.console.out(&text)
    }

    fn finish(&mut self) -> Result<()> {
        self.whole = true;
        self.console.out(&format!("{}\nReceived a total of {}\n", self.tableau.border(), self.total()))
    }
}

impl Drop for TableauRows {
    fn drop(&mut self) {
        if !self.whole {
            // Nobody may be there to read it.
            let _ = self.console.out(&format!("Query terminated, received a total of {}\n", self.total()));
        }
    }
}
