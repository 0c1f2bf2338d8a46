//! Catches the rows that the script's `print` tables would write to standard output.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tidegate_api::text::parse_timestamp;
use tidegate_api::{Error, Result};
use tidegate_connectors::print::PrintOut;
use tokio::time::Instant;

/// A window as one of the queries counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// End of the window, in milliseconds since the epoch.
    pub end: i64,
    /// Its count.
    pub rows: u64,
    /// When the row came.
    pub at: Instant,
}

/// Windows by start, for each `print-identifier`.
pub type ByQuery = BTreeMap<String, BTreeMap<i64, Counted>>;

/// What has been printed so far.
#[derive(Default)]
pub struct Results {
    by_query: Mutex<ByQuery>,
}

impl Results {
    /// All windows so far.
    pub fn snapshot(&self) -> ByQuery {
        self.by_query.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl PrintOut for Results {
    async fn print(&self, lines: &str, _to_stderr: bool) -> Result<()> {
        let at = Instant::now();
        let mut by_query = self.by_query.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines.lines() {
            let (query, start, end, rows) =
                parse(line).ok_or_else(|| Error::internal(format!("a result of the demo that is none: {line}")))?;
            by_query.entry(query.to_owned()).or_default().insert(start, Counted { end, rows, at });
        }
        Ok(())
    }
}

/// `d0> +I[2026-10-01T10:00, 2026-10-01T10:00:05, 9]`: query, start, end, count.
fn parse(line: &str) -> Option<(&str, i64, i64, u64)> {
    let (query, row) = line.split_once("> +I[")?;
    let mut cells = row.strip_suffix(']')?.split(", ");
    let mut time = || milliseconds(cells.next()?);
    let (start, end) = (time()?, time()?);
    Some((query, start, end, cells.next()?.parse().ok()?))
}

/// `print` leaves out seconds that are zero.
fn milliseconds(text: &str) -> Option<i64> {
    let whole = if text.len() == "2026-10-01T10:00".len() { format!("{text}:00") } else { text.to_owned() };
    i64::try_from(parse_timestamp(&whole, 'T')?.div_euclid(1_000_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_rows_are_read_back() {
        let ten = 1_790_848_800_000;
        assert_eq!(parse("d0> +I[2026-10-01T10:00, 2026-10-01T10:00:05, 9]"), Some(("d0", ten, ten + 5_000, 9)));
        assert_eq!(parse("d10> +I[2026-10-01T10:00:55, 2026-10-01T10:01, 12]").map(|r| r.2), Some(ten + 60_000));
        for wrong in ["", "d0> +U[a, b, 1]", "d0> +I[2026-10-01T10:00, 2026-10-01T10:00:05]", "+I[x]"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
