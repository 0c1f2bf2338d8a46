//! The demo as a log, where no terminal is: what changed from one picture to the next. Pure.

use std::collections::BTreeSet;

use super::picture::{Cell, Facts, Picture, Standing};
use super::text::{clock, count, delay, seconds};

/// Remembers what has been said.
#[derive(Default)]
pub struct Log {
    /// Windows closed, by delay and start.
    closed: BTreeSet<(usize, i64)>,
    /// Windows that are told as a whole, by start.
    whole: BTreeSet<i64>,
    /// Partitions that are idle.
    idle: BTreeSet<String>,
}

impl Log {
    /// What is new in this picture.
    pub fn lines(&mut self, facts: &Facts, picture: &Picture) -> Vec<String> {
        let mut lines = Vec::new();
        for window in &picture.windows {
            let span = format!("{} - {}", clock(window.start), clock(window.end));
            for (i, (cell, query)) in window.cells.iter().zip(&facts.queries).enumerate() {
                let Cell::Closed { clicks, .. } = cell else { continue };
                if self.closed.insert((i, window.start)) {
                    let delay = delay(query.delay_ms);
                    lines.push(format!("delay {delay:<3}  closes {span} with {:>4} clicks", count(*clicks)));
                }
            }
            let all_closed = window.cells.iter().all(|cell| matches!(cell, Cell::Closed { .. }));
            if window.settled && all_closed && self.whole.insert(window.start) {
                let cells = window.cells.iter().zip(&facts.queries);
                let each: Vec<String> = cells.map(|(cell, query)| verdict(*cell, query.delay_ms)).collect();
                lines.push(format!("           {span} had {:>4} clicks: {}", count(window.sent), each.join(", ")));
            }
        }
        for partition in &picture.partitions {
            let idle = matches!(partition.state, Standing::Idle { .. });
            if idle && self.idle.insert(partition.name.clone()) {
                lines.push(format!("{} has had nothing for a while: idle, nobody waits for it", partition.name));
            } else if !idle && self.idle.remove(&partition.name) {
                lines.push(format!("{} speaks again", partition.name));
            }
        }
        let at = seconds(picture.elapsed_ms);
        lines.into_iter().map(|line| format!("{at:>7}  {line}")).collect()
    }
}

fn verdict(cell: Cell, delay_ms: i64) -> String {
    let lost = match cell {
        Cell::Closed { lost: 0, .. } => "complete".to_owned(),
        Cell::Closed { lost, .. } => format!("{} lost", count(lost)),
        Cell::Open { .. } | Cell::Empty => "open".to_owned(),
    };
    format!("delay {} {lost}", delay(delay_ms))
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::{facts, sample};
    use super::*;

    #[test]
    fn everything_is_said_once() {
        let mut log = Log::default();
        let lines = log.lines(&facts(), &sample());
        let wanted = [
            " 12.0 s  delay 0 s  closes 10:00:00 - 10:00:05 with  211 clicks",
            " 12.0 s  delay 2 s  closes 10:00:00 - 10:00:05 with  244 clicks",
            " 12.0 s  delay 5 s  closes 10:00:00 - 10:00:05 with  250 clicks",
            " 12.0 s             10:00:00 - 10:00:05 had  250 clicks: delay 0 s 39 lost, delay 2 s 6 lost, \
             delay 5 s complete",
            " 12.0 s  delay 0 s  closes 10:00:05 - 10:00:10 with  219 clicks",
            " 12.0 s  clicks-2 has had nothing for a while: idle, nobody waits for it",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(log.lines(&facts(), &sample()), Vec::<String>::new());
        let mut back = sample();
        back.partitions[2].state = Standing::CatchingUp;
        assert_eq!(log.lines(&facts(), &back), [" 12.0 s  clicks-2 speaks again"]);
    }
}
