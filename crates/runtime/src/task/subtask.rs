//! What others may see of a subtask while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_api::metrics::{Counter, Gauge, MetricGroup};
use tidegate_time::Clock;

use super::TaskTimes;
use crate::view::{ExecutionState, SubtaskView};

/// The visible side of one subtask: state and metrics.
pub(crate) struct Subtask {
    /// Index from 0.
    pub index: usize,
    /// Where its time goes.
    pub times: TaskTimes,
    /// Rows that came over edges.
    pub records_in: Counter,
    /// Rows that went out over edges.
    pub records_out: Counter,
    /// Size of the rows that came over edges.
    pub bytes_in: Counter,
    /// Size of the rows that went out over edges.
    pub bytes_out: Counter,
    /// The watermark over all channels, if it has inputs.
    pub input_watermark: Option<Gauge>,
    /// Operator names and their metrics, in chain order.
    pub operators: Vec<(String, Arc<MetricGroup>)>,
    clock: Arc<dyn Clock>,
    state: Mutex<History>,
    rates: Mutex<Rates>,
}

struct History {
    state: ExecutionState,
    timestamps: BTreeMap<ExecutionState, i64>,
}

#[derive(Default)]
struct Rates {
    at_ns: i64,
    counts: Vec<i64>,
    per_second: Vec<i64>,
}

const COUNTED: [&str; 4] = ["numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut"];

impl Subtask {
    pub(crate) fn new(index: usize, has_inputs: bool, operators: &[String], clock: Arc<dyn Clock>) -> Self {
        let input_watermark = has_inputs.then(|| {
            let gauge = Gauge::default();
            gauge.set(i64::MIN);
            gauge
        });
        let state = ExecutionState::Created;
        Subtask {
            index,
            times: TaskTimes::new(clock.clone()),
            records_in: Counter::default(),
            records_out: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            input_watermark,
            operators: operators.iter().map(|name| (name.clone(), Arc::default())).collect(),
            state: Mutex::new(History { state, timestamps: BTreeMap::from([(state, clock.now_ms())]) }),
            rates: Mutex::new(Rates { at_ns: clock.monotonic_ns(), ..Rates::default() }),
            clock,
        }
    }

    /// Enters a state.
    pub(crate) fn enter(&self, state: ExecutionState) {
        let mut history = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        history.state = state;
        history.timestamps.insert(state, self.clock.now_ms());
    }

    /// The state it is in.
    pub(crate) fn state(&self) -> ExecutionState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).state
    }

    /// State and metrics now.
    pub(crate) fn view(&self) -> SubtaskView {
        let mut task_metrics = self.task_metrics();
        let mut operators: Vec<(String, Vec<(String, i64)>)> =
            self.operators.iter().map(|(name, group)| (name.clone(), group.snapshot())).collect();
        self.add_rates(&mut task_metrics, &mut operators);
        let history = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        SubtaskView { state: history.state, timestamps: history.timestamps.clone(), task_metrics, operators }
    }

    fn task_metrics(&self) -> Vec<(String, i64)> {
        let shares = self.times.shares();
        let [busy, idle, backpressured] = shares.per_second_ms;
        let [busy_ms, idle_ms, backpressured_ms] = shares.accumulated_ms;
        let mut metrics = vec![
            ("numRecordsIn", self.records_in.get() as i64),
            ("numRecordsOut", self.records_out.get() as i64),
            ("numBytesIn", self.bytes_in.get() as i64),
            ("numBytesOut", self.bytes_out.get() as i64),
            ("busyTimeMsPerSecond", busy),
            ("idleTimeMsPerSecond", idle),
            ("backPressuredTimeMsPerSecond", backpressured),
            ("softBackPressuredTimeMsPerSecond", backpressured),
            ("hardBackPressuredTimeMsPerSecond", 0),
            ("accumulateBusyTimeMs", busy_ms),
            ("accumulateIdleTimeMs", idle_ms),
            ("accumulateBackPressuredTimeMs", backpressured_ms),
            ("isBackPressured", i64::from(self.times.is_backpressured())),
        ];
        if let Some(watermark) = &self.input_watermark {
            metrics.push(("currentInputWatermark", watermark.get()));
        }
        metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Adds `...PerSecond` for the record and byte counters of the task and of each operator.
    fn add_rates(&self, task: &mut Vec<(String, i64)>, operators: &mut [(String, Vec<(String, i64)>)]) {
        let groups: Vec<&mut Vec<(String, i64)>> =
            std::iter::once(task).chain(operators.iter_mut().map(|(_, metrics)| metrics)).collect();
        let count = |metrics: &[(String, i64)], name: &str| {
            metrics.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value)
        };
        let counts: Vec<i64> = groups.iter().flat_map(|g| COUNTED.map(|name| count(g, name))).collect();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic_ns();
        let elapsed_ms = (now - rates.at_ns) / 1_000_000;
        rates.counts.resize(counts.len(), 0);
        if elapsed_ms >= 1_000 {
            let risen = counts.iter().zip(&rates.counts).map(|(new, old)| (new - old) * 1_000 / elapsed_ms);
            rates.per_second = risen.collect();
            (rates.counts, rates.at_ns) = (counts, now);
        }
        rates.per_second.resize(groups.len() * COUNTED.len(), 0);
        for (metrics, per_second) in groups.into_iter().zip(rates.per_second.chunks(COUNTED.len())) {
            for (name, rate) in COUNTED.iter().zip(per_second) {
                if metrics.iter().any(|(n, _)| n == name) {
                    metrics.push((format!("{name}PerSecond"), *rate));
                }
            }
        }
    }
}
