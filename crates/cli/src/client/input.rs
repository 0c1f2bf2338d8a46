//! Statements as they come: typed lines, collected until they end with `;`.

use std::io::{self, BufRead};

use tidegate_api::{Error, Result};
use tidegate_sql::script::{ScriptStatement, is_finished, split_script};
use tokio::sync::mpsc;

use crate::script::without_mark;

/// Lines read ahead of the statement that runs.
const LINES_AHEAD: usize = 64;

/// Lines of a text, put together to statements that know their place in it.
#[derive(Default)]
pub struct Collected {
    text: String,
    /// Lines before `text`.
    lines_before: u32,
}

impl Collected {
    /// Adds a line with its end; gives the statements that are finished now, if any is.
    pub fn add(&mut self, line: &str) -> Result<Vec<ScriptStatement>> {
        self.text += if self.lines_before == 0 && self.text.is_empty() { without_mark(line) } else { line };
        match is_finished(&self.text) || is_bare_command(&self.text) {
            true => self.take(),
            false => Ok(Vec::new()),
        }
    }

    /// The statements that were begun, the last perhaps without `;`.
    pub fn take(&mut self) -> Result<Vec<ScriptStatement>> {
        let text = std::mem::take(&mut self.text);
        // Places count from the start of the whole text.
        let above = "\n".repeat(self.lines_before as usize);
        self.lines_before += text.matches('\n').count() as u32;
        split_script(&format!("{above}{text}"))
    }

    /// Whether a statement has been begun.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Whether the text is a client's command, which needs no `;`.
pub fn is_bare_command(text: &str) -> bool {
    ["quit", "exit", "help", "clear"].iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// Reads statements from standard input on a thread of its own, so that waiting for the next can be interrupted.
pub struct StatementReader {
    lines: mpsc::Receiver<io::Result<String>>,
    collected: Collected,
    ended: bool,
}

impl StatementReader {
    /// Starts to read; call it inside a runtime.
    pub fn stdin() -> StatementReader {
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        tokio::task::spawn_blocking(move || {
            let mut input = io::stdin().lock();
            loop {
                let mut line = String::new();
                let read = match input.read_line(&mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(line),
                    Err(e) => Err(e),
                };
                let failed = read.is_err();
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        });
        StatementReader { lines, collected: Collected::default(), ended: false }
    }

    /// The next statements; `None` at the end of the input. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Vec<ScriptStatement>>> {
        while !self.ended {
            match self.lines.recv().await {
                Some(Ok(line)) => {
                    let statements = self.collected.add(&line)?;
                    if !statements.is_empty() {
                        return Ok(Some(statements));
                    }
                }
                Some(Err(e)) if e.kind() == io::ErrorKind::InvalidData => {
                    return Err(Error::invalid("Cannot read standard input: it is not UTF-8 text."));
                }
                Some(Err(e)) => return Err(Error::job(format!("Cannot read standard input: {e}."))),
                None => {
                    self.ended = true;
                    return self.collected.take().map(Some);
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_statements_with_their_place() {
        let mut collected = Collected::default();
        assert!(collected.add("\u{feff}SELECT\n").unwrap().is_empty());
        assert!(!collected.is_empty());
        let statements = collected.add(" 1; SHOW TABLES;\n").unwrap();
        assert_eq!(statements.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(), ["SELECT\n 1", "SHOW TABLES"]);
        assert_eq!((statements[1].line, statements[1].column), (2, 5));
        let statements = collected.add("  QUIT\n").unwrap();
        assert_eq!((statements[0].line, statements[0].column), (3, 3));
        assert!(collected.add("SELECT 2\n").unwrap().is_empty());
        assert_eq!(collected.take().unwrap()[0].text, "SELECT 2");
    }
}
