//! Where the sources and the window operators of a job show event time, found by their place in the graph.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, Result, WindowKind, WindowSpec};

use crate::late::LateReporter;
use crate::source::SplitBoard;
use crate::window_board::{WindowBoard, WindowOperator};

/// A source of a job, as its handle sees it.
pub(crate) struct ShownSource {
    pub name: String,
    pub splits: Arc<SplitBoard>,
}

/// The boards of a job, by node.
pub(super) struct Boards {
    sources: HashMap<usize, Arc<SplitBoard>>,
    /// One per subtask.
    windows: HashMap<usize, Vec<Arc<WindowBoard>>>,
}

impl Boards {
    /// Boards for the nodes that have something to show.
    pub(super) fn new(graph: &JobGraph) -> Self {
        let mut boards = Boards { sources: HashMap::new(), windows: HashMap::new() };
        for (node, operator) in graph.nodes.iter().enumerate() {
            if matches!(operator.spec, OperatorSpec::Source(_)) {
                boards.sources.insert(node, Arc::default());
            }
            if window(&operator.spec).is_some() {
                let each = (0..operator.parallelism).map(|_| Arc::default());
                boards.windows.insert(node, each.collect());
            }
        }
        boards
    }

    /// The board of a source.
    pub(super) fn source(&self, node: usize) -> Arc<SplitBoard> {
        self.sources.get(&node).cloned().unwrap_or_default()
    }

    /// The board of a window operator's subtask; one that nobody sees for other operators.
    pub(super) fn window(&self, node: usize, subtask: usize) -> Arc<WindowBoard> {
        self.windows.get(&node).and_then(|boards| boards.get(subtask)).cloned().unwrap_or_default()
    }

    /// The sources, in the order of the graph.
    pub(super) fn sources(&self, graph: &JobGraph) -> Vec<ShownSource> {
        let nodes = graph.nodes.iter().enumerate();
        let shown = nodes.filter(|(_, operator)| matches!(operator.spec, OperatorSpec::Source(_)));
        shown.map(|(node, operator)| ShownSource { name: operator.name.clone(), splits: self.source(node) }).collect()
    }

    /// The operators that close windows, in the order of the graph. A first phase is shown with its second.
    pub(super) fn windows(
        &self,
        graph: &JobGraph,
        late: &HashMap<usize, Arc<LateReporter>>,
    ) -> Result<Vec<WindowOperator>> {
        let mut operators = Vec::new();
        for (node, operator) in graph.nodes.iter().enumerate() {
            let Some(spec) = window(&operator.spec) else { continue };
            if matches!(operator.spec, OperatorSpec::LocalWindowAggregate(_)) {
                continue;
            }
            let two_phases = matches!(operator.spec, OperatorSpec::GlobalWindowAggregate(_));
            let feeders = graph.edges.iter().filter(|edge| two_phases && edge.to == node);
            let first_phase = feeders.filter_map(|edge| self.windows.get(&edge.from)).flatten().cloned();
            operators.push(WindowOperator {
                name: operator.name.clone(),
                sources: sources_of(graph, node),
                windows: spec.assigner().map_err(Error::invalid)?,
                slices: two_phases,
                boards: self.windows.get(&node).cloned().unwrap_or_default(),
                first_phase: first_phase.collect(),
                late: late.get(&node).cloned().ok_or_else(|| Error::internal("a window without a reporter"))?,
            });
        }
        Ok(operators)
    }
}

/// The window of an operator that holds rows until the watermark closes it.
fn window(spec: &OperatorSpec) -> Option<&WindowSpec> {
    match spec {
        OperatorSpec::LocalWindowAggregate(a)
        | OperatorSpec::GlobalWindowAggregate(a)
        | OperatorSpec::WindowAggregate(a) => Some(&a.window),
        OperatorSpec::WindowTableFunction { window, .. } if matches!(window.kind, WindowKind::Session { .. }) => {
            Some(window)
        }
        _ => None,
    }
}

/// Names of the sources whose rows reach this node.
fn sources_of(graph: &JobGraph, node: usize) -> Vec<String> {
    let mut reaches = vec![false; graph.nodes.len()];
    reaches[node] = true;
    // Edges lead from lower to higher nodes, so one pass back reaches everything.
    for from in (0..node).rev() {
        reaches[from] = graph.edges.iter().any(|edge| edge.from == from && reaches[edge.to]);
    }
    let sources = graph.nodes.iter().zip(&reaches).filter(|(_, reached)| **reached);
    let sources = sources.filter(|(operator, _)| matches!(operator.spec, OperatorSpec::Source(_)));
    sources.map(|(operator, _)| operator.name.clone()).collect()
}
