//! tidegate-testing
