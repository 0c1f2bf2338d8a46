//! `tidegate demo`: clicks are made, counted, and looked at while that happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_api::text::format_timestamp_sql;
use tidegate_api::{Error, Result};
use tidegate_connectors::kafka::Record;
use tokio::time::Instant;

use super::clicks::{Click, Clicks, Plan, Truth, WINDOW_MS};
use super::log::Log;
use super::picture::{Facts, Moment, Picture, Query, assemble};
use super::stage::{Place, Stage};
use super::terminal::{self, Screen, Wish};
use super::text::Line;
use super::{say_lines, screen, summary};
use crate::args::DemoArgs;
use crate::console::print_out;
use crate::signals::Signals;

/// How often clicks are sent.
const SEND: Duration = Duration::from_millis(20);
/// How often the picture is looked at.
const FRAME: Duration = Duration::from_millis(100);
const SCRIPT: &str = include_str!("../../../../examples/demo/delays.sql");
const QUERIES: [Query; 3] =
    [Query { id: "d0", delay_ms: 0 }, Query { id: "d2", delay_ms: 2_000 }, Query { id: "d5", delay_ms: 5_000 }];

/// The script, for this Kafka and topic.
pub fn script(place: &Place) -> String {
    let text = SCRIPT.replace("'localhost:9092'", &format!("'{}'", place.bootstrap));
    text.replace("'topic' = 'clicks'", &format!("'topic' = '{}'", place.topic))
}

/// What the tasks of the demo share.
struct Show {
    stage: Stage,
    facts: Facts,
    start: Instant,
    /// Event time at the start, in milliseconds since the epoch.
    base_ms: i64,
    truth: Mutex<Truth>,
    /// No more clicks, no more frames.
    over: AtomicBool,
}

