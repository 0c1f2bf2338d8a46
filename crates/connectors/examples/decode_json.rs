//! CPU seconds to decode click rows from memory, as the filesystem source does it.
//!
//! `cargo run --release -p tidegate-connectors --example decode_json [rows]`

use std::collections::BTreeMap;
use std::fs;

use tidegate_api::{Field, LogicalType, Schema, TypeKind};
use tidegate_connectors::format::{Chunk, DecodeMetrics, decoding_format};
use tidegate_connectors::option::OptionReader;

/// CPU time of this thread so far.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn clicks(rows: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows * 80);
    for i in 0..rows {
        let (user, second) = (i * 7919 % 1000, i / 100 % 86_400);
        let (hour, minute, second, ms) = (second / 3600, second / 60 % 60, second % 60, i % 1000);
        let price = (i % 10_000) as f64 / 100.0;
        out.extend_from_slice(
            format!(
                "{{\"user_id\":\"u{user}\",\"ts\":\"2026-10-01 {hour:02}:{minute:02}:{second:02}.{ms:03}\",\
                 \"seq\":{i},\"price\":{price:.2}}}\n"
            )
            .as_bytes(),
        );
    }
    out
}

fn main() -> tidegate_api::Result<()> {
    let rows: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(5_000_000);
    let text = clicks(rows);
    let column = |name: &str, kind| Field::new(name, LogicalType::new(kind));
    let schema = Schema::new(vec![
        Field::new("user_id", LogicalType::string()),
        column("ts", TypeKind::Timestamp(3)),
        column("seq", TypeKind::BigInt),
        column("price", TypeKind::Double),
    ]);
    let options = BTreeMap::from([("format".to_owned(), "json".to_owned())]);
    let format = decoding_format(&mut OptionReader::of("bench", &options), "format")?;
    for round in 0..3 {
        let mut decoder = format.decoder(&schema, &[0, 1, 3], DecodeMetrics::default())?;
        let (start, mut at, mut line, mut decoded) = (cpu_seconds(), 0, 1, 0);
        while at < text.len() {
            let mut positions = Vec::with_capacity(8192);
            let mut chunk = Chunk {
                bytes: &text[at..text.len().min(at + (1 << 20))],
                at_end: at + (1 << 20) >= text.len(),
                max_rows: 8192,
                line,
                consumed: 0,
                positions: &mut positions,
            };
            decoder.decode_chunk(&mut chunk).map_err(|e| tidegate_api::Error::job(e.error.message))?;
            (line, at) = (chunk.line, at + chunk.consumed);
            decoded += decoder.rows();
            decoder.finish()?;
        }
        println!("round {round}: {decoded} rows, {} MB, {:.3} CPU s", text.len() / 1_000_000, cpu_seconds() - start);
    }
    Ok(())
}
