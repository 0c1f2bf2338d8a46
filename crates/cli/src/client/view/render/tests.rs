use crossterm::event::{KeyCode, KeyEvent};
use proptest::prelude::*;

use super::super::Next;
use super::*;
use crate::collect::Row;

fn view(mode: ViewMode, rows: usize) -> View {
    let names = vec!["id".to_owned(), "name".to_owned(), "amount".to_owned()];
    let mut view = View::new(mode, names, vec![11, 30, 20], 1000);
    let row = |i: usize| Row { kind: RowKind::Insert, cells: vec![i.to_string(), format!("n{i}"), "<NULL>".into()] };
    view.rows.apply((1..=rows).map(row).collect());
    view
}

fn text(view: &View, width: usize, height: usize) -> Vec<String> {
    lines(view, width, height).into_iter().map(|line| line.text.trim_end().to_owned()).collect()
}

fn press(view: &mut View, keys: &str, height: usize) {
    for c in keys.chars() {
        view.key(KeyEvent::from(KeyCode::Char(c)), height);
    }
}

#[test]
fn a_table_has_a_title_names_rows_and_keys() {
    assert_eq!(
        text(&view(ViewMode::Table, 2), 70, 7),
        [
            " Table | running | rows 1-2 of 2 | page 1 of 1 | refresh 1 s",
            "id  name  amount",
            " 1  n1    <NULL>",
            " 2  n2    <NULL>",
            "",
            "",
            " q quit  n/p page  g/G first/last  arrows row, column  Enter open row",
        ]
    );
}

#[test]
fn pages_are_turned_and_the_last_one_is_followed() {
    let mut view = view(ViewMode::Table, 10);
    press(&mut view, "n", 7);
    assert_eq!(
        text(&view, 60, 7)[..3],
        [" Table | running | rows 5-8 of 10 | page 2 of 3 | refresh 1 s", "id  name  amount", " 5  n5    <NULL>",]
            .map(|l| cut(l, 60))
    );
    press(&mut view, "n", 7);
    assert!(text(&view, 60, 7)[2].starts_with(" 7"), "the last page is full");
    press(&mut view, "pp", 7);
    assert!(text(&view, 60, 7)[2].starts_with(" 1"));
    press(&mut view, "G", 7);
    view.rows.apply(vec![Row { kind: RowKind::Insert, cells: vec!["11".into(), "new".into(), "1".into()] }]);
    assert!(text(&view, 60, 7)[5].starts_with("11  new"), "the last page follows what comes");
    press(&mut view, "gj", 7);
    assert_eq!(lines(&view, 60, 7)[3].look, Look::Cursor);
}

#[test]
fn rows_that_go_away_do_not_leave_the_user_nowhere() {
    let mut view = view(ViewMode::Table, 10);
    press(&mut view, "nn", 7);
    let gone = |i: usize| Row { kind: RowKind::Delete, cells: vec![i.to_string(), format!("n{i}"), "<NULL>".into()] };
    view.rows.apply((2..=10).map(gone).collect());
    assert!(text(&view, 60, 7)[2].starts_with(" 1") || text(&view, 60, 7)[2].starts_with("1 "));
    view.rows.apply(vec![gone(1)]);
    assert_eq!(text(&view, 60, 7)[2], "No rows yet.");
}

#[test]
fn a_narrow_screen_shows_the_columns_that_fit() {
    let mut view = view(ViewMode::Changelog, 2);
    assert_eq!(text(&view, 13, 6)[1..4], ["op  id  name", "+I   1  n1", "+I   2  n2"]);
    view.key(KeyEvent::from(KeyCode::Right), 6);
    view.key(KeyEvent::from(KeyCode::Right), 6);
    assert_eq!(text(&view, 13, 6)[1..4], ["op  amount", "+I  <NULL>", "+I  <NULL>"]);
}

#[test]
fn a_failure_says_why() {
    let mut view = view(ViewMode::Table, 1);
    view.progress = Progress::Failed("file x.json, line 2: bad\n".into());
    let shown = text(&view, 70, 5);
    assert!(shown[0].starts_with(" Table | FAILED | rows 1-1 of 1"), "{shown:?}");
    assert_eq!(shown[4], " q quit  file x.json, line 2: bad\\n");
}

#[test]
fn a_low_screen_keeps_the_rows() {
    let view = view(ViewMode::Table, 2);
    assert_eq!(text(&view, 40, 1), [" 1  n1    <NULL>"]);
    assert_eq!(text(&view, 40, 3)[1..], ["id  name  amount", " 1  n1    <NULL>"]);
}

#[test]
fn a_row_is_opened_and_closed() {
    let mut view = view(ViewMode::Table, 3);
    view.rows
        .apply(vec![Row { kind: RowKind::Insert, cells: vec!["9".into(), "한국어 text\n".into(), "x".repeat(25)] }]);
    press(&mut view, "Go", 12);
    let shown = text(&view, 11, 12);
    assert_eq!(shown[0], " Row 4 of 4");
    assert_eq!(shown[1..9], ["id", "9", "name", "한국어 text", "\\n", "amount", "xxxxxxxxxxx", "xxxxxxxxxxx"]);
    assert_eq!(view.key(KeyEvent::from(KeyCode::Char('q')), 12), Next::Draw);
    assert_eq!(view.key(KeyEvent::from(KeyCode::Char('q')), 12), Next::Quit);
}

#[test]
fn the_refresh_rate_has_ends() {
    let mut view = view(ViewMode::Table, 0);
    press(&mut view, "++++++++", 9);
    assert_eq!(view.refresh_ms(), Some(60_000));
    press(&mut view, "---------", 9);
    assert_eq!(view.refresh_ms(), None);
}

proptest! {
    /// Whatever the data, the keys and the size: no line is too wide, and there are not too many.
    #[test]
    fn lines_fit_the_screen(
        cells in prop::collection::vec("[a-c한é\u{301}\u{1f600}\n 1-3]{0,40}", 0..20),
        keys in "[npgGojkq+l-]{0,6}",
        rights in 0..4usize,
        width in 0..60usize,
        height in 0..20usize,
        changelog: bool,
    ) {
        let mode = if changelog { ViewMode::Changelog } else { ViewMode::Table };
        let mut view = View::new(mode, vec!["ключ".into(), "v".into()], vec![11, 30], 15);
        view.rows.apply(cells.into_iter().map(|c| Row { kind: RowKind::Insert, cells: vec![c.clone(), c] }).collect());
        press(&mut view, &keys, height);
        for _ in 0..rights {
            view.key(KeyEvent::from(KeyCode::Right), height);
        }
        let lines = lines(&view, width, height);
        prop_assert!(lines.len() <= height);
        for line in lines {
            prop_assert!(display_width(&line.text) <= width, "{line:?}");
        }
    }
}
