//! Merges the watermarks of many inputs into one.
//!
//! The output is the minimum over the inputs that count, and it never goes back:
//!
//! - an input counts from the moment it is added, at [`Watermark::MIN`], before its first row;
//! - an idle input does not count; back from idle it stays out until it has caught up with the
//!   output (the rule of Flink's `StatusWatermarkValve`), for its old watermark would stop time;
//! - a finished input, or one at [`Watermark::MAX`], does not count;
//! - when every input that is left is idle, the highest watermark seen goes out, then `Idle`: no
//!   input will hold time back, so nothing may wait for the slowest of them.

use crate::{Watermark, WatermarkStatus};

#[derive(Clone, Copy, Debug)]
struct Input {
    watermark: Watermark,
    idle: bool,
    finished: bool,
    /// False from the return from idle until the output is caught up with.
    aligned: bool,
}

impl Input {
    const NEW: Input = Input { watermark: Watermark::MIN, idle: false, finished: false, aligned: true };

    fn is_done(&self) -> bool {
        self.finished || self.watermark == Watermark::MAX
    }
}

/// What the output does because of an input; see [`ValveChange::events`] for the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ValveChange {
    /// The output has risen to here.
    pub watermark: Option<Watermark>,
    /// The output became idle or active.
    pub status: Option<WatermarkStatus>,
}

/// One step of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValveEvent {
    /// The watermark has risen.
    Watermark(Watermark),
    /// The status has changed.
    Status(WatermarkStatus),
}

impl ValveChange {
    /// The steps in the order to send them: `Active` before a watermark, `Idle` after it.
    pub fn events(self) -> impl Iterator<Item = ValveEvent> {
        let active = self.status.filter(|s| *s == WatermarkStatus::Active).map(ValveEvent::Status);
        let idle = self.status.filter(|s| *s == WatermarkStatus::Idle).map(ValveEvent::Status);
        active.into_iter().chain(self.watermark.map(ValveEvent::Watermark)).chain(idle)
    }
}

/// The merge of any number of inputs, by index.
#[derive(Clone, Debug)]
pub struct WatermarkValve {
    inputs: Vec<Input>,
    output: Watermark,
    status: WatermarkStatus,
}

impl WatermarkValve {
    /// A valve of `inputs` inputs, all active and without a watermark.
    pub fn new(inputs: usize) -> Self {
        WatermarkValve { inputs: vec![Input::NEW; inputs], output: Watermark::MIN, status: WatermarkStatus::Active }
    }

    /// A valve that goes on from before: `output` has gone out, what the inputs had reached is not known.
    pub fn restored(inputs: usize, output: Watermark) -> Self {
        WatermarkValve { output, ..WatermarkValve::new(inputs) }
    }

    /// The watermark that has gone out.
    pub fn output(&self) -> Watermark {
        self.output
    }

    /// The status that has gone out.
    pub fn status(&self) -> WatermarkStatus {
        self.status
    }

    /// The watermark of one input.
    pub fn input_watermark(&self, input: usize) -> Watermark {
        self.inputs[input].watermark
    }

    /// Whether an input counts: the output cannot pass it.
    pub fn counts(&self, input: usize) -> bool {
        let state = &self.inputs[input];
        !state.is_done() && !state.idle && state.aligned
    }

    /// Adds an active input; its index is how many there were. From now on it holds the output.
    pub fn add_input(&mut self) -> ValveChange {
        self.inputs.push(Input::NEW);
        self.settle()
    }

    /// An input's watermark has risen; a lower one than before is ignored.
    pub fn watermark(&mut self, input: usize, watermark: Watermark) -> ValveChange {
        let state = &mut self.inputs[input];
        if watermark <= state.watermark || state.finished {
            return ValveChange::default();
        }
        state.watermark = watermark;
        state.aligned |= watermark >= self.output;
        self.settle()
    }

    /// An input became idle or active.
    pub fn set_status(&mut self, input: usize, status: WatermarkStatus) -> ValveChange {
        let state = &mut self.inputs[input];
        let idle = status == WatermarkStatus::Idle;
        if state.idle == idle || state.finished {
            return ValveChange::default();
        }
        state.idle = idle;
        state.aligned = state.watermark >= self.output;
        self.settle()
    }

