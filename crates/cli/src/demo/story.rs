//! The lab, told step by step: what one event did under each watermark delay, and why. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::text::{Line, Look, clock, delay, wrap};

/// Length of the lab's windows.
pub const WINDOW_MS: i64 = 10_000;

/// A query before or after an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// The watermark delay.
    pub delay_ms: i64,
    /// The watermark.
    pub watermark: Option<i64>,
    /// Counts of the windows closed, by start.
    pub closed: BTreeMap<i64, u64>,
    /// Events dropped as late, by start of the window.
    pub late: BTreeMap<i64, u64>,
}

/// Tells the lab.
pub struct Story {
    /// How many events each window has in truth, by start.
    truth: BTreeMap<i64, u64>,
    newest: Option<i64>,
    /// Where delays are told apart.
    sides: Vec<Side>,
    width: usize,
}

impl Story {
    /// The lab of these event times (all of them, in the order they arrive) and delays.
    pub fn new(events: &[i64], delays: &[i64], width: usize) -> Story {
        let mut truth = BTreeMap::new();
        events.iter().for_each(|ts| *truth.entry(start_of(*ts)).or_default() += 1);
        let sides = delays.iter().map(|d| Side { delay_ms: *d, ..Side::default() }).collect();
        Story { truth, newest: None, sides, width }
    }

    /// What is said before the first event.
    pub fn opening(&self) -> Vec<Line> {
        let events: u64 = self.truth.values().sum();
        let delays: Vec<String> = self.sides.iter().map(|s| delay(s.delay_ms)).collect();
        let text = format!(
            "{events} clicks go to Kafka one after the other, four of them out of order. One job counts them in \
             windows of 10 s, under the watermark delays {}. A watermark says: no click older than this will come. It \
             is the newest click so far, less the delay. A window closes when the watermark reaches its end; a click \
             that comes for a closed window is late and is dropped.",
            delays.join(", ")
        );
        let mut lines = self.paragraph(Look::Plain, "", &text);
        lines.push(Line::new());
        let mut head = Line::of(Look::Strong, "  #  click");
        for side in &self.sides {
            let word = if self.width >= 66 { "delay " } else { "" };
            head = head.pad(self.column(side.delay_ms)).add(Look::Strong, format!("{word}{}", delay(side.delay_ms)));
        }
        lines.push(head.add(Look::Dim, if self.is_wide() { "   (watermark before > after)" } else { "" }));
        lines
    }

    fn is_wide(&self) -> bool {
        self.width >= 92
    }

    /// Where the column of a delay begins.
    fn column(&self, delay_ms: i64) -> usize {
        let index = self.sides.iter().position(|s| s.delay_ms == delay_ms).unwrap_or(0);
        let (first, each) = if self.width >= 66 { (16, 17) } else { (14, 8) };
        first + index * each
    }

    /// What event `number`, of this time, did: `after` is what there is now.
    pub fn step(&mut self, number: usize, ts: i64, after: Vec<Side>) -> Vec<Line> {
        let before = std::mem::replace(&mut self.sides, after);
        let behind = self.newest.filter(|newest| ts < *newest).map(|newest| newest - ts);
        let look = if behind.is_some() { Look::Warn } else { Look::Plain };
        let mut line = Line::of(Look::Dim, format!("{number:>3}  ")).add(look, clock(ts));
        for (old, new) in before.iter().zip(&self.sides) {
            line = line.pad(self.column(new.delay_ms)).join(self.watermark(old, new));
        }
        let mut lines = vec![line];
        if let Some(behind) = behind {
            lines.extend(self.out_of_order(ts, behind, &before));
        }
        for (old, new) in before.iter().zip(&self.sides) {
            for (start, rows) in new.closed.iter().filter(|(start, _)| !old.closed.contains_key(start)) {
                lines.extend(self.closing(new, *start, *rows));
            }
        }
        self.newest = self.newest.max(Some(ts));
        lines
    }

    /// `00:09 > 00:10`, or what stands still.
    fn watermark(&self, old: &Side, new: &Side) -> Line {
        let short = |ms: Option<i64>| ms.map_or("none".to_owned(), |ms| clock(ms)[3..].to_owned());
        let after = short(new.watermark);
        match old.watermark == new.watermark {
            true => Line::of(Look::Dim, after),
            false if self.width >= 66 => {
                Line::of(Look::Dim, format!("{:>5} > ", short(old.watermark))).add(Look::Plain, after)
            }
            false => Line::of(Look::Plain, after),
        }
    }

