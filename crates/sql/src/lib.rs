//! Flink SQL: parse, bind, plan into a job graph; and the functions it may call.

pub mod ast;
pub mod functions;
