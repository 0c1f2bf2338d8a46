//! Event time of one source subtask: split watermarks, idleness, null event times, cuts. No I/O.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use tidegate_api::connector::TableDescriptor;
use tidegate_api::function::{EvalContext, Evaluator};
use tidegate_api::graph::{NullRowtimePolicy, WatermarkSpec};
use tidegate_api::metrics::{Counter, Gauge, MetricGroup};
use tidegate_api::{Batch, Error, Result, StreamElement, Watermark, WatermarkStatus};
use tidegate_time::{
    Clock, Cut, CutPosition, Cutter, IdlenessTimer, NO_CANDIDATE, Timestamp, ValveChange, ValveEvent, WatermarkValve,
};

use super::notice::EventTimeWatch;
use super::splits::SplitMarks;
use super::timestamps::milliseconds;
use crate::builtin::keep_rows;
use crate::notices::JobNotices;

/// What event time is made from.
pub(crate) struct EventTimeParts<'a> {
    pub spec: &'a WatermarkSpec,
    pub table: &'a TableDescriptor,
    /// The compiled watermark expression.
    pub expression: Box<dyn Evaluator>,
    pub cutter: Cutter,
    pub operator: String,
    pub metrics: Arc<MetricGroup>,
    pub clock: Arc<dyn Clock>,
    pub notices: JobNotices,
}

struct SplitTime {
    id: String,
    /// Whether it was told that this silence holds the watermark.
    told_quiet: bool,
    running: Watermark,
    timer: IdlenessTimer,
    gauge: Gauge,
    marks: Arc<SplitMarks>,
}

/// Makes watermarks from rows.
pub(crate) struct EventTime {
    spec: WatermarkSpec,
    table: String,
    expression: Box<dyn Evaluator>,
    valve: WatermarkValve,
    splits: Vec<SplitTime>,
    cutter: Cutter,
    cuts: Vec<Cut>,
    timestamps: Vec<Timestamp>,
    candidates: Vec<Timestamp>,
    null_rowtimes: Counter,
    metrics: Arc<MetricGroup>,
    clock: Arc<dyn Clock>,
    watch: EventTimeWatch,
}

impl EventTime {
    pub(crate) fn new(parts: EventTimeParts<'_>) -> Self {
        EventTime {
            spec: parts.spec.clone(),
            table: parts.table.identifier.clone(),
            expression: parts.expression,
            valve: WatermarkValve::new(0),
            splits: Vec::new(),
            cutter: parts.cutter,
            cuts: Vec::new(),
            timestamps: Vec::new(),
            candidates: Vec::new(),
            null_rowtimes: parts.metrics.counter("numNullRowtimeDropped"),
            metrics: parts.metrics,
            clock: parts.clock,
            watch: EventTimeWatch::new(parts.operator, parts.notices),
        }
    }

    /// The watermark that was sent last.
    pub(crate) fn watermark(&self) -> Watermark {
        self.valve.output()
    }

    /// A split was assigned: it holds the watermark from now on. One that goes on from a checkpoint gets its own
    /// back from [`EventTime::go_on`].
    pub(crate) fn add_split(
        &mut self,
        id: &str,
        marks: Arc<SplitMarks>,
        restored: Option<Watermark>,
        now_ms: i64,
        out: &mut Vec<StreamElement>,
    ) {
        let gauge = self.metrics.gauge(&format!("split.{id}.watermark.currentWatermark"), i64::MIN);
        let timer = IdlenessTimer::new(self.spec.idle_timeout_ms, now_ms);
        let (id, running) = (id.to_owned(), restored.unwrap_or(Watermark::MIN));
        gauge.set(running.timestamp());
        self.splits.push(SplitTime { id, told_quiet: false, running, timer, gauge, marks });
        emit(self.valve.add_input(), out);
    }

    /// The splits from this one on have their watermarks of the checkpoint. Only after all of them were added: the
    /// first would be alone, and raise the output above those that are behind it.
    pub(crate) fn go_on(&mut self, first: usize, out: &mut Vec<StreamElement>) {
        for number in first..self.splits.len() {
            emit(self.valve.watermark(number, self.splits[number].running), out);
        }
    }

    /// Goes on from a checkpoint at which this watermark had been sent.
    pub(crate) fn restore(&mut self, sent: Watermark) {
        self.valve = WatermarkValve::restored(0, sent);
    }

    /// The watermark of one split; `None` before its first.
    pub(crate) fn split_watermark(&self, split: usize) -> Option<Watermark> {
        self.splits.get(split).map(|s| s.running).filter(|w| *w != Watermark::MIN)
    }

    /// A split has been read to its end.
    pub(crate) fn finish_split(&mut self, split: usize, out: &mut Vec<StreamElement>) {
        if split < self.splits.len() {
            emit(self.valve.finish(split), out);
        }
    }

    /// The subtask has no split to read.
    pub(crate) fn idle_without_splits(&mut self, out: &mut Vec<StreamElement>) {
        emit(self.valve.idle_without_inputs(), out);
    }

