//! Names that operators keep when the script around them changes.
//!
//! | operator | name |
//! |---|---|
//! | source | `source(<table>)` |
//! | sink | `sink(<table>)` |
//! | anything between | `<kind>(<tables of the sinks it feeds>)` |
//!
//! Operators of one name are numbered from the second on (`#2`), counted from the sinks upwards. So a
//! new input, filter or column changes no name; a table read twice is told apart; and an operator whose
//! computation changes keeps its name, so that [`crate::mapping`] finds the old state and says what does
//! not fit instead of leaving it behind.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_api::graph::{JobGraph, OperatorSpec};

use crate::ids::OperatorId;

/// The stable id of every node of a graph, by position. All are different.
pub fn operator_ids(graph: &JobGraph) -> Vec<OperatorId> {
    let sinks = sinks_fed(graph);
    let distance = distance_to_sink(graph);
    // From the sinks upwards; nodes at one distance in the order of the plan.
    let mut order: Vec<usize> = (0..graph.nodes.len()).collect();
    order.sort_by_key(|node| (distance[*node], *node));
    let mut taken: BTreeMap<String, u32> = BTreeMap::new();
    let mut ids = vec![OperatorId::new(""); graph.nodes.len()];
    for node in order {
        let name = match &graph.nodes[node].spec {
            OperatorSpec::Source(source) => format!("source({})", source.table.identifier),
            OperatorSpec::Sink(sink) => format!("sink({})", sink.table.identifier),
            spec => {
                let fed: Vec<&str> = sinks[node].iter().copied().collect();
                format!("{}({})", kind(spec), fed.join(","))
            }
        };
        let count = taken.entry(name.clone()).or_default();
        *count += 1;
        ids[node] = OperatorId(if *count == 1 { name } else { format!("{name}#{count}") });
    }
    ids
}

/// The tables of the sinks that each node's rows end in.
fn sinks_fed(graph: &JobGraph) -> Vec<BTreeSet<&str>> {
    let mut fed: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); graph.nodes.len()];
    // Inputs stand before users, so one pass from the end sees every user first.
    for node in (0..graph.nodes.len()).rev() {
        if let OperatorSpec::Sink(sink) = &graph.nodes[node].spec {
            fed[node].insert(&sink.table.identifier);
        }
        for edge in graph.edges.iter().filter(|edge| edge.to == node && edge.from < node) {
            let further = fed[node].clone();
            fed[edge.from].extend(further);
        }
    }
    fed
}

/// Stateful operators between a node and the nearest sink: those without state come and go with the
/// planner's mood.
fn distance_to_sink(graph: &JobGraph) -> Vec<usize> {
    let mut distance = vec![usize::MAX; graph.nodes.len()];
    for node in (0..graph.nodes.len()).rev() {
        if distance[node] == usize::MAX {
            distance[node] = 0;
        }
        let step = usize::from(keeps_state(&graph.nodes[node].spec));
        for edge in graph.edges.iter().filter(|edge| edge.to == node && edge.from < node) {
            distance[edge.from] = distance[edge.from].min(distance[node] + step);
        }
    }
    distance
}

fn keeps_state(spec: &OperatorSpec) -> bool {
    !matches!(
        spec,
        OperatorSpec::Calc { .. } | OperatorSpec::Union | OperatorSpec::Expand { .. } | OperatorSpec::Unnest(_)
    )
}

/// The same, as they are called in ids.
const STATELESS: [&str; 4] = ["calc", "union", "expand", "unnest"];

/// True for the id of an operator of a kind that keeps nothing: what becomes of it matters to nobody.
pub fn is_stateless(id: &OperatorId) -> bool {
    id.0.split_once('(').is_some_and(|(kind, _)| STATELESS.contains(&kind))
}

/// The kind of an operator as its specification is called, in the form graphs are written in.
fn kind(spec: &OperatorSpec) -> String {
    // A unit variant is written as a string, the others as an object of one key.
    match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
        Ok(serde_json::Value::String(name)) => name,
        _ => "operator".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_api::connector::TableDescriptor;
    use tidegate_api::graph::{Edge, GroupAggregateSpec, OperatorNode, Partitioner, SinkSpec, SourceSpec};
    use tidegate_api::types::Schema;

    use super::*;

    fn table(name: &str) -> TableDescriptor {
        TableDescriptor { identifier: name.to_owned(), ..TableDescriptor::default() }
    }

    fn spec(text: &str) -> OperatorSpec {
        match text.split_once(' ') {
            Some(("from", name)) => OperatorSpec::Source(SourceSpec {
                table: table(name),
                read: Vec::new(),
                read_schema: Schema::default(),
                projection: Vec::new(),
                watermark: None,
            }),
            Some(("into", name)) => {
                OperatorSpec::Sink(SinkSpec { table: table(name), drop_nulls: false, rowtime: None })
            }
            _ if text == "union" => OperatorSpec::Union,
            _ if text == "calc" => OperatorSpec::Calc { filter: None, projection: Vec::new() },
            _ => OperatorSpec::GroupAggregate(GroupAggregateSpec {
                keys: Vec::new(),
                aggregates: Vec::new(),
                updating_input: false,
                emit_update_before: false,
            }),
        }
    }

    fn ids(nodes: &[&str], edges: &[(usize, usize)]) -> Vec<String> {
        let node = |text: &&str| OperatorNode {
            name: (*text).to_owned(),
            description: String::new(),
            spec: spec(text),
            output: Schema::default(),
            parallelism: 1,
        };
        let edge =
            |(from, to): &(usize, usize)| Edge { from: *from, to: *to, input: 0, partitioner: Partitioner::Forward };
        let graph = JobGraph {
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            ..JobGraph::default()
        };
        operator_ids(&graph).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn an_input_or_filter_more_changes_no_name() {
        let before = ids(&["from b", "group", "into a"], &[(0, 1), (1, 2)]);
        assert_eq!(before, ["source(b)", "group_aggregate(a)", "sink(a)"]);
        let after = ids(
            &["from c", "calc", "from b", "union", "group", "calc", "into a"],
            &[(0, 1), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6)],
        );
        assert_eq!(
            after,
            ["source(c)", "calc(a)#2", "source(b)", "union(a)", "group_aggregate(a)", "calc(a)", "sink(a)"]
        );
    }

    #[test]
    fn who_keeps_nothing_is_known_by_the_id() {
        for text in ["union", "calc", "group", "from b", "into a"] {
            let spec = spec(text);
            let id = OperatorId(format!("{}(a)#2", kind(&spec)));
            assert_eq!(is_stateless(&id), !keeps_state(&spec), "{id}");
        }
    }

    #[test]
    fn operators_of_one_kind_are_told_apart_from_the_sink_upwards() {
        let one = ids(&["from b", "group", "into a"], &[(0, 1), (1, 2)]);
        let two = ids(&["from b", "group", "calc", "group", "into a"], &[(0, 1), (1, 2), (2, 3), (3, 4)]);
        assert_eq!(two[3], one[1], "the aggregate next to the sink keeps its name");
        assert_eq!(two[1], "group_aggregate(a)#2");
        let twice = ids(&["from b", "from b", "union", "into a", "into c"], &[(0, 2), (1, 2), (2, 3), (2, 4)]);
        assert_eq!(twice, ["source(b)", "source(b)#2", "union(a,c)", "sink(a)", "sink(c)"]);
    }
}
