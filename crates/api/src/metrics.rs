//! Counters and gauges, named as Flink names them, cheap enough for the hot path.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A number that only grows.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A registered metric.
#[derive(Clone, Debug)]
pub enum Metric {
    /// A counter.
    Counter(Counter),
    /// A gauge.
    Gauge(Gauge),
}

impl Metric {
    /// The value as a number.
    pub fn value(&self) -> i64 {
        match self {
            Metric::Counter(c) => c.get() as i64,
            Metric::Gauge(g) => g.get(),
        }
    }
}

/// The metrics of one operator of one subtask.
#[derive(Debug, Default)]
pub struct MetricGroup {
    entries: Mutex<BTreeMap<String, Metric>>,
}

impl MetricGroup {
    /// The counter of this name, made at its first use.
    pub fn counter(&self, name: &str) -> Counter {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get(name) {
            Some(Metric::Counter(c)) => c.clone(),
            _ => {
                let counter = Counter::default();
                entries.insert(name.to_owned(), Metric::Counter(counter.clone()));
                counter
            }
        }
    }

    /// The gauge of this name, made with `initial` at its first use.
    pub fn gauge(&self, name: &str, initial: i64) -> Gauge {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get(name) {
            Some(Metric::Gauge(g)) => g.clone(),
            _ => {
                let gauge = Gauge::default();
                gauge.set(initial);
                entries.insert(name.to_owned(), Metric::Gauge(gauge.clone()));
                gauge
            }
        }
    }

    /// All metrics and their values now.
    pub fn snapshot(&self) -> Vec<(String, i64)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|(name, metric)| (name.clone(), metric.value())).collect()
    }
}
