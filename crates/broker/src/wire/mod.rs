//! The protocol's outside: frames on a connection, which requests are served in which versions, and the
//! way from bytes to a handler and back.
//!
//! The invariant: bytes of a stranger are walked by [`shape`] before anything is allocated by a length
//! or a count they name. What does not have the shape of a served request closes its connection, as in
//! Kafka; every other connection and the data stay as they were.

pub(crate) mod apis;
pub(crate) mod connection;
mod frame;
mod shape;
mod shapes;

/// Why a connection was closed from this side.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("a frame of {0} bytes: at least 8 and at most {max} are possible", max = frame::FRAME_BYTES_MAX)]
    FrameSize(i32),
    #[error("request kind {0} is not served by this broker")]
    UnknownApi(i16),
    #[error("{api} is served in versions {low} to {high}, not {version}")]
    Version { api: &'static str, version: i16, low: i16, high: i16 },
    #[error("{api} version {version} is malformed: {reason}")]
    Malformed { api: &'static str, version: i16, reason: String },
    #[error("the answer to {api} version {version} cannot be written: {reason}")]
    Answer { api: &'static str, version: i16, reason: String },
    #[error("Produce without acknowledgement has failed: {0}")]
    Unacknowledged(kafka_protocol::ResponseError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
