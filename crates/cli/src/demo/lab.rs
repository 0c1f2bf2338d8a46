//! `tidegate demo lab`: the 41 events of `examples/lab`, one by one, each explained.

use std::time::Duration;

use tidegate_api::text::format_timestamp_sql;
use tidegate_api::{Error, Result};
use tidegate_connectors::kafka::Record;
use tidegate_runtime::view::EventTimeView;

use super::picture::Query;
use super::results::ByQuery;
use super::say_lines;
use super::stage::{Place, Stage};
use super::story::{Side, Story};
use super::terminal;
use crate::args::StageArgs;
use crate::signals::Signals;

/// Between two events, as the lab's producer sends them.
const PACE: Duration = Duration::from_millis(300);
/// 2026-10-01 10:00:00 UTC, the lab's beginning of time.
const START_MS: i64 = 1_790_848_800_000;
const SCRIPT: &str = include_str!("../../../../examples/lab/s2.sql");
/// The second of each event, in the order they arrive.
const EVENTS: &str = include_str!("../../../../examples/lab/events.txt");
const QUERIES: [Query; 3] =
    [Query { id: "d0", delay_ms: 0 }, Query { id: "d5", delay_ms: 5_000 }, Query { id: "d10", delay_ms: 10_000 }];

/// Plays the lab to its end.
pub async fn lab(args: &StageArgs, fast: bool, signals: &Signals) -> Result<()> {
    let events = events()?;
    let mut stage = Stage::open(args, "clicks1", 1).await?;
    stage.run(&script(&stage.place), 1).await?;
    let delays: Vec<i64> = QUERIES.iter().map(|q| q.delay_ms).collect();
    let mut story = Story::new(&events, &delays, terminal::text_width());
    say_lines(&story.opening())?;
    let played = tokio::select! {
        played = play(&stage, &mut story, &events, fast) => played,
        () = signals.wait() => Err(Error::cancelled()),
        () = terminal::hangup() => Err(Error::output_closed()),
    };
    if played.is_ok() {
        say_lines(&story.ending())?;
    }
    stage.close().await;
    played
}

async fn play(stage: &Stage, story: &mut Story, events: &[i64], fast: bool) -> Result<()> {
    let mut pace = tokio::time::interval(PACE);
    let mut newest = i64::MIN;
    for (index, ts) in events.iter().enumerate() {
        if !fast {
            pace.tick().await;
        }
        let number = index + 1;
        stage.producer.send(&stage.place.topic, &[record(number, *ts)]).await?;
        newest = newest.max(*ts);
        let done = |view: &EventTimeView| QUERIES.iter().all(|q| is_done(stage, view, *q, number as u64, newest));
        if !stage.settle(done).await? {
            return Err(Error::job(format!("Event {number} has not come through the job in time.")));
        }
        let (view, results) = (stage.event_time(), stage.results.snapshot());
        let sides = QUERIES.iter().map(|query| side(&view, &results, *query)).collect();
        say_lines(&story.step(number, *ts, sides))?;
    }
    Ok(())
}

fn events() -> Result<Vec<i64>> {
    let second = |line: &str| line.trim().parse::<i64>().map(|s| START_MS + s * 1_000);
    let events: std::result::Result<Vec<i64>, _> = EVENTS.lines().map(second).collect();
    events.map_err(|e| Error::internal(format!("the lab's events: {e}")))
}

fn script(place: &Place) -> String {
    let text = SCRIPT.replace("'localhost:9092'", &format!("'{}'", place.bootstrap));
    text.replace("'clicks1'", &format!("'{}'", place.topic))
}

fn record(number: usize, ts: i64) -> Record {
    let user = format!("u{}", number % 3 + 1);
    let time = format_timestamp_sql(i128::from(ts) * 1_000_000, 3);
    let value = format!(r#"{{"user_id":"{user}","ts":"{time}","seq":{number}}}"#);
    Record { partition: 0, key: user, value }
}

/// Whether a query has done all that these events make it do.
fn is_done(stage: &Stage, view: &EventTimeView, query: Query, events: u64, newest: i64) -> bool {
    let table = format!("clicks_{}[", query.id);
    let read: u64 = view
        .sources
        .iter()
        .filter(|s| s.name.contains(&table))
        .flat_map(|s| s.splits.iter().map(|split| split.rows))
        .sum();
    let Some(window) = view.windows.iter().find(|w| w.sources.iter().any(|s| s.contains(&table))) else { return false };
    if read != events || window.watermark != Some(newest - query.delay_ms) {
        return false;
    }
    let counted: u64 =
        stage.results.snapshot().get(query.id).map_or(0, |windows| windows.values().map(|w| w.rows).sum());
    let open: u64 = window.nearest.iter().map(|w| w.rows.unsigned_abs()).sum();
    counted + open + window.late_rows == events
}

fn side(view: &EventTimeView, results: &ByQuery, query: Query) -> Side {
    let table = format!("clicks_{}[", query.id);
    let window = view.windows.iter().find(|w| w.sources.iter().any(|s| s.contains(&table)));
    let closed = results.get(query.id).map(|windows| windows.iter().map(|(start, w)| (*start, w.rows)).collect());
    Side {
        delay_ms: query.delay_ms,
        watermark: window.and_then(|w| w.watermark),
        closed: closed.unwrap_or_default(),
        late: window.map(|w| w.late.iter().map(|l| (l.start, l.rows)).collect()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_the_one_of_the_examples() {
        assert_eq!(events().unwrap().len(), 41);
        let text = script(&Place { bootstrap: "127.0.0.1:7".into(), topic: "t".into() });
        assert!(!text.contains("localhost") && text.contains("'topic' = 't'"));
        assert_eq!(record(7, START_MS + 3_000).value, r#"{"user_id":"u2","ts":"2026-10-01 10:00:03.000","seq":7}"#);
    }
}
