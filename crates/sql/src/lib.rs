//! Flink SQL: parse, bind, plan into a job graph; and the functions it may call.

pub mod aggregates;
pub mod ast;
pub mod catalog;
pub mod functions;
pub mod lexer;
pub mod library;
pub mod parser;
pub mod plan;
pub mod script;
pub mod session;
