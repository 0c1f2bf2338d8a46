//! What the operators below a source need to know of the watermark between two rows.
//!
//! Pure: a walk over the job graph. See `tidegate_time::Cutter` for what the rules are for.

use tidegate_api::expr::Expr;
use tidegate_api::graph::{JobGraph, OperatorSpec};
use tidegate_api::{Error, Result, Timestamp, WindowKind, WindowSpec};
use tidegate_time::{CutRule, SliceGrid};
use tidegate_window::CutGrid;

/// A rule as the graph states it; each source subtask makes its own [`CutRule`] of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlannedCut {
    /// Windows on this grid (sessions included).
    Window(WindowSpec),
    /// Some operator joins a row that comes behind the watermark with what it has not yet let go.
    Behind,
    /// Some operator looks at the watermark itself.
    Any,
}

impl PlannedCut {
    /// The rule for one source subtask.
    pub(crate) fn rule(&self) -> Result<CutRule> {
        match self {
            PlannedCut::Any => Ok(CutRule::Any),
            PlannedCut::Behind => Ok(CutRule::BehindWatermark),
            PlannedCut::Window(spec) if matches!(spec.kind, WindowKind::Session { .. }) => Ok(CutRule::BehindWatermark),
            PlannedCut::Window(spec) => {
                let windows = spec.assigner().map_err(Error::invalid)?;
                Ok(CutRule::Slices(Box::new(Grid(CutGrid::new(windows)))))
            }
        }
    }
}

struct Grid(CutGrid);

impl SliceGrid for Grid {
    fn must_cut(&mut self, timestamp: Timestamp, sent: Timestamp, watermark: Timestamp) -> bool {
        self.0.must_cut(timestamp, sent, watermark)
    }
}

/// The rules for the source at node `source`: those of every operator that its rows reach.
pub(crate) fn cut_rules(graph: &JobGraph, source: usize) -> Vec<PlannedCut> {
    let mut reached = vec![false; graph.nodes.len()];
    reached[source] = true;
    let mut rules: Vec<PlannedCut> = Vec::new();
    // Edges lead from lower to higher nodes, so one pass in node order reaches everything.
    for node in source + 1..graph.nodes.len() {
        reached[node] = graph.edges.iter().any(|edge| edge.to == node && reached[edge.from]);
        if !reached[node] {
            continue;
        }
        for rule in rules_of(&graph.nodes[node].spec) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

fn rules_of(spec: &OperatorSpec) -> Vec<PlannedCut> {
    let reads_watermark = |mut exprs: &mut dyn Iterator<Item = &Expr>| -> Vec<PlannedCut> {
        let reads = (&mut exprs).any(|expr| expr.calls("CURRENT_WATERMARK"));
        if reads { vec![PlannedCut::Any] } else { Vec::new() }
    };
    match spec {
        OperatorSpec::LocalWindowAggregate(aggregate)
        | OperatorSpec::GlobalWindowAggregate(aggregate)
        | OperatorSpec::WindowAggregate(aggregate) => vec![PlannedCut::Window(aggregate.window.clone())],
        // Without aggregation a window table function drops nothing, but sessions close.
        OperatorSpec::WindowTableFunction { window, .. } if matches!(window.kind, WindowKind::Session { .. }) => {
            vec![PlannedCut::Window(window.clone())]
        }
        OperatorSpec::Calc { filter, projection } => reads_watermark(&mut filter.iter().chain(projection)),
        OperatorSpec::Expand { projections } => reads_watermark(&mut projections.iter().flatten()),
        OperatorSpec::Unnest(unnest) => reads_watermark(&mut std::iter::once(&unnest.collection)),
        // A row ahead of the watermark meets every partner that comes in time, wherever the watermark stands.
        OperatorSpec::IntervalJoin(join) => {
            let mut rules = reads_watermark(&mut join.join.condition.iter());
            rules.push(PlannedCut::Behind);
            rules
        }
        OperatorSpec::WindowJoin(join) => {
            let mut rules = reads_watermark(&mut join.join.condition.iter());
            rules.push(PlannedCut::Window(join.window.clone()));
            rules
        }
        OperatorSpec::WindowTableFunction { .. }
        | OperatorSpec::Source(_)
        | OperatorSpec::Values { .. }
        | OperatorSpec::Union
        | OperatorSpec::GroupAggregate(_)
        | OperatorSpec::Sink(_) => Vec::new(),
    }
}