    fn out_of_order(&self, ts: i64, behind_ms: i64, before: &[Side]) -> Vec<Line> {
        let start = start_of(ts);
        let window = span(start);
        let lost_in = |(old, new): &(&Side, &Side)| new.late.get(&start) > old.late.get(&start);
        let pairs: Vec<(&Side, &Side)> = before.iter().zip(&self.sides).collect();
        let lost: BTreeSet<i64> = pairs.iter().filter(|pair| lost_in(pair)).map(|(_, new)| new.delay_ms).collect();
        let kept: Vec<i64> = before.iter().map(|s| s.delay_ms).filter(|d| !lost.contains(d)).collect();
        let head = format!("Out of order: {} behind the newest click. Its window is {window}. ", delay(behind_ms));
        if lost.is_empty() {
            let text = format!("{head}That is still open everywhere, so the click is counted, late as it is.");
            return self.paragraph(Look::Warn, "    ", &text);
        }
        let mut text = head;
        for old in before.iter().filter(|s| lost.contains(&s.delay_ms)) {
            let watermark = old.watermark.map_or("?".to_owned(), clock);
            text += &format!(
                "Delay {}: closed already, for the watermark is {watermark}; the click is late and is dropped. ",
                delay(old.delay_ms)
            );
        }
        if !kept.is_empty() {
            let kept: Vec<String> = kept.into_iter().map(delay).collect();
            text += &format!("Still open, and counted, under delay {}.", kept.join(" and "));
        }
        self.paragraph(Look::Bad, "    ", &text)
    }

    fn closing(&self, side: &Side, start: i64, rows: u64) -> Vec<Line> {
        let truth = self.truth.get(&start).copied().unwrap_or(rows);
        let what = match truth.saturating_sub(rows) {
            0 => format!("{}, all there are", clicks(rows)),
            missing => {
                format!("{rows} clicks; {missing} of its {truth} {} missing", if missing == 1 { "is" } else { "are" })
            }
        };
        let look = if truth > rows { Look::Bad } else { Look::Good };
        let text = format!(
            "Delay {}: the watermark has reached {}, so {} closes with {what}.",
            delay(side.delay_ms),
            clock(start + WINDOW_MS),
            span(start)
        );
        self.paragraph(look, "    ", &text)
    }

    /// What is said after the last event.
    pub fn ending(&self) -> Vec<Line> {
        let mut lines = vec![Line::new(), self.table_head()];
        for (start, truth) in &self.truth {
            let mut line = Line::of(Look::Plain, format!("  {}", span(*start))).pad(26);
            line = line.add(Look::Plain, format!("{truth:>5}"));
            for side in &self.sides {
                line = line.add(Look::Plain, "  ").join(verdict(side, *start, *truth));
            }
            lines.push(line);
        }
        lines.push(Line::new());
        for side in &self.sides {
            let late: u64 = side.late.values().sum();
            let first = side.closed.keys().next().map(|start| (start + WINDOW_MS + side.delay_ms, *start));
            let when = first.map_or(String::new(), |(needed, start)| {
                format!(
                    " Its first window, {}, closed when a click of {} or later had come.",
                    span(start),
                    clock(needed)
                )
            });
            let lost = match late {
                0 => "lost nothing.".to_owned(),
                1 => "lost 1 click.".to_owned(),
                n => format!("lost {n} clicks."),
            };
            let look = if late == 0 { Look::Good } else { Look::Bad };
            lines.extend(self.paragraph(look, "", &format!("Delay {} {lost}{when}", delay(side.delay_ms))));
        }
        lines.push(Line::new());
        let open: Vec<i64> = self.truth.keys().copied().filter(|start| !self.closed_anywhere(*start)).collect();
        for start in open {
            let text = format!(
                "{} is still open: no click after its end has come, and without clicks event time stands still, \
                 however long you wait.",
                span(start)
            );
            lines.extend(self.paragraph(Look::Plain, "", &text));
        }
        lines.extend(self.paragraph(
            Look::Plain,
            "",
            "A delay is a choice between a complete answer and an early one. Go on with: tidegate demo",
        ));
        lines
    }

    fn table_head(&self) -> Line {
        let mut head = Line::of(Look::Strong, "  window").pad(26).add(Look::Strong, "truth");
        for side in &self.sides {
            head = head.add(Look::Strong, format!("  {:>10}", format!("delay {}", delay(side.delay_ms))));
        }
        head
    }

