//! Screens of all sizes.

use super::*;
use crate::demo::picture::tests::{facts, sample};

fn screen(width: usize, height: usize) -> Vec<String> {
    lines(&facts(), &sample(), width, height).iter().map(|line| line.paint(false)).collect()
}

#[test]
fn a_wide_screen_has_bars_words_and_the_whole_story() {
    let screen = screen(100, 30);
    assert_eq!(screen.len(), 30);
    let has = |wanted: &str| assert!(screen.iter().any(|l| l.contains(wanted)), "{wanted}:\n{}", screen.join("\n"));
    has("tidegate demo  50 clicks a second, up to 4 s late");
    has("10:00:00 - 10:00:05    250  ███████░ 211  39 lost");
    has("████████ 250  complete");
    has("········ 240  open");
    has("80 = 15.7 %");
    has("0.1 s after its end");
    has("10:00:15  lacks 3.3 s");
    has("the slowest: it sets the watermark");
    has("idle: nothing for 3.5 s, so nobody waits for it");
    has("late delay 0 s: 41 clicks for 10:00:05 - 10:00:10 came after it had closed; watermark 10:00:11.7");
    has("REST http://127.0.0.1:38081/jobs   Kafka 127.0.0.1:39092");
}

#[test]
fn smaller_screens_keep_the_table_and_say_the_rest_shorter() {
    let medium = screen(60, 20);
    assert!(medium.iter().any(|l| l.contains(" 10:00:00     250  211  39 lost")), "{}", medium.join("\n"));
    assert!(medium.iter().any(|l| l.contains("idle 3.5 s")), "{}", medium.join("\n"));
    let usual = screen(80, 24);
    assert!(usual.iter().any(|l| l.contains("250  █████░ 211  39 lost ")), "{}", usual.join("\n"));
    let narrow = screen(40, 15);
    assert!(narrow.iter().any(|l| l.contains(" 00:00   250  211 -39  244 -6   250 all")), "{}", narrow.join("\n"));
    assert!(narrow.last().is_some_and(|l| l.contains("q quit")), "{}", narrow.join("\n"));
}

#[test]
fn no_size_is_too_small_and_none_is_exceeded() {
    for width in [0, 1, 7, 20, 39, 40, 55, 56, 91, 92, 100, 250] {
        for height in [0, 1, 2, 5, 9, 15, 24, 30, 80] {
            let lines = lines(&facts(), &sample(), width, height);
            assert!(lines.len() <= height, "{width}x{height}: {} lines", lines.len());
            assert!(lines.iter().all(|line| line.width() <= width), "{width}x{height}");
            let script = script_lines("SELECT 1;\nSELECT 2;", width, height);
            assert!(script.len() <= height.max(1) && script.iter().all(|line| line.width() <= width));
        }
    }
}

#[test]
fn of_many_partitions_those_that_matter_are_shown() {
    let mut picture = sample();
    let ahead = picture.partitions[0].clone();
    let more = (3..20).map(|i| Partition { name: format!("clicks-{i}"), ..ahead.clone() });
    picture.partitions.extend(more);
    picture.partitions[19].state = Standing::Idle { ms: 2_500 };
    let lines = lines(&facts(), &picture, 100, 40);
    let has = |wanted: &str| assert!(lines.iter().any(|l| l.text().contains(wanted)), "{wanted}");
    ["clicks-0 ", "clicks-1 ", "clicks-2 ", "clicks-19", "and 14 more"].into_iter().for_each(has);
}

#[test]
fn a_small_loss_is_still_seen_in_the_bar() {
    assert_eq!(bar(1_000, 1, BAR).text(), "███████░ ");
    assert_eq!(bar(1_000, 0, BAR).text(), "████████ ");
    assert_eq!(bar(0, 5, BAR).text(), "░░░░░░░░ ");
}
