//! Keyed state: how keys are spread over key groups. (Backends come with checkpoints.)