    /// Nothing follows on this input.
    pub fn finish(&mut self, input: usize) -> ValveChange {
        self.inputs[input].finished = true;
        self.settle()
    }

    /// Makes the output idle if no input is left (a source subtask without splits).
    pub fn idle_without_inputs(&mut self) -> ValveChange {
        if self.inputs.iter().all(Input::is_done) && self.output != Watermark::MAX {
            self.change(self.output, WatermarkStatus::Idle)
        } else {
            ValveChange::default()
        }
    }

    /// How high the output may rise as far as the other inputs go: `MAX` if none of them counts.
    pub fn ceiling_without(&self, input: usize) -> Watermark {
        self.inputs
            .iter()
            .enumerate()
            .filter(|(i, state)| *i != input && !state.is_done() && !state.idle && state.aligned)
            .map(|(_, state)| state.watermark)
            .min()
            .unwrap_or(Watermark::MAX)
    }

    fn settle(&mut self) -> ValveChange {
        let (mut live, mut active) = (false, false);
        let mut lowest: Option<Watermark> = None;
        let mut highest = Watermark::MIN;
        for state in self.inputs.iter().filter(|state| !state.is_done()) {
            live = true;
            highest = highest.max(state.watermark);
            active |= !state.idle;
            if !state.idle && state.aligned {
                lowest = Some(lowest.map_or(state.watermark, |low| low.min(state.watermark)));
            }
        }
        match (live, active) {
            (true, true) => self.change(lowest.unwrap_or(self.output), WatermarkStatus::Active),
            (true, false) => self.change(highest, WatermarkStatus::Idle),
            (false, _) if self.inputs.iter().any(|state| state.watermark == Watermark::MAX) => {
                self.change(Watermark::MAX, WatermarkStatus::Active)
            }
            (false, _) => ValveChange::default(),
        }
    }

