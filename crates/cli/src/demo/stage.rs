//! What the demo plays on: a broker, a topic, the script's job, and REST to look at it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_api::config::Configuration;
use tidegate_api::{Error, Result};
use tidegate_broker::{Broker, BrokerOptions, Report};
use tidegate_connectors::kafka::Producer;
use tidegate_connectors::print::PrintFactory;
use tidegate_runtime::view::EventTimeView;
use tidegate_sql::script::split_script;
use tidegate_sql::session::{Outcome, Session};

use super::results::Results;
use crate::args::StageArgs;
use crate::console::{Console, say};
use crate::engine::{Engine, Running};
use crate::rest;

/// How often the job is looked at while something is waited for.
const LOOK: Duration = Duration::from_millis(1);
/// How long the job may take to have its partitions.
const ASSIGN_WAIT: Duration = Duration::from_secs(30);
/// How long it may take to read and count what has been sent.
const SETTLE_WAIT: Duration = Duration::from_secs(10);
/// How long it may take to stop.
const STOP_WAIT: Duration = Duration::from_secs(3);

/// Where the demo's Kafka is and what its topic is called.
#[derive(Clone, Debug)]
pub struct Place {
    /// `host:port`.
    pub bootstrap: String,
    /// The topic.
    pub topic: String,
}

/// The running parts. Dropping it stops all of them.
pub struct Stage {
    /// Where Kafka is.
    pub place: Place,
    /// Where REST is.
    pub rest: SocketAddr,
    /// Sends events.
    pub producer: Producer,
    /// What the job has printed.
    pub results: Arc<Results>,
    engine: Arc<Engine>,
    job: Option<Running>,
    /// Absent if the user's Kafka is used.
    broker: Mutex<Option<Broker>>,
}

impl Stage {
    /// Starts the broker, unless there is one to be used, and REST, and makes the topic.
    pub async fn open(args: &StageArgs, topic: &str, partitions: u32) -> Result<Stage> {
        let (broker, place) = match &args.bootstrap {
            Some(bootstrap) => {
                // On somebody's Kafka each demo has a topic of its own.
                let topic = format!("tidegate_demo_{topic}_{}", std::process::id());
                (None, Place { bootstrap: bootstrap.clone(), topic })
            }
            None => {
                let options = BrokerOptions { report: Report::silent(), ..BrokerOptions::default() };
                let started = tokio::task::spawn_blocking(move || Broker::start(options)).await;
                let started = started.map_err(|e| Error::internal(format!("the broker's start: {e}")))?;
                let broker = started.map_err(|e| Error::job(e.to_string()))?;
                let place = Place { bootstrap: broker.bootstrap(), topic: topic.to_owned() };
                (Some(broker), place)
            }
        };
        let results: Arc<Results> = Arc::default();
        // Notices would tear the view; what they say is in it.
        let console = Console::new(true);
        let print = Arc::new(PrintFactory { out: Some(results.clone()) });
        let engine = Arc::new(Engine::with(&Configuration::default(), console, vec![print])?);
        let rest = rest::serve(engine.clone(), "127.0.0.1", args.port).await?.address;
        let producer = Producer::new(&place.bootstrap)?;
        producer.create_topic(&place.topic, partitions as i32).await?;
        Ok(Stage { place, rest, producer, results, engine, job: None, broker: Mutex::new(broker) })
    }

    /// Runs a script with one job, and waits until the job has the partitions of all its tables.
    pub async fn run(&mut self, script: &str, partitions: u32) -> Result<()> {
        let mut session = Session::new(self.engine.connectors().clone(), Configuration::default());
        for statement in split_script(script)? {
            if let Outcome::Job(planned) = session.execute(&statement)? {
                self.job = Some(self.engine.start(planned.graph)?);
            }
        }
        let assigned = |view: &EventTimeView| {
            !view.sources.is_empty() && view.sources.iter().all(|s| s.splits.len() == partitions as usize)
        };
        match self.until(ASSIGN_WAIT, assigned).await? {
            true => Ok(()),
            false => Err(Error::job(format!(
                "Kafka at '{}' has not told the partitions of topic '{}' within {} s.",
                self.place.bootstrap,
                self.place.topic,
                ASSIGN_WAIT.as_secs()
            ))),
        }
    }

    /// The job.
    pub fn job(&self) -> Result<&Running> {
        self.job.as_ref().ok_or_else(|| Error::internal("the demo's script starts no job"))
    }

    /// What event time does in it.
    pub fn event_time(&self) -> EventTimeView {
        self.job.as_ref().map(Running::event_time).unwrap_or_default()
    }

    /// The wall clock.
    pub fn now_ms(&self) -> i64 {
        (self.engine.now_ms())()
    }

    /// Waits until the job is as wanted; false if it is not in time. Fails if the job does.
    pub async fn until(&self, limit: Duration, ready: impl Fn(&EventTimeView) -> bool) -> Result<bool> {
        let job = self.job()?;
        let mut looks = tokio::time::interval(LOOK);
        let wait = async {
            loop {
                looks.tick().await;
                if ready(&self.event_time()) {
                    return;
                }
            }
        };
        tokio::select! {
            waited = tokio::time::timeout(limit, wait) => Ok(waited.is_ok()),
            ended = job.wait() => Err(ended.err().unwrap_or_else(|| Error::internal("the demo's job ended by itself"))),
        }
    }

    /// Waits until the job has read and counted what was sent, for a short while.
    pub async fn settle(&self, ready: impl Fn(&EventTimeView) -> bool) -> Result<bool> {
        self.until(SETTLE_WAIT, ready).await
    }

    /// Stops everything, in order.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(STOP_WAIT, self.engine.stop_all()).await;
        let broker = self.broker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if broker.is_none()
            && let Err(e) = self.producer.delete_topic(&self.place.topic).await
        {
            // The demo is over and has told what it knows.
            say(&format!("warning: {e}"));
        }
        let _ = tokio::task::spawn_blocking(move || drop(broker)).await;
    }
}
