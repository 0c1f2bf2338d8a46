//! Windows as users see them, and the laws they keep.

use proptest::prelude::*;

use crate::{CutGrid, TimeWindow, WindowAssigner, WindowKind, WindowSpec, merge_session};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn windows(kind: WindowKind, offset: i64, zone: Option<&str>) -> WindowAssigner {
    WindowSpec { kind, offset, zone: zone.map(str::to_owned) }.assigner().unwrap()
}

fn of(w: &WindowAssigner, epoch: i64) -> Vec<(i64, i64)> {
    let mut list = Vec::new();
    w.windows_of(w.zone().to_local(epoch), &mut list);
    list.iter().map(|w| (w.start, w.end)).collect()
}

#[test]
fn odd_hops_lose_no_row() {
    // 2024-03-01 17:51:52.577
    let ts = 1_709_315_512_577;
    let s = 1_709_315_500_000;
    let w = windows(WindowKind::Hop { slide: 800, size: 1600 }, 0, None);
    assert_eq!(of(&w, ts), [(s + 12_000, s + 13_600), (s + 11_200, s + 12_800)]);
    let w = windows(WindowKind::Hop { slide: 700, size: 1400 }, 0, None);
    assert_eq!(of(&w, ts), [(s + 12_100, s + 13_500), (s + 11_400, s + 12_800)]);
    // Refused in aggregation, but the bare TVF takes it.
    let w = windows(WindowKind::Hop { slide: 700, size: 1600 }, 0, None);
    assert_eq!(of(&w, ts), [(s + 12_100, s + 13_700), (s + 11_400, s + 13_000)]);
}

#[test]
fn a_hop_longer_than_its_windows_leaves_gaps() {
    let w = windows(WindowKind::Hop { slide: 10, size: 5 }, 0, None);
    assert_eq!(of(&w, 3), [(0, 5)]);
    assert_eq!(of(&w, 7), []);
    assert_eq!(w.window_ends(5).collect::<Vec<_>>(), [5]);
    assert_eq!(w.window_ends(10).count(), 0);
    assert_eq!(w.first_window_after(10, -100), None);
}

#[test]
fn hop_emits_the_latest_window_first_and_cumulate_the_shortest() {
    let hop = windows(WindowKind::Hop { slide: MINUTE, size: 3 * MINUTE }, 0, None);
    assert_eq!(of(&hop, 40_000), [(0, 3 * MINUTE), (-MINUTE, 2 * MINUTE), (-2 * MINUTE, MINUTE)]);
    let cumulate = windows(WindowKind::Cumulate { step: 2 * MINUTE, size: 6 * MINUTE }, 0, None);
    assert_eq!(of(&cumulate, MINUTE), [(0, 2 * MINUTE), (0, 4 * MINUTE), (0, 6 * MINUTE)]);
    assert_eq!(of(&cumulate, 4 * MINUTE + 10), [(0, 6 * MINUTE)]);
}

#[test]
fn offsets_and_times_before_1970() {
    let w = windows(WindowKind::Tumble { size: MINUTE }, -15_000, None);
    assert_eq!(of(&w, 0), [(-15_000, 45_000)]);
    assert_eq!(of(&w, 45_000), [(45_000, 105_000)]);
    let w = windows(WindowKind::Tumble { size: MINUTE }, 0, None);
    assert_eq!(of(&w, -1), [(-MINUTE, 0)]);
    assert_eq!(of(&w, -MINUTE), [(-MINUTE, 0)]);
}

#[test]
fn days_and_hours_follow_the_zone() {
    let w = windows(WindowKind::Tumble { size: 10_000 }, 0, Some("GMT+08:00"));
    assert_eq!(of(&w, 0), [(8 * HOUR, 8 * HOUR + 10_000)]);
    assert_eq!(w.window_time(8 * HOUR + 10_000), 9_999);

    let day = windows(WindowKind::Tumble { size: DAY }, 0, Some("+02:00"));
    // 2024-01-24T22:30Z, 23:30Z, 2024-01-25T21:59Z all lie in 25 January.
    for ts in [1_706_135_400_000, 1_706_139_000_000, 1_706_219_940_000] {
        assert_eq!(of(&day, ts), [(1_706_140_800_000, 1_706_227_200_000)]);
    }
    let hour = windows(WindowKind::Tumble { size: HOUR }, 0, Some("America/New_York"));
    let local_one = 1_719_795_600_000; // 2024-07-01 01:00 written as if UTC
    assert_eq!(of(&hour, 1_719_811_800_000), [(local_one, local_one + HOUR)]);
}

#[test]
fn spring_forward() {
    let w = windows(WindowKind::Tumble { size: 4 * HOUR }, 0, Some("America/Los_Angeles"));
    let local_midnight = 1_615_680_000_000;
    let first = (local_midnight, local_midnight + 4 * HOUR);
    for ts in [1_615_708_800_000, 1_615_712_400_000, 1_615_716_000_000] {
        assert_eq!(of(&w, ts), [first]);
    }
    assert_eq!(of(&w, 1_615_719_600_000), [(first.1, first.1 + 4 * HOUR)]);
    // The window [00:00, 04:00) is three hours long: it fires at 11:00Z - 1 ms.
    assert_eq!(w.fire_time(first.1), 1_615_719_600_000 - 1);
    let utc = windows(WindowKind::Tumble { size: 4 * HOUR }, 0, None);
    assert_eq!(of(&utc, 1_615_719_600_000), [(1_615_708_800_000, 1_615_723_200_000)]);
}

