//! Rewrites of the logical plan. None changes a row; together they give Flink's shapes: one Calc
//! between two other operators, sources that read only what is asked for, window functions melted
//! into the aggregate above them.

mod absorb;
mod fuse;
mod prune;

use super::rel::Rel;

pub use prune::prune;

/// All rewrites. The result has the same columns.
pub fn optimize(rel: Rel) -> Rel {
    let all: Vec<usize> = (0..rel.columns.len()).collect();
    let rel = fuse::fuse(prune(fuse::fuse(rel), &all));
    let rel = fuse::fuse(absorb::absorb(rel));
    fuse::fuse(prune(rel, &all))
}
