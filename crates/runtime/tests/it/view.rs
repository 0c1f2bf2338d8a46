//! What a job shows of event time while it runs.

use crate::fakes::*;
use tidegate_api::WindowKind;
use tidegate_runtime::view::{OpenWindowView, WindowOperatorView};

fn at(v: i64, seconds: f64) -> Row {
    ("a", v, Some(seconds))
}

fn open(start_s: i64, end_s: i64, rows: i64) -> OpenWindowView {
    let (start, end) = (TEN + start_s * 1_000, TEN + end_s * 1_000);
    OpenWindowView { start, end, closes_at: end - 1, rows }
}

fn window(running: &Running) -> WindowOperatorView {
    running.handle.event_time().windows.remove(0)
}

fn holding(running: &Running) -> Option<String> {
    running.handle.event_time().sources[0].holding().map(|split| split.name.clone())
}

const TUMBLE: WindowKind = WindowKind::Tumble { size: 10_000 };

#[test]
fn a_window_tells_what_it_has_what_it_needs_and_who_holds_it() {
    for two_phases in [true, false] {
        let mut job = Job::default();
        let taken = Taken::default();
        let steps = vec![
            Step::Rows(0, vec![at(1, 1.0), at(1, 12.0)]),
            Step::Rows(1, vec![at(1, 3.0)]),
            Step::Gate,
            Step::Rows(1, vec![at(1, 15.0)]),
            Step::Rows(1, vec![at(1, 5.0), at(1, 6.0)]),
            Step::Gate,
            Step::Quiet(vec![0], 3_000),
            Step::Gate,
            Step::Rows(0, vec![at(1, 13.0)]),
            Step::Gate,
        ];
        let source = FakeSource::new(&["p0", "p1"], steps, false);
        let gate = source.gate.clone();
        let from = job.source("clicks", source, 0, 1);
        job.watermark(from, |w| w.idle_timeout_ms = Some(2_000));
        let to = if two_phases { job.two_phase_count(from, TUMBLE) } else { job.tumble_count(from, 10_000) };
        job.sink(to, "out", &taken);
        let running = job.start();

        running.until("three rows", |r| window(r).nearest == [open(0, 10, 2), open(10, 20, 1)]);
        running.until("the first watermark", |r| window(r).watermark == Some(TEN + 3_000));
        assert_eq!((window(&running).closed, window(&running).open), (0, 2));
        assert_eq!(window(&running).sources, ["Source: clicks[1]"]);
        assert_eq!(holding(&running).as_deref(), Some("p1"));
        let splits = running.handle.event_time().sources.remove(0).splits;
        let seen: Vec<_> = splits.iter().map(|s| (s.rows, s.max_event_time, s.watermark)).collect();
        let (twelve, three) = (Some(TEN + 12_000), Some(TEN + 3_000));
        assert_eq!(seen, [(2, twelve, twelve), (1, three, three)]);

        gate.add_permits(1);
        running.until("two late rows", |r| window(r).late_rows == 2);
        let now = window(&running);
        assert_eq!((now.watermark, now.closed), (Some(TEN + 12_000), 1));
        assert_eq!(now.nearest, [open(10, 20, 2)]);
        let late: Vec<_> = now.late.iter().map(|w| (w.start - TEN, w.end - TEN, w.rows, w.watermark - TEN)).collect();
        assert_eq!(late, [(0, 10_000, 2, 12_000)]);
        assert_eq!(holding(&running).as_deref(), Some("p0"));

        gate.add_permits(1);
        running.until("p0 is left out", |r| holding(r).as_deref() == Some("p1"));
        let idle = running.handle.event_time().sources.remove(0).splits.remove(0);
        assert!(idle.idle_since_ms.is_some_and(|ms| ms >= TEN + 2_000), "{idle:?}");
        assert!(!idle.counts && !idle.finished);

        gate.add_permits(1);
        running.until("p0 is back", |r| r.handle.event_time().sources[0].splits[0].idle_since_ms.is_none());
        assert_eq!(holding(&running).as_deref(), Some("p1"), "p0 is behind and has to catch up first");
        running.handle.cancel().unwrap();
        let _ = running.wait();
    }
}

#[test]
fn at_the_end_every_row_is_counted_or_late() {
    let cumulate = WindowKind::Cumulate { step: 5_000, size: 10_000 };
    for kind in [TUMBLE, cumulate, WindowKind::Session { gap: 4_000 }] {
        let mut job = Job::default();
        let taken = Taken::default();
        let rows = [1.0, 2.0, 7.0, 12.0, 3.0, 25.0];
        let steps = vec![Step::Rows(0, rows.map(|s| at(1, s)).to_vec()), Step::Finished(0)];
        let from = job.source("clicks", FakeSource::new(&["p0"], steps, true), 0, 1);
        let to = job.window_count(from, kind, true);
        job.sink(to, "out", &taken);
        let running = job.start();
        running.wait().unwrap();
        let view = running.handle.event_time();
        let window = &view.windows[0];
        assert_eq!((window.open, window.nearest.len()), (0, 0), "{kind:?}");
        assert_eq!(window.closed as usize, taken.rows().len(), "{kind:?}");
        assert_eq!((view.sources[0].splits[0].rows, window.late_rows), (6, 1), "{kind:?}");
        assert!(view.sources[0].splits[0].finished && view.sources[0].holding().is_none());
    }
}
