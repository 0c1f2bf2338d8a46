//! From a job graph to vertices: which operators share a task, and what flows between tasks.
//!
//! Pure. A `Forward` edge between operators of one parallelism, into an operator with no other input,
//! costs nothing if both run in one task: they are *chained*. A chain is a tree, for an operator may
//! feed several. `Union` is no operator at run time: its inputs are wired to its users, and the user's
//! watermark valve takes the minimum.

use tidegate_api::graph::{JobGraph, OperatorSpec, Partitioner};
use tidegate_api::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

/// The vertices of a job and the edges between them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecutionPlan {
    /// Sources first, in the order of their first operator.
    pub vertices: Vec<PlannedVertex>,
    /// Edges between tasks.
    pub edges: Vec<PlannedEdge>,
}

/// Operators that run in one task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedVertex {
    /// 32 hex digits, the same for the same script.
    pub id: String,
    /// Operator names joined by ` -> `, branches as `(a, b)`.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: usize,
    /// The chain, parents before children; the first is its head.
    pub links: Vec<PlannedLink>,
}

/// One operator of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedLink {
    /// Its node in the job graph.
    pub node: usize,
    /// The link that feeds it, if it is not the head.
    pub parent: Option<usize>,
    /// Distance from the head.
    pub depth: usize,
}

/// An edge between tasks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedEdge {
    /// Vertex and link that send.
    pub from: (usize, usize),
    /// Vertex that receives, at its head.
    pub to: usize,
    /// Input of the head.
    pub input: usize,
    /// How rows are spread.
    pub partitioner: Partitioner,
}

#[derive(Clone)]
struct Wire {
    from: usize,
    to: usize,
    input: usize,
    partitioner: Partitioner,
}

/// Chains the operators of a job.
pub(crate) fn plan(graph: &JobGraph) -> Result<ExecutionPlan> {
    check(graph)?;
    let wires = wires_without_unions(graph);
    let chained: Vec<bool> = wires.iter().map(|wire| is_chained(graph, &wires, wire)).collect();
    let fed_by_chain = |node: usize| wires.iter().zip(&chained).any(|(wire, chained)| *chained && wire.to == node);

    let mut vertices = Vec::new();
    let mut place = vec![None; graph.nodes.len()];
    for (node, operator) in graph.nodes.iter().enumerate() {
        if matches!(operator.spec, OperatorSpec::Union) || fed_by_chain(node) {
            continue;
        }
        let mut links = Vec::new();
        let children = |of: usize| -> Vec<usize> {
            let chained = wires.iter().zip(&chained).filter(|(wire, chained)| **chained && wire.from == of);
            chained.map(|(wire, _)| wire.to).collect()
        };
        let name = add_chain(graph, &children, node, None, 0, &mut links);
        for (position, link) in links.iter().enumerate() {
            place[link.node] = Some((vertices.len(), position));
        }
        let id = vertex_id(node, &name);
        vertices.push(PlannedVertex { id, name, parallelism: operator.parallelism, links });
    }

    let mut edges = Vec::new();
    for (wire, _) in wires.iter().zip(&chained).filter(|(_, chained)| !**chained) {
        let (Some(from), Some((to, 0))) = (place[wire.from], place[wire.to]) else {
            return Err(Error::internal(format!("edge {} -> {} has no place", wire.from, wire.to)));
        };
        edges.push(PlannedEdge { from, to, input: wire.input, partitioner: wire.partitioner.clone() });
    }
    Ok(ExecutionPlan { vertices, edges })
}

fn check(graph: &JobGraph) -> Result<()> {
    let nodes = graph.nodes.len();
    for edge in &graph.edges {
        if edge.from >= edge.to || edge.to >= nodes || edge.input > 1 {
            return Err(Error::internal(format!(
                "edge {} -> {} (input {}) of a job with {nodes} operators",
                edge.from, edge.to, edge.input
            )));
        }
    }
    for node in &graph.nodes {
        if node.parallelism == 0 || node.parallelism > tidegate_state::DEFAULT_MAX_PARALLELISM {
            return Err(Error::invalid(format!(
                "Operator {} has parallelism {}, but it must be between 1 and {}.",
                node.name,
                node.parallelism,
                tidegate_state::DEFAULT_MAX_PARALLELISM
            )));
        }
    }
    Ok(())
}

fn is_union(graph: &JobGraph, node: usize) -> bool {
    matches!(graph.nodes[node].spec, OperatorSpec::Union)
}

/// The edges with each union replaced by what flows into it.
fn wires_without_unions(graph: &JobGraph) -> Vec<Wire> {
    let mut wires = Vec::new();
    for edge in graph.edges.iter().filter(|edge| !is_union(graph, edge.to)) {
        let wire = Wire { from: edge.from, to: edge.to, input: edge.input, partitioner: edge.partitioner.clone() };
        resolve(graph, wire, &mut wires);
    }
    for wire in &mut wires {
        let unequal = graph.nodes[wire.from].parallelism != graph.nodes[wire.to].parallelism;
        if wire.partitioner == Partitioner::Forward && unequal {
            wire.partitioner = Partitioner::Rebalance;
        }
    }
    wires
}

