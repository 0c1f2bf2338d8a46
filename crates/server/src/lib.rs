//! tidegate-server
