//! State of operators, between their typed tables and the bytes that outlive them.

mod codec;
