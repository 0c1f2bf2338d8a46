//! Rows that did not make it into a result: nothing vanishes unsaid.

use tidegate_runtime::view::JobView;

/// The counters of rows left out, and how that is said of one and of many. Late rows are not here: the
/// runtime says them as they come, with their window, and sums them up at the end.
const LOSSES: &[(&str, &str, &str)] = &[
    ("numNullRowtimeDropped", "row dropped for a NULL event time", "rows dropped for a NULL event time"),
    (
        "numNullRecordsDropped",
        "row dropped for a NULL in a NOT NULL column",
        "rows dropped for a NULL in a NOT NULL column",
    ),
    (
        "numRecordsInErrors",
        "record or field that could not be read ignored",
        "records or fields that could not be read ignored",
    ),
    ("numBlankRecords", "blank record skipped", "blank records skipped"),
    ("numTombstones", "tombstone skipped", "tombstones skipped"),
];

/// One line for each operator that left something out.
pub fn losses(job: &JobView) -> Vec<String> {
    let mut lines = Vec::new();
    for vertex in &job.vertices {
        let Some(first) = vertex.subtasks.first() else { continue };
        for (position, (operator, _)) in first.operators.iter().enumerate() {
            let total = |metric: &str| -> i64 {
                let in_subtasks = vertex.subtasks.iter().filter_map(|s| s.operators.get(position));
                in_subtasks.flat_map(|(_, m)| m).filter(|(name, _)| name == metric).map(|(_, value)| *value).sum()
            };
            let said: Vec<String> =
                LOSSES.iter().filter_map(|(metric, one, many)| said(total(metric), one, many)).collect();
            if !said.is_empty() {
                lines.push(format!("{operator}: {}", said.join(", ")));
            }
        }
    }
    lines
}

fn said(count: i64, one: &str, many: &str) -> Option<String> {
    match count {
        ..=0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_runtime::view::{ExecutionState, JobStatus, SubtaskView, VertexView};

    use super::*;

    #[test]
    fn one_line_an_operator_over_all_subtasks() {
        let subtask = |metrics: &[(&str, i64)]| SubtaskView {
            state: ExecutionState::Finished,
            timestamps: BTreeMap::new(),
            task_metrics: Vec::new(),
            operators: vec![("Source: t[1]".into(), metrics.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect())],
        };
        let vertex = VertexView {
            id: "0".repeat(32),
            name: "Source: t[1]".into(),
            description: Vec::new(),
            parallelism: 2,
            inputs: Vec::new(),
            subtasks: vec![
                subtask(&[("numBlankRecords", 1), ("numRecordsInErrors", 2), ("numRecordsIn", 9)]),
                subtask(&[("numRecordsInErrors", 1), ("numTombstones", 0)]),
            ],
        };
        let job = JobView {
            id: "0".repeat(32),
            name: "j".into(),
            status: JobStatus::Finished,
            timestamps: BTreeMap::new(),
            vertices: vec![vertex],
            failure: None,
            past_failures: Vec::new(),
            restarts: 0,
        };
        let wanted = "Source: t[1]: 3 records or fields that could not be read ignored, 1 blank record skipped";
        assert_eq!(losses(&job), [wanted]);
    }
}