    /// These splits were asked and had nothing.
    pub(crate) fn quiet(&mut self, splits: &[usize], now_ms: i64, out: &mut Vec<StreamElement>) {
        for index in splits {
            let ceiling = self.valve_ceiling(*index);
            let Some(split) = self.splits.get_mut(*index) else { continue };
            if split.timer.quiet(now_ms) {
                emit(self.valve.set_status(*index, WatermarkStatus::Idle), out);
                split.marks.status(false, Some(self.clock.now_ms()));
            } else if !split.timer.is_idle() && split.running < ceiling && !split.told_quiet {
                split.told_quiet = self.watch.quiet(&split.id, split.running, split.timer.quiet_ms(now_ms));
            }
        }
    }

    /// What the other splits would allow; `MIN` if there is no other.
    fn valve_ceiling(&self, split: usize) -> Watermark {
        Some(self.valve.ceiling_without(split)).filter(|c| *c != Watermark::MAX).unwrap_or(Watermark::MIN)
    }

    /// Nobody could ask for this long.
    pub(crate) fn not_asked(&mut self, duration_ms: i64) {
        for split in &mut self.splits {
            split.timer.not_asked(duration_ms);
        }
    }

    /// The source has ended.
    pub(crate) fn end(&mut self) {
        self.watch.end(self.clock.as_ref());
    }

    /// Takes rows of a split: emits them, cut where it matters, with the watermarks they imply.
    pub(crate) fn rows(
        &mut self,
        split: usize,
        batch: Batch,
        eval: &EvalContext,
        place: &dyn Fn(usize) -> String,
        now_ms: i64,
        out: &mut Vec<StreamElement>,
    ) -> Result<()> {
        let Some(state) = self.splits.get_mut(split) else {
            return Err(Error::internal(format!("rows of split {split}, which was never added")));
        };
        state.told_quiet = false;
        if state.timer.activity(now_ms) {
            emit(self.valve.set_status(split, WatermarkStatus::Active), out);
        }
        let Some((batch, kept)) = self.without_null_rowtimes(batch, place)? else { return Ok(()) };
        let place = |row: usize| place(kept.as_ref().map_or(row, |kept| kept[row]));
        milliseconds(batch.columns.column(self.spec.rowtime), NO_CANDIDATE, &mut self.timestamps)?;
        let candidates =
            self.expression.evaluate(&batch.columns, eval).map_err(|e| Error::job(e.message).context(place(e.row)))?;
        milliseconds(&candidates, NO_CANDIDATE, &mut self.candidates)?;

        let mut position = CutPosition {
            running: self.splits[split].running,
            sent: self.valve.output(),
            ceiling: self.valve.ceiling_without(split),
        };
        self.cuts.clear();
        self.cutter.plan(&self.timestamps, &self.candidates, &mut position, &mut self.cuts);
        let running = position.running;
        self.watch.batch(&self.timestamps, &self.candidates, running.timestamp(), eval.now_ms, &place);

        let mut from = 0;
        for cut in &self.cuts {
            if cut.row > from {
                out.push(StreamElement::Batch(batch.slice(from, cut.row - from)));
                from = cut.row;
            }
            emit(self.valve.watermark(split, cut.watermark), out);
        }
        self.splits[split].marks.event_times(&self.timestamps, running.timestamp());
        let rest = if from == 0 { batch } else { batch.slice(from, batch.num_rows() - from) };
        out.push(StreamElement::Batch(rest));
        emit(self.valve.watermark(split, running), out);
        self.splits[split].running = running;
        self.splits[split].gauge.set(running.timestamp());
        self.splits[split].marks.status(self.valve.counts(split), None);
        Ok(())
    }

    /// The rows with an event time, and if rows were left out, the original number of each row kept.
    /// `None` if no row is left.
    fn without_null_rowtimes(
        &self,
        batch: Batch,
        place: &dyn Fn(usize) -> String,
    ) -> Result<Option<(Batch, Option<Vec<usize>>)>> {
        let nulls = batch.columns.column(self.spec.rowtime).logical_nulls();
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return Ok((batch.num_rows() > 0).then_some((batch, None)));
        };
        if self.spec.null_policy == NullRowtimePolicy::Fail {
            let row = nulls.iter().position(|valid| !valid).unwrap_or(0);
            return Err(Error::job(format!(
                "RowTime field should not be null, please convert it to a non-null long value. Column '{}' of table \
                 '{}' is NULL in {}. Set 'tidegate.rowtime.null' = 'drop' to drop and count such rows.",
                self.spec.rowtime_name,
                self.table,
                place(row)
            )));
        }
        self.null_rowtimes.add(nulls.null_count() as u64);
        let kept: Vec<usize> = nulls.inner().set_indices().collect();
        let batch = keep_rows(batch, &BooleanArray::new(nulls.inner().clone(), None))?;
        Ok((batch.num_rows() > 0).then_some((batch, Some(kept))))
    }
}

fn emit(change: ValveChange, out: &mut Vec<StreamElement>) {
    out.extend(change.events().map(|event| match event {
        ValveEvent::Watermark(watermark) => StreamElement::Watermark(watermark),
        ValveEvent::Status(status) => StreamElement::Status(status),
    }));
}
