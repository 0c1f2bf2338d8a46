//! How the memory for state is divided among the subtasks of an attempt.

use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_checkpoint::options::{Backend, CheckpointOptions};
use tidegate_state::{Compression, StoreOptions};

use crate::plan::ExecutionPlan;

/// Memory for pages of indexes and filters, if state stays in memory: they are read at a restore only.
const PAGE_CACHE_BYTES: usize = 32 << 20;
/// What a subtask's tables and batches may take however small the budget is.
const LEAST_BYTES: usize = 1 << 20;

/// Memory in bytes for the state of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateMemory {
    /// For pages of indexes and filters, of all stores.
    pub page_cache: usize,
    /// For each subtask that keeps state, if state may leave memory.
    pub share: Option<Share>,
}

/// A subtask's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Of its tables.
    pub tables: usize,
    /// Of batches on their way to a file: a file is written when they take half of it.
    pub batches: usize,
}

impl StateMemory {
    /// Divides `taskmanager.memory.managed.size`: an eighth for pages, the rest among the subtasks that keep
    /// state. Of that, three eighths are for tables, whose rebuilding takes half as much again, a quarter for
    /// batches, and the rest for what goes through merges and lookups.
    pub(crate) fn new(options: &CheckpointOptions, graph: &JobGraph, plan: &ExecutionPlan) -> StateMemory {
        if options.backend == Backend::HashMap {
            return StateMemory { page_cache: PAGE_CACHE_BYTES, share: None };
        }
        let nodes = plan.vertices.iter().flat_map(|v| v.links.iter().map(move |link| (link.node, v.parallelism)));
        let stateful = nodes.filter(|(node, _)| keeps_state(&graph.nodes[*node].spec));
        let subtasks: usize = stateful.map(|(_, parallelism)| parallelism).sum();
        let whole = options.managed_bytes as usize;
        let part = (whole - whole / 8) / subtasks.max(1);
        let share = Share { tables: (part / 8 * 3).max(LEAST_BYTES), batches: (part / 4).max(LEAST_BYTES) };
        StateMemory { page_cache: whole / 8, share: Some(share) }
    }

    /// How the stores of a subtask work.
    pub(crate) fn store_options(&self, file_prefix: String) -> StoreOptions {
        let mut options = StoreOptions { file_prefix, ..StoreOptions::default() };
        if let Some(Share { batches, .. }) = self.share {
            options.flush_bytes = options.flush_bytes.min(batches / 2);
            options.sealed_limit_bytes = options.sealed_limit_bytes.min(batches);
            // Compressing and back is more than a quarter of the work of state that comes and goes.
            options.compression = Compression::None;
            // What is read as it is pays for smaller blocks: a lookup costs a seventh less, and the index is half as
            // large again.
            options.block_bytes = 2048;
        }
        options
    }
}

fn keeps_state(spec: &OperatorSpec) -> bool {
    match spec {
        OperatorSpec::GlobalWindowAggregate(_)
        | OperatorSpec::WindowAggregate(_)
        | OperatorSpec::GroupAggregate(_)
        | OperatorSpec::IntervalJoin(_)
        | OperatorSpec::WindowJoin(_) => true,
        OperatorSpec::WindowTableFunction { window, .. } => {
            matches!(window.kind, tidegate_api::WindowKind::Session { .. })
        }
        OperatorSpec::LocalWindowAggregate(_)
        | OperatorSpec::Unnest(_)
        | OperatorSpec::Source(_)
        | OperatorSpec::Values { .. }
        | OperatorSpec::Calc { .. }
        | OperatorSpec::Union
        | OperatorSpec::Expand { .. }
        | OperatorSpec::Sink(_) => false,
    }
}
