//! Errors a user reads: what happened, where, and what to do.

use std::fmt;

/// Shorthand for results with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault it is, and so what a caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The script or the arguments are wrong; exit code 2.
    Invalid,
    /// The script is right but Tidegate cannot run this construct; exit code 2.
    Unsupported,
    /// The job failed while it ran (bad data, a lost broker, a full disk); exit code 1.
    Job,
    /// The job was cancelled.
    Cancelled,
    /// Nobody reads standard output any more; exit code 1 and nothing to say.
    OutputClosed,
    /// A bug in Tidegate.
    Internal,
}

/// An error with its kind, message and causes.
#[derive(Clone, Debug)]
pub struct Error {
    /// Whose fault.
    pub kind: ErrorKind,
    /// What happened and what to do, in one or a few sentences.
    pub message: String,
    /// From the outside in: the places the error passed through, such as a vertex name.
    pub context: Vec<String>,
}

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), context: Vec::new() }
    }

    /// The script or an option is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, message)
    }

    /// A construct Tidegate does not run.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// The job failed at run time.
    pub fn job(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Job, message)
    }

    /// The job was cancelled.
    pub fn cancelled() -> Self {
        Error::new(ErrorKind::Cancelled, "the job was cancelled")
    }

    /// The reader of standard output went away.
    pub fn output_closed() -> Self {
        Error::new(ErrorKind::OutputClosed, "standard output was closed by its reader")
    }

    /// Something that cannot happen did.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    /// Adds where it happened; the last added comes first in the text.
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.context.push(place.into());
        self
    }

    /// The process exit code for this error: 2 for a wrong script or arguments, else 1.
    pub fn exit_code(&self) -> i32 {
        match self.kind {
            ErrorKind::Invalid | ErrorKind::Unsupported => 2,
            ErrorKind::Job | ErrorKind::Cancelled | ErrorKind::OutputClosed | ErrorKind::Internal => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.context.iter().rev() {
            write!(f, "{place}: ")?;
        }
        if self.kind == ErrorKind::Internal {
            f.write_str("internal error (please report it): ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(e: arrow::error::ArrowError) -> Self {
        Error::internal(e.to_string())
    }
}
