//! Rewrites of the logical plan. None changes a row; together they give Flink's shapes: one Calc
//! between two other operators, sources that read only what is asked for, window functions melted
//! into the aggregate above them.

mod absorb;
mod fuse;
mod prune;

use tidegate_api::error::Result;

use super::joins;
use super::rel::Rel;

pub use fuse::fuse;
pub use prune::prune;

/// All rewrites. The result has the same columns. Fails at a join that does not run; `zone` is the session's.
pub fn optimize(rel: Rel, zone: &str) -> Result<Rel> {
    let all: Vec<usize> = (0..rel.columns.len()).collect();
    let rel = joins::decide(fuse(rel), zone)?;
    let rel = fuse(prune(fuse(rel), &all));
    let rel = fuse(absorb::absorb(rel));
    Ok(fuse(prune(rel, &all)))
}