fn resolve(graph: &JobGraph, wire: Wire, wires: &mut Vec<Wire>) {
    if !is_union(graph, wire.from) {
        wires.push(wire);
        return;
    }
    for edge in graph.edges.iter().filter(|edge| edge.to == wire.from) {
        let partitioner = match &wire.partitioner {
            Partitioner::Forward => edge.partitioner.clone(),
            other => other.clone(),
        };
        resolve(graph, Wire { from: edge.from, partitioner, ..wire.clone() }, wires);
    }
}

fn is_chained(graph: &JobGraph, wires: &[Wire], wire: &Wire) -> bool {
    wire.partitioner == Partitioner::Forward
        && graph.nodes[wire.from].parallelism == graph.nodes[wire.to].parallelism
        && wires.iter().filter(|other| other.to == wire.to).count() == 1
}

/// Adds `node` and what is chained below it; returns the chain's name.
fn add_chain(
    graph: &JobGraph,
    children: &dyn Fn(usize) -> Vec<usize>,
    node: usize,
    parent: Option<usize>,
    depth: usize,
    links: &mut Vec<PlannedLink>,
) -> String {
    let position = links.len();
    links.push(PlannedLink { node, parent, depth });
    let below: Vec<String> = children(node)
        .into_iter()
        .map(|child| add_chain(graph, children, child, Some(position), depth + 1, links))
        .collect();
    let name = &graph.nodes[node].name;
    match below.as_slice() {
        [] => name.clone(),
        [only] => format!("{name} -> {only}"),
        several => format!("{name} -> ({})", several.join(", ")),
    }
}

fn vertex_id(head: usize, name: &str) -> String {
    format!("{:032x}", xxh3_128(format!("{head}\n{name}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::graph::{Edge, OperatorNode};

    fn node(name: &str, union: bool, parallelism: usize) -> OperatorNode {
        let spec = match union {
            true => OperatorSpec::Union,
            false => OperatorSpec::Calc { filter: None, projection: Vec::new() },
        };
        OperatorNode { name: name.into(), description: String::new(), spec, output: Default::default(), parallelism }
    }

    fn edge(from: usize, to: usize, partitioner: Partitioner) -> Edge {
        Edge { from, to, input: 0, partitioner }
    }

    #[test]
    fn forward_edges_are_chained_and_branches_named() {
        let graph = JobGraph {
            nodes: vec![
                node("Source: s[1]", false, 2),
                node("Calc[2]", false, 2),
                node("Calc[3]", false, 2),
                node("Agg[4]", false, 2),
                node("out[5]: Writer", false, 2),
            ],
            edges: vec![
                edge(0, 1, Partitioner::Forward),
                edge(0, 2, Partitioner::Forward),
                edge(2, 3, Partitioner::Hash(vec![0])),
                edge(3, 4, Partitioner::Forward),
            ],
            ..Default::default()
        };
        let plan = plan(&graph).unwrap();
        let names: Vec<&str> = plan.vertices.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["Source: s[1] -> (Calc[2], Calc[3])", "Agg[4] -> out[5]: Writer"]);
        assert_eq!(plan.edges.len(), 1);
        assert_eq!((plan.edges[0].from, plan.edges[0].to), ((0, 2), 1));
        assert_eq!(plan.vertices[0].id.len(), 32);
        assert_ne!(plan.vertices[0].id, plan.vertices[1].id);
    }

    #[test]
    fn a_union_becomes_edges_into_its_user() {
        let graph = JobGraph {
            nodes: vec![
                node("a", false, 1),
                node("b", false, 2),
                node("u", true, 1),
                node("c", false, 1),
                node("d", false, 1),
            ],
            edges: vec![
                edge(0, 2, Partitioner::Forward),
                edge(1, 2, Partitioner::Forward),
                edge(2, 3, Partitioner::Forward),
                edge(3, 4, Partitioner::Forward),
            ],
            ..Default::default()
        };
        let plan = plan(&graph).unwrap();
        let names: Vec<&str> = plan.vertices.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c -> d"]);
        let partitioners: Vec<&Partitioner> = plan.edges.iter().map(|e| &e.partitioner).collect();
        assert_eq!(partitioners, [&Partitioner::Forward, &Partitioner::Rebalance]);
    }

    #[test]
    fn edges_backwards_are_refused() {
        let graph = JobGraph {
            nodes: vec![node("a", false, 1), node("b", false, 1)],
            edges: vec![edge(1, 0, Partitioner::Forward)],
            ..Default::default()
        };
        assert!(plan(&graph).is_err());
    }
}
