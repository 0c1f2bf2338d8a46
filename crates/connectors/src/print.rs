//! `print`: rows as lines on standard output (or standard error), exactly as Flink prints them.
//!
//! `[identifier[:subtask]> ]+I[a, 1]`; the subtask counts from 1 and stands there only when there is more than one.

use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, Sink, SinkMode, SinkWriter, TableDescriptor, WriterContext};
use tidegate_api::{Batch, Error, Result, Schema};

use crate::option::OptionReader;
use crate::row_text::format_rows;

/// Bytes after which a batch's text is written though the batch goes on.
const WRITE_BYTES: usize = 256 * 1024;

/// Takes what `print` would write to the standard streams, where the terminal is shared with somebody.
#[async_trait]
pub trait PrintOut: Send + Sync {
    /// Takes whole lines for standard output, or for standard error; waits until there is room for them.
    async fn print(&self, lines: &str, to_stderr: bool) -> Result<()>;
}

/// The factory of `'connector' = 'print'`.
#[derive(Default)]
pub struct PrintFactory {
    /// Takes the rows instead of the standard streams.
    pub out: Option<Arc<dyn PrintOut>>,
}

impl ConnectorFactory for PrintFactory {
    fn identifier(&self) -> &'static str {
        "print"
    }

    fn sink(&self, table: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Sink>> {
        let mut options = OptionReader::new(self.identifier(), table);
        let sink = PrintSink {
            schema: sink_schema(table),
            identifier: options.text("print-identifier").unwrap_or_default().to_owned(),
            to_stderr: options.bool("standard-error", false)?,
            parallelism: options.positive("sink.parallelism")?,
            out: self.out.clone(),
        };
        options.finish()?;
        Ok(Arc::new(sink))
    }
}

/// The columns a sink gets: the physical ones, then the metadata columns that are not `VIRTUAL`.
pub(crate) fn sink_schema(table: &TableDescriptor) -> Schema {
    let mut schema = table.physical.clone();
    let persisted = table.metadata.iter().filter(|m| !m.is_virtual);
    schema.fields.extend(persisted.map(|m| tidegate_api::Field::new(&m.name, m.ty.clone())));
    schema
}

struct PrintSink {
    schema: Schema,
    identifier: String,
    to_stderr: bool,
    parallelism: Option<usize>,
    out: Option<Arc<dyn PrintOut>>,
}

impl Sink for PrintSink {
    fn mode(&self) -> SinkMode {
        SinkMode::Changelog
    }

    fn writer(&self, ctx: WriterContext) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(PrintWriter {
            schema: self.schema.clone(),
            prefix: prefix(&self.identifier, ctx.subtask, ctx.parallelism),
            to_stderr: self.to_stderr,
            out: self.out.clone(),
            buffer: String::new(),
        }))
    }

    fn parallelism(&self) -> Option<usize> {
        self.parallelism
    }
}

fn prefix(identifier: &str, subtask: usize, parallelism: usize) -> String {
    match (identifier, parallelism > 1) {
        ("", false) => String::new(),
        ("", true) => format!("{}> ", subtask + 1),
        (_, false) => format!("{identifier}> "),
        (_, true) => format!("{identifier}:{}> ", subtask + 1),
    }
}

struct PrintWriter {
    schema: Schema,
    prefix: String,
    to_stderr: bool,
    out: Option<Arc<dyn PrintOut>>,
    buffer: String,
}

impl PrintWriter {
    /// Writes whole lines under the stream's lock, so that subtasks do not mix within a line.
    async fn write_out(&mut self) -> Result<()> {
        if let Some(out) = &self.out {
            let printed = out.print(&self.buffer, self.to_stderr).await;
            self.buffer.clear();
            return printed;
        }
        let written = if self.to_stderr {
            io::stderr().lock().write_all(self.buffer.as_bytes())
        } else {
            let mut out = io::stdout().lock();
            out.write_all(self.buffer.as_bytes()).and_then(|()| out.flush())
        };
        self.buffer.clear();
        let stream = if self.to_stderr { "standard error" } else { "standard output" };
        written.map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => Error::output_closed(),
            _ => Error::job(format!("Cannot write to {stream}: {e}.")),
        })
    }
}

#[async_trait]
impl SinkWriter for PrintWriter {
    async fn write(&mut self, batch: Batch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            // Rows whose text fits the buffer, guessed by their number: text is written out between slices.
            let end = batch.num_rows().min(start + 1024);
            let (buffer, prefix) = (&mut self.buffer, &self.prefix);
            format_rows(&batch, &self.schema, start..end, |_, line| {
                buffer.push_str(prefix);
                buffer.push_str(line);
                buffer.push('\n');
            })?;
            if self.buffer.len() >= WRITE_BYTES {
                self.write_out().await?;
            }
            start = end;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.write_out().await }
    }

    async fn finish(&mut self) -> Result<()> {
        self.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_follow_flink() {
        assert_eq!(prefix("", 0, 1), "");
        assert_eq!(prefix("", 1, 4), "2> ");
        assert_eq!(prefix("id", 0, 1), "id> ");
        assert_eq!(prefix("id", 1, 4), "id:2> ");
    }
}
