//! One-line notices to the user: what the engine wants to say while a job runs.

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Something is probably not as the user means it.
    Warning,
}

/// One line to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub severity: Severity,
    /// The job it is about, 32 hex digits.
    pub job: String,
    /// The line.
    pub text: String,
}

/// Takes notices. Called from the data plane, so it must not block for long.
pub trait Notices: Send + Sync {
    /// Takes one.
    fn notice(&self, notice: Notice);
}

impl<F: Fn(Notice) + Send + Sync> Notices for F {
    fn notice(&self, notice: Notice) {
        self(notice);
    }
}

/// Notices of one job.
#[derive(Clone)]
pub(crate) struct JobNotices {
    job: String,
    sink: std::sync::Arc<dyn Notices>,
}

impl JobNotices {
    pub(crate) fn new(job: String, sink: std::sync::Arc<dyn Notices>) -> Self {
        JobNotices { job, sink }
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.sink.notice(Notice { severity: Severity::Warning, job: self.job.clone(), text: text.into() });
    }
}