    fn change(&mut self, target: Watermark, status: WatermarkStatus) -> ValveChange {
        let change = ValveChange {
            watermark: (target > self.output).then_some(target),
            status: (status != self.status).then_some(status),
        };
        self.output = self.output.max(target);
        self.status = status;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WatermarkStatus::{Active, Idle};
    use proptest::prelude::*;

    fn wm(ms: i64) -> Watermark {
        Watermark(ms)
    }

    fn rises(ms: i64) -> ValveChange {
        ValveChange { watermark: Some(wm(ms)), status: None }
    }

    const NOTHING: ValveChange = ValveChange { watermark: None, status: None };

    #[test]
    fn the_slowest_input_decides() {
        let mut valve = WatermarkValve::new(2);
        assert_eq!(valve.watermark(0, wm(20)), NOTHING);
        assert_eq!(valve.watermark(1, wm(3)), rises(3));
        assert_eq!(valve.watermark(1, wm(12)), rises(12));
        assert_eq!(valve.watermark(1, wm(7)), NOTHING);
        assert_eq!(valve.ceiling_without(1), wm(20));
    }

    #[test]
    fn a_new_input_holds_but_never_pulls_back() {
        let mut valve = WatermarkValve::new(1);
        assert_eq!(valve.watermark(0, wm(10)), rises(10));
        assert_eq!(valve.add_input(), NOTHING);
        assert_eq!(valve.watermark(0, wm(50)), NOTHING);
        assert_eq!(valve.watermark(1, wm(5)), NOTHING);
        assert_eq!(valve.output(), wm(10));
        assert_eq!(valve.watermark(1, wm(30)), rises(30));
    }

    #[test]
    fn back_from_idle_an_input_must_catch_up_first() {
        let mut valve = WatermarkValve::new(2);
        let _ = valve.watermark(0, wm(10));
        let _ = valve.watermark(1, wm(4));
        assert_eq!(valve.set_status(1, Idle), rises(10));
        assert_eq!(valve.set_status(1, Active), NOTHING);
        assert_eq!(valve.watermark(0, wm(20)), rises(20), "the returning input does not hold yet");
        assert_eq!(valve.watermark(1, wm(15)), NOTHING);
        assert!(!valve.counts(1));
        assert_eq!(valve.watermark(1, wm(25)), NOTHING);
        assert!(valve.counts(1));
        assert_eq!(valve.watermark(0, wm(40)), rises(25), "caught up, it counts again");
    }

    #[test]
    fn when_all_are_idle_the_maximum_goes_out_and_then_idle() {
        let mut valve = WatermarkValve::new(2);
        let _ = valve.watermark(0, wm(10));
        let _ = valve.watermark(1, wm(4));
        assert_eq!(valve.set_status(0, Idle), NOTHING);
        let change = valve.set_status(1, Idle);
        assert_eq!(change.events().collect::<Vec<_>>(), [ValveEvent::Watermark(wm(10)), ValveEvent::Status(Idle)]);
        assert_eq!(valve.set_status(1, Active).status, Some(Active));
        assert_eq!(valve.watermark(1, wm(8)), NOTHING);
        assert_eq!(valve.watermark(1, wm(11)), rises(11));
    }

    #[test]
    fn finished_inputs_leave_the_minimum() {
        let mut valve = WatermarkValve::new(2);
        let _ = valve.watermark(0, wm(1));
        let _ = valve.watermark(1, wm(9));
        assert_eq!(valve.finish(0), rises(9));
        assert_eq!(valve.finish(1), NOTHING);
        assert_eq!(valve.idle_without_inputs().status, Some(Idle));
        assert_eq!(valve.add_input().status, Some(Active));
    }

    #[test]
    fn an_input_at_the_end_of_time_does_not_drag_an_idle_one_there() {
        let mut valve = WatermarkValve::new(2);
        let _ = valve.watermark(1, wm(5));
        assert_eq!(valve.watermark(0, Watermark::MAX), rises(5));
        let change = valve.set_status(1, Idle);
        assert_eq!((change.watermark, change.status), (None, Some(Idle)));
        let change = valve.watermark(1, Watermark::MAX);
        assert_eq!((change.watermark, change.status), (Some(Watermark::MAX), Some(Active)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Watermark(usize, i64),
        Status(usize, bool),
        Finish(usize),
        Add,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0usize..4, 0i64..100).prop_map(|(i, w)| Step::Watermark(i, w)),
            4 => (0usize..4, any::<bool>()).prop_map(|(i, idle)| Step::Status(i, idle)),
            1 => (0usize..4).prop_map(Step::Finish),
            1 => Just(Step::Add),
        ]
    }

    proptest! {
        #[test]
        fn the_output_never_goes_back_and_never_stalls(steps in prop::collection::vec(step(), 1..60)) {
            let mut valve = WatermarkValve::new(2);
            let mut sent = Watermark::MIN;
            for step in steps {
                let n = valve.inputs.len();
                let change = match step {
                    Step::Watermark(i, w) => valve.watermark(i % n, wm(w)),
                    Step::Status(i, idle) => valve.set_status(i % n, if idle { Idle } else { Active }),
                    Step::Finish(i) => valve.finish(i % n),
                    Step::Add => valve.add_input(),
                };
                if let Some(w) = change.watermark {
                    prop_assert!(w > sent);
                    sent = w;
                }
                prop_assert_eq!(sent, valve.output());
                let live: Vec<&Input> = valve.inputs.iter().filter(|i| !i.is_done()).collect();
                let active: Vec<&&Input> = live.iter().filter(|i| !i.idle).collect();
                if !active.is_empty() {
                    prop_assert_eq!(valve.status(), Active);
                    // Nobody who counts may be ahead of the output alone: the slowest is the output,
                    // unless that slowest is a new input, which the output has already passed.
                    if let Some(low) = active.iter().filter(|i| i.aligned).map(|i| i.watermark).min() {
                        prop_assert!(low <= sent);
                    }
                    // The active ones, and they alone, raise the output.
                    let mut moved = valve.clone();
                    for i in (0..valve.inputs.len()).filter(|i| !valve.inputs[*i].idle) {
                        let _ = moved.watermark(i, wm(1_000));
                    }
                    prop_assert_eq!(moved.output(), wm(1_000));
                } else if !live.is_empty() {
                    prop_assert_eq!(valve.status(), Idle);
                    prop_assert!(live.iter().all(|i| i.watermark <= sent));
                }
            }
        }
    }
}
