//! The arithmetic of an interval join: whom a row may meet, and until when it is kept.
//!
//! As Flink's `TimeIntervalJoin` without allowed lateness, where each row goes when its time has come and not when
//! its key is next looked at.

use tidegate_api::{Timestamp, Watermark};
use tidegate_window::TimeWindow;

use crate::operators::join::Side;

/// `lower <= left time - right time <= upper`, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    lower: i64,
    upper: i64,
    /// Whether the time of the last partner itself is over when the watermark is there: that of a window.
    closes: bool,
}

impl Bounds {
    pub(super) fn new(lower: i64, upper: i64) -> Bounds {
        Bounds { lower, upper, closes: false }
    }

    /// Bounds of rows whose time is that of their window: equal times, until the window closes.
    pub(super) fn of_windows() -> Bounds {
        Bounds { lower: 0, upper: 0, closes: true }
    }

    /// True if no two times are within them.
    pub(super) fn is_empty(&self) -> bool {
        self.lower > self.upper
    }

    /// How far apart the earliest and the latest partner of a row may be.
    pub(super) fn span(&self) -> i64 {
        self.upper.saturating_sub(self.lower)
    }

    /// The time of the earliest partner that a row of this side and time may have.
    pub(super) fn first_partner(&self, side: Side, time: Timestamp) -> Timestamp {
        match side {
            Side::Left => time.saturating_sub(self.upper),
            Side::Right => time.saturating_add(self.lower),
        }
    }

    /// The time of the latest one.
    pub(super) fn last_partner(&self, side: Side, time: Timestamp) -> Timestamp {
        time.saturating_add(self.reach(side))
    }

    /// The times of the partners that a row of this side and time may have.
    pub(super) fn partners(&self, side: Side, time: Timestamp) -> TimeWindow {
        TimeWindow::new(self.first_partner(side, time), self.last_partner(side, time).saturating_add(1))
    }

    /// How much later than a row of this side its last partner may be.
    fn reach(&self, side: Side) -> i64 {
        match side {
            Side::Left => self.lower.saturating_neg(),
            Side::Right => self.upper,
        }
    }

    /// Whether a row is to be kept: partners may come that are not late.
    pub(super) fn may_meet(&self, side: Side, time: Timestamp, watermark: Watermark) -> bool {
        watermark.timestamp() < self.last_partner(side, time)
    }

    /// Kept rows of this side with this time or an earlier one are over: the watermark has passed their last partner.
    pub(super) fn over_until(&self, side: Side, watermark: Watermark) -> Timestamp {
        match watermark {
            Watermark::MIN | Watermark::MAX => watermark.timestamp(),
            Watermark(at) => at.saturating_sub(self.reach(side)).saturating_sub(i64::from(!self.closes)),
        }
    }

    /// The watermark that the output has at this one of the input: a row may be emitted as long after its time as
    /// its last partner is.
    pub(super) fn held_back(&self, watermark: Watermark) -> Watermark {
        if matches!(watermark, Watermark::MIN | Watermark::MAX) || self.is_empty() {
            return watermark;
        }
        // At least one of the two is not negative.
        Watermark(watermark.timestamp().saturating_sub(self.reach(Side::Left).max(self.reach(Side::Right))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_sides_see_the_same_bounds() {
        let bounds = Bounds::new(-45, 10);
        assert_eq!((bounds.first_partner(Side::Left, 100), bounds.last_partner(Side::Left, 100)), (90, 145));
        assert_eq!((bounds.first_partner(Side::Right, 100), bounds.last_partner(Side::Right, 100)), (55, 110));
        assert_eq!(bounds.held_back(Watermark(100)), Watermark(55));
        assert!(bounds.may_meet(Side::Left, 100, Watermark(144)));
        assert!(!bounds.may_meet(Side::Left, 100, Watermark(145)));
        assert_eq!(bounds.over_until(Side::Left, Watermark(145)), 99);
        assert_eq!(bounds.over_until(Side::Left, Watermark(146)), 100);
        assert_eq!(bounds.over_until(Side::Right, Watermark::MAX), i64::MAX);
    }

    #[test]
    fn windows_are_over_when_the_watermark_is_at_their_time() {
        let bounds = Bounds::of_windows();
        assert!(bounds.may_meet(Side::Left, 9, Watermark(8)) && !bounds.may_meet(Side::Left, 9, Watermark(9)));
        assert_eq!(
            (bounds.over_until(Side::Right, Watermark(8)), bounds.over_until(Side::Right, Watermark(9))),
            (8, 9)
        );
        assert_eq!(bounds.held_back(Watermark(9)), Watermark(9));
    }

    proptest! {
        #[test]
        fn partners_are_mutual(lower in -50..50i64, span in 0..60i64, left in -99..99i64, right in -99..99i64) {
            let bounds = Bounds::new(lower, lower + span);
            let meets = |side, time, other| {
                (bounds.first_partner(side, time)..=bounds.last_partner(side, time)).contains(&other)
            };
            let within = (lower..=lower + span).contains(&(left - right));
            prop_assert_eq!(meets(Side::Left, left, right), within);
            prop_assert_eq!(meets(Side::Right, right, left), within);
            let watermark = Watermark(right);
            // What is over could not be kept any more, and nothing comes out behind the watermark.
            if bounds.over_until(Side::Left, watermark) >= left {
                prop_assert!(!bounds.may_meet(Side::Left, left, watermark));
            } else {
                prop_assert!(left >= bounds.held_back(watermark).timestamp());
            }
        }

        #[test]
        fn no_time_overflows(lower: i64, upper: i64, time: i64, watermark: i64) {
            let bounds = Bounds::new(lower, upper);
            for side in [Side::Left, Side::Right] {
                let _ = (bounds.first_partner(side, time), bounds.last_partner(side, time), bounds.span());
                let _ = (bounds.over_until(side, Watermark(watermark)), bounds.held_back(Watermark(watermark)));
            }
        }
    }
}