impl Show {
    fn elapsed_ms(&self, at: Instant) -> i64 {
        at.saturating_duration_since(self.start).as_millis() as i64
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn truth(&self) -> Truth {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn picture(&self, elapsed_ms: i64) -> Picture {
        // In the order of a click's way backwards: what is counted has been read, what was read has been sent.
        let results = self.stage.results.snapshot();
        let view = self.stage.event_time();
        let now = Moment { elapsed_ms, wall_ms: self.stage.now_ms() };
        let stream_time = |counted: &super::results::Counted| self.base_ms + self.elapsed_ms(counted.at);
        assemble(&self.facts, &view, &results, &self.truth(), now, stream_time)
    }

    fn record(&self, click: &Click) -> Record {
        let user = format!("u{}", click.user);
        let ts = format_timestamp_sql(i128::from(self.base_ms + click.happened_ms) * 1_000_000, 3);
        let value = format!(r#"{{"user_id":"{user}","ts":"{ts}","seq":{}}}"#, click.seq);
        Record { partition: click.partition as i32, key: user, value }
    }

    /// Sends clicks as they are due, until the show is over.
    async fn send_clicks(&self, plan: Plan) -> Result<()> {
        let mut clicks = Clicks::new(plan);
        let mut ticks = tokio::time::interval(SEND);
        while !self.is_over() {
            ticks.tick().await;
            let elapsed_ms = self.elapsed_ms(Instant::now());
            let due = clicks.due(elapsed_ms);
            let records: Vec<Record> = due.iter().map(|click| self.record(click)).collect();
            self.stage.producer.send(&self.stage.place.topic, &records).await?;
            let mut truth = self.truth.lock().unwrap_or_else(PoisonError::into_inner);
            due.iter().for_each(|click| truth.sent(self.base_ms + click.happened_ms));
            let until_ms = due.last().map_or(elapsed_ms, |click| click.arrives_ms.max(elapsed_ms));
            truth.settled_ms = self.base_ms + until_ms - plan.disorder_ms;
        }
        Ok(())
    }

    /// The live view, on a thread of its own: keys are waited for.
    fn watch(&self, script: &str) -> Result<Wish> {
        let mut screen = Screen::enter(terminal::colours())?;
        let mut shows_script = false;
        while !self.is_over() {
            let (width, height) = screen.size();
            let lines: Vec<Line> = match shows_script {
                true => screen::script_lines(script, width, height),
                false => {
                    let picture = self.picture(self.elapsed_ms(Instant::now()));
                    screen::lines(&self.facts, &picture, width, height)
                }
            };
            screen.show(&lines)?;
            match screen.wait(FRAME)? {
                Some(Wish::Script) => shows_script = !shows_script,
                Some(Wish::Redraw) | None => {}
                Some(end) => return Ok(end),
            }
        }
        Ok(Wish::Quit)
    }

    /// The same as a log.
    async fn log(&self) -> Result<Wish> {
        let mut log = Log::default();
        let mut ticks = tokio::time::interval(FRAME);
        while !self.is_over() {
            ticks.tick().await;
            let picture = self.picture(self.elapsed_ms(Instant::now()));
            let text: String = log.lines(&self.facts, &picture).iter().map(|line| format!("{line}\n")).collect();
            if !text.is_empty() {
                print_out(&text)?;
            }
        }
        Ok(Wish::Quit)
    }
}

/// Runs the demo to its end: by itself, by a key or by a signal.
pub async fn live(args: &DemoArgs, signals: &Signals) -> Result<()> {
    let (show, plan, script) = open(args).await?;
    let limit = show.facts.limit_ms.map(|ms| Duration::from_millis(ms as u64));
    let (sending, watcher) = (show.clone(), show.clone());
    let mut sender = tokio::spawn(async move { sending.send_clicks(plan).await });
    let shown = !args.plain && terminal::can_show();
    let mut watching = tokio::spawn(async move {
        match shown {
            true => joined(tokio::task::spawn_blocking(move || watcher.watch(&script)).await),
            false => watcher.log().await,
        }
    });
    let ended: Result<Wish> = tokio::select! {
        ended = &mut watching => joined(ended),
        ended = &mut sender => joined(ended).map(|()| Wish::Quit),
        ended = show.stage.job()?.wait() => ended.map(|()| Wish::Quit),
        () = signals.wait() => Ok(Wish::Interrupt),
        () = terminal::hangup() => {
            // Nobody is there to be told anything, and the view may wait for keys for ever.
            show.stage.close().await;
            return Err(Error::output_closed());
        }
        () = after(limit) => Ok(Wish::Quit),
    };
    let elapsed_ms = show.elapsed_ms(Instant::now());
    show.over.store(true, Ordering::SeqCst);
    // Both see it within a frame; the terminal is given back before anything is said.
    if !watching.is_finished() {
        let _ = watching.await;
    }
    if !sender.is_finished() {
        let _ = sender.await;
    }
    let wish = ended?;
    let is_settled = |_: &_| {
        let picture = show.picture(elapsed_ms);
        picture.delays.iter().all(|d| d.read == picture.sent && d.balances())
    };
    // If it takes too long, the summary says so.
    show.stage.settle(is_settled).await?;
    say_lines(&summary::lines(&show.facts, &show.picture(elapsed_ms), terminal::text_width()))?;
    show.stage.close().await;
    match wish {
        Wish::Interrupt => {
            if !signals.came() {
                signals.interrupt();
            }
            Err(Error::cancelled())
        }
        _ => Ok(()),
    }
}

/// Everything up to the first click.
async fn open(args: &DemoArgs) -> Result<(Arc<Show>, Plan, String)> {
    let plan = Plan {
        rate: args.rate,
        disorder_ms: (args.disorder * 1_000.0) as i64,
        partitions: u32::from(args.partitions),
        seed: args.seed,
    };
    let mut stage = Stage::open(&args.stage, "clicks", plan.partitions).await?;
    let script = script(&stage.place);
    print_out(&format!("{}\n", script.trim_end()))?;
    print_out(&format!(
        "\n-- This script runs now. Kafka on {}: run it there a second time, with tidegate run.\n\
         -- REST on http://{}\n\n",
        stage.place.bootstrap, stage.rest
    ))?;
    stage.run(&script, plan.partitions).await?;
    let facts = Facts {
        rate: plan.rate,
        disorder_ms: plan.disorder_ms,
        bootstrap: stage.place.bootstrap.clone(),
        rest: format!("http://{}", stage.rest),
        queries: QUERIES.to_vec(),
        limit_ms: args.seconds.map(|s| i64::from(s) * 1_000),
    };
    // Event time is the wall clock's, set back to where a window begins.
    let base_ms = stage.now_ms().div_euclid(WINDOW_MS) * WINDOW_MS;
    let show =
        Show { stage, facts, start: Instant::now(), base_ms, truth: Mutex::default(), over: AtomicBool::new(false) };
    Ok((Arc::new(show), plan, script))
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn joined<T>(ended: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    ended.unwrap_or_else(|e| Err(Error::internal(format!("a task of the demo: {e}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_pointed_at_another_kafka() {
        let text = script(&Place { bootstrap: "127.0.0.1:7".into(), topic: "t9".into() });
        assert!(text.contains("'properties.bootstrap.servers' = '127.0.0.1:7'") && text.contains("'topic' = 't9'"));
        assert!(!text.contains("localhost"));
        for query in QUERIES {
            assert!(text.contains(&format!("TABLE clicks_{} ", query.id)) && text.contains(&format!("'{}'", query.id)));
        }
    }
}
