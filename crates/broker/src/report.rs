//! Who is told of trouble that no client can be told of.

use std::fmt;
use std::sync::Arc;

/// Takes lines on trouble: a disk that fails, a client that sends no requests. The default writes them to
/// standard error.
#[derive(Clone)]
pub struct Report(Arc<dyn Fn(&str) + Send + Sync>);

impl Report {
    /// Passes the lines on.
    pub fn to(listener: impl Fn(&str) + Send + Sync + 'static) -> Report {
        Report(Arc::new(listener))
    }

    /// Drops the lines.
    pub fn silent() -> Report {
        Report::to(|_| ())
    }

    /// Tells one line.
    pub(crate) fn trouble(&self, line: &str) {
        (self.0)(line);
    }
}

impl Default for Report {
    fn default() -> Report {
        Report::to(|line| eprintln!("broker: {line}"))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}