    fn closed_anywhere(&self, start: i64) -> bool {
        self.sides.iter().any(|side| side.closed.contains_key(&start))
    }

    fn paragraph(&self, look: Look, indent: &str, text: &str) -> Vec<Line> {
        let lines = wrap(text, self.width.saturating_sub(indent.len() + 1).max(20)).into_iter();
        lines.map(|line| Line::of(look, format!("{indent} {line}").trim_end())).collect()
    }
}

fn verdict(side: &Side, start: i64, truth: u64) -> Line {
    match side.closed.get(&start) {
        Some(rows) if *rows == truth => Line::of(Look::Good, format!("{rows:>10}")),
        Some(rows) => Line::of(Look::Bad, format!("{rows:>10}")),
        None => Line::of(Look::Dim, format!("{:>10}", "open")),
    }
}

fn clicks(n: u64) -> String {
    if n == 1 { "1 click".to_owned() } else { format!("{n} clicks") }
}

fn start_of(ts: i64) -> i64 {
    ts.div_euclid(WINDOW_MS) * WINDOW_MS
}

/// `[10:00:00, 10:00:10)`.
fn span(start: i64) -> String {
    format!("[{}, {})", clock(start), clock(start + WINDOW_MS))
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::TEN;
    use super::*;

    fn side(delay_ms: i64, watermark: i64, closed: &[(i64, u64)], late: &[(i64, u64)]) -> Side {
        let at = |list: &[(i64, u64)]| list.iter().map(|(start, n)| (TEN + start, *n)).collect();
        Side { delay_ms, watermark: Some(TEN + watermark), closed: at(closed), late: at(late) }
    }

    fn story() -> Story {
        let events: Vec<i64> = [0, 6, 3, 10, 8].iter().map(|s| TEN + s * 1_000).collect();
        Story::new(&events, &[0, 5_000], 100)
    }

    fn text(lines: &[Line]) -> String {
        let text: String = lines.iter().map(|l| l.paint(false) + "\n").collect();
        // As if no line had been too long.
        text.replace("\n     ", " ")
    }

    #[test]
    fn each_kind_of_event_is_explained() {
        let mut story = story();
        assert!(text(&story.opening()).contains("5 clicks go to Kafka"));
        let first = text(&story.step(1, TEN, vec![side(0, 0, &[], &[]), side(5_000, -5_000, &[], &[])]));
        assert_eq!(first, "  1  10:00:00    none > 00:00     none > 59:55\n");
        story.step(2, TEN + 6_000, vec![side(0, 6_000, &[], &[]), side(5_000, 1_000, &[], &[])]);
        let kept = text(&story.step(3, TEN + 3_000, vec![side(0, 6_000, &[], &[]), side(5_000, 1_000, &[], &[])]));
        assert!(kept.starts_with("  3  10:00:03   00:06            00:01"), "{kept}");
        assert!(kept.contains("3 s behind the newest click") && kept.contains("still open everywhere"), "{kept}");
        let closes = vec![side(0, 10_000, &[(0, 3)], &[]), side(5_000, 5_000, &[], &[])];
        let closes = text(&story.step(4, TEN + 10_000, closes));
        assert!(
            closes.contains("Delay 0 s: the watermark has reached 10:00:10, so [10:00:00, 10:00:10) closes with 3")
        );
        assert!(closes.contains("1 of its 4 is missing"), "{closes}");
        let late = vec![side(0, 10_000, &[(0, 3)], &[(0, 1)]), side(5_000, 5_000, &[], &[])];
        let late = text(&story.step(5, TEN + 8_000, late));
        assert!(late.contains("Delay 0 s: closed already, for the watermark is 10:00:10; the click is late"), "{late}");
        assert!(late.contains("counted, under delay 5 s."), "{late}");
        let end = text(&story.ending());
        assert!(end.contains("  [10:00:00, 10:00:10)        4           3        open\n"), "{end}");
        assert!(end.contains("[10:00:10, 10:00:20) is still open"), "{end}");
    }

    #[test]
    fn narrow_terminals_are_kept_to() {
        let mut story = Story::new(&[TEN, TEN + 10_000], &[0, 5_000, 10_000], 40);
        let sides = || vec![side(0, 0, &[(0, 1)], &[]), side(5_000, -5_000, &[], &[]), side(10_000, -10_000, &[], &[])];
        let mut lines = story.opening();
        lines.extend(story.step(1, TEN, sides()));
        assert!(lines.iter().all(|line| line.width() <= 40), "{}", text(&lines));
    }
}
