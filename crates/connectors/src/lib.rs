//! tidegate-connectors
