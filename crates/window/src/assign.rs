//! Slices and windows on one grid.
//!
//! A *slice* is the longest piece of time that all windows contain wholly or not at all: a tumbling
//! window, one slide of a hopping window, one step of a cumulating window. An aggregate keeps one table
//! per slice and makes windows out of slices, so a row is added once however many windows hold it. A
//! slice is named by its end.
//!
//! Everything here is on the window's own grid: epoch milliseconds, or local milliseconds for windows
//! over `TIMESTAMP_LTZ` (see [`Zone`]). Division floors, so 1969 works like 1971.

use tidegate_time::Timestamp;

use crate::session::TimeWindow;
use crate::spec::{WindowKind, WindowSpec};
use crate::zone::{LocalClock, Zone};

/// A window definition ready for arithmetic.
#[derive(Clone, Debug)]
pub struct WindowAssigner {
    kind: WindowKind,
    offset: i64,
    zone: Zone,
}

impl WindowSpec {
    /// Makes the definition computable. The error names what is wrong with it.
    pub fn assigner(&self) -> Result<WindowAssigner, String> {
        let zone = self.zone.as_deref().map_or(Ok(Zone::UTC), Zone::parse)?;
        let lengths = match self.kind {
            WindowKind::Tumble { size } => [size, size],
            WindowKind::Hop { slide, size } => [slide, size],
            WindowKind::Cumulate { step, size } => [step, size],
            WindowKind::Session { gap } => [gap, gap],
        };
        if lengths.iter().any(|l| *l <= 0) {
            return Err(format!("a window length must be positive, but this one is {} ms", lengths[0].min(lengths[1])));
        }
        Ok(WindowAssigner { kind: self.kind, offset: self.offset, zone })
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl WindowAssigner {
    /// The shape.
    pub fn kind(&self) -> WindowKind {
        self.kind
    }

    /// The zone whose local time is the grid.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// A converter of row times to grid times.
    pub fn clock(&self) -> LocalClock {
        LocalClock::new(self.zone.clone())
    }

    /// True for windows that are not on a grid.
    pub fn is_session(&self) -> bool {
        matches!(self.kind, WindowKind::Session { .. })
    }

    /// The length of a slice: the size of a tumbling window, the slide (or what slide and size have in
    /// common), the step. For a session, its gap.
    pub fn slice_size(&self) -> i64 {
        match self.kind {
            WindowKind::Tumble { size } => size,
            WindowKind::Hop { slide, size } => gcd(size, slide),
            WindowKind::Cumulate { step, size } => gcd(size, step),
            WindowKind::Session { gap } => gap,
        }
    }

    /// The largest grid point of this distance that is not after `ts`.
    fn floor(&self, ts: Timestamp, distance: i64) -> Timestamp {
        let past = (i128::from(ts) - i128::from(self.offset)).rem_euclid(i128::from(distance)) as i64;
        ts.saturating_sub(past)
    }

    /// The end of the slice that a grid time falls into.
    #[inline]
    pub fn slice_end(&self, local: Timestamp) -> Timestamp {
        let size = self.slice_size();
        self.floor(local, size).saturating_add(size)
    }

    /// The end of the last window that contains the slice.
    pub fn last_window_end(&self, slice_end: Timestamp) -> Timestamp {
        match self.kind {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => slice_end,
            WindowKind::Hop { slide, size } => self.floor(slice_end - 1, slide) + size,
            WindowKind::Cumulate { size, .. } => self.floor(slice_end - 1, size) + size,
        }
    }

    /// The ends of the windows that contain the slice, ascending. None if a hop longer than its windows
    /// leaves the slice between two of them.
    pub fn window_ends(&self, slice_end: Timestamp) -> impl DoubleEndedIterator<Item = Timestamp> + use<> {
        let last = self.last_window_end(slice_end);
        let step = match self.kind {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => 1,
            WindowKind::Hop { slide, .. } => slide,
            WindowKind::Cumulate { step, .. } => step,
        };
        let count = match self.kind {
            // The first window that holds the slice ends at or after it.
            WindowKind::Hop { .. } | WindowKind::Cumulate { .. } => (last - slice_end).div_euclid(step),
            _ => 0,
        };
        (0..=count).map(move |i| last - (count - i) * step)
    }

    /// The start of the window that ends here.
    pub fn window_start(&self, window_end: Timestamp) -> Timestamp {
        match self.kind {
            WindowKind::Tumble { size } | WindowKind::Hop { size, .. } => window_end - size,
            WindowKind::Cumulate { size, .. } => self.floor(window_end - 1, size),
            WindowKind::Session { gap } => window_end - gap,
        }
    }

    /// The windows a grid time belongs to, in the order Flink's window table functions emit them: HOP
    /// from the latest to the earliest, CUMULATE from the shortest to the longest.
    pub fn windows_of(&self, local: Timestamp, into: &mut Vec<TimeWindow>) {
        into.clear();
        let windows = self.window_ends(self.slice_end(local)).map(|end| TimeWindow::new(self.window_start(end), end));
        // A hop of odd sizes: a window may end between the row's slice and the row's last window
        // without holding the row.
        into.extend(windows.filter(|w| w.start <= local && local < w.end));
        if matches!(self.kind, WindowKind::Hop { .. }) {
            into.reverse();
        }
    }

    /// The end of the first window after `floor` that contains the slice; `None` if the last one is not
    /// after it.
    pub fn first_window_after(&self, slice_end: Timestamp, floor: Timestamp) -> Option<Timestamp> {
        let last = self.last_window_end(slice_end);
        let step = match self.kind {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => return (last > floor).then_some(last),
            WindowKind::Hop { slide, .. } => slide,
            WindowKind::Cumulate { step, .. } => step,
        };
        if last <= floor || last < slice_end {
            return None;
        }
        // Window ends lie `step` apart, back from the last one to the slice's own end.
        let first = last - (last - slice_end) / step * step;
        let behind = i128::from(last) - i128::from(floor.max(first - 1)) - 1;
        Some(last - (behind / i128::from(step)) as i64 * step)
    }

    /// Slices that end at or before this bound are in no window after the one that ends at `window_end`.
    pub fn expired_slice_end(&self, window_end: Timestamp) -> Timestamp {
        match self.kind {
            WindowKind::Tumble { .. } | WindowKind::Session { .. } => window_end,
            WindowKind::Hop { slide, size } => window_end - size + slide,
            WindowKind::Cumulate { size, .. } => {
                let start = self.floor(window_end - 1, size);
                if window_end == start + size { window_end } else { start }
            }
        }
    }

    /// The watermark at which the window with this end fires (and from which its rows are late):
    /// the instant of its last millisecond.
    pub fn fire_time(&self, window_end: Timestamp) -> Timestamp {
        self.zone.timer_epoch(window_end.saturating_sub(1))
    }

    /// True if the window with this end has fired at this watermark.
    pub fn is_fired(&self, window_end: Timestamp, watermark: Timestamp) -> bool {
        watermark != Timestamp::MIN && (watermark == Timestamp::MAX || self.fire_time(window_end) <= watermark)
    }

    /// `window_time` of the window with this end: its last millisecond, as an instant for
    /// `TIMESTAMP_LTZ` windows and as written digits for the others.
    pub fn window_time(&self, window_end: Timestamp) -> Timestamp {
        self.zone.to_epoch(window_end - 1)
    }

    /// The last slice end whose fire time is not after `watermark`; `watermark` itself if it is `MIN`,
    /// `MAX` or near them.
    pub fn last_fired_slice(&self, watermark: Timestamp) -> Timestamp {
        if out_of_calendar(watermark) {
            return watermark;
        }
        let size = self.slice_size();
        let mut end = self.slice_end(self.zone.to_local(watermark).saturating_add(1));
        while self.fire_time(end) > watermark {
            end -= size;
        }
        // In the second happening of an hour the local clock is behind the slices that have fired.
        while self.fire_time(end + size) <= watermark {
            end += size;
        }
        end
    }

    /// The first watermark after `watermark` at which a slice closes; `Timestamp::MAX` if there is none.
    pub fn next_fire_after(&self, watermark: Timestamp) -> Timestamp {
        if out_of_calendar(watermark) {
            return if watermark < 0 { watermark.saturating_add(1) } else { Timestamp::MAX };
        }
        self.fire_time(self.last_fired_slice(watermark) + self.slice_size())
    }
}

/// Watermarks this far out (`MIN`, `MAX`) stand for "nothing yet" and "the end"; windows are not
/// computed there.
fn out_of_calendar(watermark: Timestamp) -> bool {
    watermark.unsigned_abs() > 1 << 60
}

/// Tells a source where it must cut its batches so that operators behind it meet every row with the
/// watermark that answers for it.
///
/// Only two things matter to a window operator: which windows have fired when a row arrives, and so
/// which of the row's windows it still enters. So a cut is needed only before a row that would enter a
/// window under the last watermark sent, but not under the watermark that the rows before it imply.
#[derive(Clone, Debug)]
pub struct CutGrid {
    windows: WindowAssigner,
    clock: LocalClock,
    /// Rows at or after this instant are in no slice that has closed.
    open_from: Timestamp,
    /// The watermark up to which `open_from` holds.
    edge: Timestamp,
    /// The watermark `open_from` was computed at.
    base: Timestamp,
}

impl CutGrid {
    /// The grid of these windows.
    pub fn new(windows: WindowAssigner) -> Self {
        let clock = windows.clock();
        CutGrid { windows, clock, open_from: Timestamp::MIN, edge: Timestamp::MIN, base: Timestamp::MIN }
    }

    /// True if a row of event time `ts` must be met with `watermark`, when the last one sent is `sent`.
    /// `watermark` must not go back from call to call. Sessions need every watermark that passes a row.
    #[inline]
    pub fn must_cut(&mut self, ts: Timestamp, sent: Timestamp, watermark: Timestamp) -> bool {
        if watermark <= sent {
            return false;
        }
        if self.windows.is_session() {
            return ts <= watermark.saturating_add(1);
        }
        if watermark >= self.edge || watermark < self.base {
            self.advance(watermark);
        }
        ts < self.open_from && self.answer_changes(ts, sent, watermark)
    }

    /// True if the watermark's step from `sent` to `watermark` closes a slice. Sources send such
    /// watermarks at the latest with the next flush.
    pub fn crosses(&mut self, sent: Timestamp, watermark: Timestamp) -> bool {
        if watermark <= sent {
            return false;
        }
        if self.windows.is_session() {
            return true;
        }
        if watermark >= self.edge || watermark < self.base {
            self.advance(watermark);
        }
        // The last slice end at or before `watermark` fires one millisecond before `open_from`.
        self.open_from != Timestamp::MIN && self.open_from - 1 > sent
    }

    #[cold]
    fn advance(&mut self, watermark: Timestamp) {
        self.base = watermark;
        self.edge = self.windows.next_fire_after(watermark);
        self.open_from = match out_of_calendar(watermark) {
            true if watermark < 0 => Timestamp::MIN,
            true => Timestamp::MAX,
            false => self.windows.fire_time(self.windows.last_fired_slice(watermark)).saturating_add(1),
        };
    }

    fn answer_changes(&mut self, ts: Timestamp, sent: Timestamp, watermark: Timestamp) -> bool {
        let slice_end = self.windows.slice_end(self.clock.to_local(ts));
        for end in self.windows.window_ends(slice_end) {
            let fires = self.windows.fire_time(end);
            if fires > watermark {
                return false;
            }
            if fires > sent {
                return true;
            }
        }
        false
    }
}