#[test]
fn a_slice_outlives_its_first_window() {
    let hop = windows(WindowKind::Hop { slide: 10, size: 30 }, 0, None);
    assert_eq!(hop.slice_end(5), 10);
    assert_eq!(hop.window_ends(10).collect::<Vec<_>>(), [10, 20, 30]);
    assert_eq!(hop.expired_slice_end(30), 10);
    assert!(hop.is_fired(10, 9) && !hop.is_fired(10, 8));
    let cumulate = windows(WindowKind::Cumulate { step: 10, size: 30 }, 0, None);
    assert_eq!(cumulate.window_ends(20).collect::<Vec<_>>(), [20, 30]);
    assert_eq!(cumulate.expired_slice_end(20), 0);
    assert_eq!(cumulate.expired_slice_end(30), 30);
    assert_eq!(cumulate.window_start(20), 0);
}

#[test]
fn cuts_only_where_the_answer_changes() {
    let mut cuts = CutGrid::new(windows(WindowKind::Tumble { size: 10 }, 0, None));
    assert!(!cuts.must_cut(3, i64::MIN, 8), "window [0,10) is open");
    assert!(cuts.must_cut(3, i64::MIN, 9), "it has just fired");
    assert!(!cuts.must_cut(3, 9, 12), "and its end was sent");
    assert!(!cuts.must_cut(11, i64::MIN, 12), "a row of the open window does not care");
    assert!(!cuts.must_cut(12, i64::MIN, i64::MIN));
    assert!(cuts.must_cut(12, 12, i64::MAX));
}

fn arb_windows() -> impl Strategy<Value = WindowAssigner> {
    let zones =
        prop_oneof![Just(None), Just(Some("Europe/Berlin")), Just(Some("America/Los_Angeles")), Just(Some("+05:30"))];
    let lengths = (1..40i64, 1..6i64, prop_oneof![Just(1i64), Just(1_000), Just(10 * MINUTE)]);
    (0..3, lengths, -DAY..DAY, zones).prop_map(|(kind, (unit, times, scale), offset, zone)| {
        let (unit, size) = (unit * scale, unit * scale * times);
        let kind = match kind {
            0 => WindowKind::Tumble { size },
            1 => WindowKind::Hop { slide: unit, size },
            _ => WindowKind::Cumulate { step: unit, size },
        };
        windows(kind, offset, zone)
    })
}

/// Around the epoch and around two changes of the clock.
fn arb_time() -> impl Strategy<Value = i64> {
    prop_oneof![
        -3 * HOUR..3 * HOUR,
        1_615_716_000_000 - 6 * HOUR..1_615_716_000_000 + 6 * HOUR,
        { 1_774_746_000_000 - 6 * HOUR..1_774_746_000_000 + 6 * HOUR },
        1_636_275_600_000 - 6 * HOUR..1_636_275_600_000 + 6 * HOUR
    ]
}

proptest! {
    #[test]
    fn a_window_holds_its_rows(w in arb_windows(), ts in arb_time()) {
        let local = w.zone().to_local(ts);
        let slice = w.slice_end(local);
        prop_assert!(slice - w.slice_size() <= local && local < slice);
        let list = of(&w, ts);
        prop_assert!(!list.is_empty());
        for (start, end) in &list {
            prop_assert!(*start <= local && local < *end);
            prop_assert!(*start <= slice - w.slice_size() && slice <= *end, "slices are not split");
        }
        let mut ends: Vec<i64> = list.iter().map(|w| w.1).collect();
        ends.sort_unstable();
        prop_assert_eq!(&ends, &w.window_ends(slice).collect::<Vec<_>>());
        let size = w.slice_size();
        for floor in (-3..20).map(|i| slice + i * size + i % 2).chain([i64::MIN, i64::MAX]) {
            prop_assert_eq!(w.first_window_after(slice, floor), ends.iter().copied().find(|e| *e > floor));
        }
        // A row is never late for its window before the watermark reaches the row.
        prop_assert!(w.fire_time(slice) >= ts);
    }

    #[test]
    fn fire_times_are_found_in_order(w in arb_windows(), watermark in arb_time()) {
        let last = w.last_fired_slice(watermark);
        prop_assert!(w.fire_time(last) <= watermark);
        let next = w.next_fire_after(watermark);
        prop_assert!(next > watermark);
        prop_assert_eq!(next, w.fire_time(last + w.slice_size()));
    }

    #[test]
    fn cuts_are_exact(w in arb_windows(), base in arb_time(), rows in prop::collection::vec((-100..100i64, 0..60i64), 1..40)) {
        let unit = w.slice_size() / 4 + 1;
        let mut cuts = CutGrid::new(w.clone());
        let (mut sent, mut watermark) = (i64::MIN, base);
        for (back, step) in rows {
            let ts = watermark + back * unit / 8;
            let slice = w.slice_end(w.zone().to_local(ts));
            let open = |wm: i64| w.window_ends(slice).filter(|e| !w.is_fired(*e, wm)).count();
            let must = cuts.must_cut(ts, sent, watermark);
            prop_assert_eq!(must, open(sent) != open(watermark));
            if must {
                sent = watermark;
            }
            watermark += step * unit / 8;
        }
    }

    #[test]
    fn sessions_do_not_depend_on_order(mut rows in prop::collection::vec(0..200i64, 1..30), gap in 1..12i64, seed in any::<u64>()) {
        let build = |rows: &[i64]| {
            let mut sessions: Vec<TimeWindow> = Vec::new();
            for ts in rows {
                let merge = merge_session(&sessions, TimeWindow::new(*ts, ts + gap));
                sessions.splice(merge.absorbed, [merge.window]);
            }
            sessions
        };
        let one = build(&rows);
        let n = rows.len();
        for i in 0..n {
            rows.swap(i, (seed.rotate_left(i as u32) % n as u64) as usize);
        }
        let other = build(&rows);
        prop_assert!(one.windows(2).all(|p| p[0].end < p[1].start));
        prop_assert_eq!(one, other);
    }
}
