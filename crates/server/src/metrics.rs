//! Metrics as Flink's REST shows them: names with the subtask in front, or aggregated over subtasks.

use axum::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_runtime::view::{SubtaskView, VertexView};

/// `?get=a,b&agg=min,max&subtasks=0-3,5`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Selection {
    get: Option<String>,
    agg: Option<String>,
    subtasks: Option<String>,
}

impl Selection {
    fn wants(&self, name: &str) -> bool {
        self.get.as_ref().is_some_and(|get| get.split(',').any(|w| w == name))
    }
}

/// An operator's name inside a metric id: `Source: clicks[1]` is `Source__clicks[1]`.
pub(crate) fn scope_name(operator: &str) -> String {
    operator.chars().map(|c| if c == ':' || c == ' ' || c == '.' { '_' } else { c }).collect()
}

/// All metrics of a subtask, with the operator's name before each operator metric.
pub(crate) fn subtask_metrics(subtask: &SubtaskView) -> Vec<(String, i64)> {
    let own = subtask.task_metrics.iter().cloned();
    let operators = subtask.operators.iter().flat_map(|(operator, metrics)| {
        let scope = scope_name(operator);
        metrics.iter().map(move |(name, value)| (format!("{scope}.{name}"), *value))
    });
    own.chain(operators).collect()
}

/// `[{id}]`, or `[{id, value}]` of those asked for. Values are strings, as in Flink.
pub(crate) fn listed(metrics: Vec<(String, i64)>, selection: &Selection) -> Json<Value> {
    let entries = if selection.get.is_none() {
        metrics.into_iter().map(|(id, _)| json!({ "id": id })).collect()
    } else {
        let chosen = metrics.into_iter().filter(|(id, _)| selection.wants(id));
        chosen.map(|(id, value)| json!({ "id": id, "value": value.to_string() })).collect()
    };
    Json(Value::Array(entries))
}

/// `/vertices/:vid/metrics`: every subtask's metrics, `<subtask>.<metric>`.
pub(crate) fn of_vertex(vertex: &VertexView, selection: &Selection) -> Json<Value> {
    let all = vertex.subtasks.iter().enumerate().flat_map(|(i, subtask)| {
        subtask_metrics(subtask).into_iter().map(move |(name, value)| (format!("{i}.{name}"), value))
    });
    listed(all.collect(), selection)
}

/// `/vertices/:vid/subtasks/metrics`: each metric aggregated over the subtasks.
pub(crate) fn over_subtasks(vertex: &VertexView, selection: &Selection) -> Json<Value> {
    let chosen = vertex.subtasks.iter().enumerate().filter(|(i, _)| selects(selection.subtasks.as_deref(), *i));
    aggregated_list(chosen.map(|(_, subtask)| subtask_metrics(subtask)), selection)
}

/// Each metric aggregated over several holders of it.
pub(crate) fn aggregated_list(holders: impl Iterator<Item = Vec<(String, i64)>>, selection: &Selection) -> Json<Value> {
    let mut columns: Vec<(String, Vec<i64>)> = Vec::new();
    for (name, value) in holders.flatten() {
        match columns.iter_mut().find(|(n, _)| *n == name) {
            Some((_, values)) => values.push(value),
            None => columns.push((name, vec![value])),
        }
    }
    let entries = if selection.get.is_none() {
        columns.into_iter().map(|(id, _)| json!({ "id": id })).collect()
    } else {
        let chosen = columns.into_iter().filter(|(id, _)| selection.wants(id));
        chosen.map(|(id, values)| aggregated(&id, &values, selection.agg.as_deref())).collect()
    };
    Json(Value::Array(entries))
}

fn selects(ranges: Option<&str>, subtask: usize) -> bool {
    let Some(ranges) = ranges else { return true };
    ranges.split(',').any(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        matches!((from.trim().parse::<usize>(), to.trim().parse::<usize>()), (Ok(a), Ok(b)) if (a..=b).contains(&subtask))
    })
}

fn aggregated(id: &str, values: &[i64], wanted: Option<&str>) -> Value {
    let (min, max) = (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
    let sum: f64 = values.iter().map(|v| *v as f64).sum();
    let avg = sum / values.len().max(1) as f64;
    let spread: f64 = values.iter().map(|v| (*v as f64 - avg).abs()).sum::<f64>() / values.len().max(1) as f64;
    let skew = if avg == 0.0 { 0.0 } else { spread / avg * 100.0 };
    let mut entry = json!({ "id": id });
    for (name, value) in [("min", min as f64), ("max", max as f64), ("avg", avg), ("sum", sum), ("skew", skew)] {
        if wanted.is_none_or(|w| w.split(',').any(|x| x == name)) {
            entry[name] = json!(value);
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_names_become_scopes() {
        assert_eq!(scope_name("Source: clicks[1]"), "Source__clicks[1]");
        assert_eq!(scope_name("o[8]: Writer"), "o[8]__Writer");
    }

    #[test]
    fn subtask_ranges_select() {
        assert!(selects(None, 7));
        assert!(selects(Some("0-2,5"), 5));
        assert!(!selects(Some("0-2,5"), 3));
        assert!(!selects(Some("many"), 0));
    }

    #[test]
    fn aggregates_are_numbers_by_name() {
        let entry = aggregated("numRecordsIn", &[1, 3], Some("sum,max"));
        assert_eq!(entry, json!({ "id": "numRecordsIn", "max": 3.0, "sum": 4.0 }));
    }
}
