//! Keyed state: how keys are spread over key groups. (Backends come with checkpoints.)

mod key_group;

pub use key_group::{DEFAULT_MAX_PARALLELISM, KeyBytes, key_group, operator_index};
