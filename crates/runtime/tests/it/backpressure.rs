//! Checkpoints while the sink is far slower than the source: the channel is full all the time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_api::graph::Partitioner;
use tokio::sync::Semaphore;

use crate::fakes::{FakeSource, Job, Running, Step, Taken, block_on};

/// Batches a channel takes, as the runtime has it.
const CREDITS: i64 = 8;
const SOURCE: &str = "Source: t";

/// A source of many batches of one row, and behind an exchange a sink that writes one for each permit. On return
/// the channel is full, and the source waits with the next batch.
fn stuck(settings: &[(&str, &str)]) -> (Running, Taken) {
    let rows = (0..200).map(|v| Step::Rows(0, vec![("a", v, Some(0.0))])).collect();
    let taken = Taken { gate: Some(Arc::new(Semaphore::new(0))), ..Taken::default() };
    let mut job = Job::default();
    let source = job.source("t", FakeSource::new(&["s"], rows, false), 0, 1);
    job.sink(source, "out", &taken);
    let edge = job.graph.edges.last_mut().unwrap();
    edge.partitioner = Partitioner::Hash(vec![0]);
    // Checkpoints are asked for.
    job.graph.config.set("execution.checkpointing.interval", "1 h");
    settings.iter().for_each(|(key, value)| job.graph.config.set(*key, *value));
    let running = job.start();
    // The first watermark has taken a credit too.
    running.until("a full channel", |r| read(r) >= CREDITS);
    (running, taken)
}

fn read(running: &Running) -> i64 {
    running.metric(SOURCE, 0, "numRecordsIn").unwrap_or(0)
}

fn written(taken: &Taken) -> i64 {
    taken.batches.lock().unwrap().len() as i64
}

/// Lets the sink write one more batch, and waits until the source has read another for the room it makes.
fn write_one(running: &Running, taken: &Taken) {
    let before = (read(running), written(taken));
    taken.gate.as_ref().unwrap().add_permits(1);
    running.until("one batch more", |r| written(taken) > before.1 && read(r) > before.0);
}

/// Asks for a checkpoint, and returns when the source has been told.
fn ask(running: &Running) -> std::thread::JoinHandle<String> {
    let handle = running.handle.clone();
    let asked = std::thread::spawn(move || {
        block_on(async {
            loop {
                match handle.checkpoint().await {
                    Ok(taken) => return taken.location,
                    // The coordinator learns a moment later than the tasks that they run.
                    Err(e) if e.to_string().contains("Not all required tasks") => {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        })
    });
    running.until("a checkpoint that has begun", |r| !r.handle.checkpoints().in_progress.is_empty());
    asked
}

#[test]
fn barriers_overtake_a_full_channel_one_checkpoint_after_the_other() {
    let (running, taken) = stuck(&[("execution.checkpointing.unaligned.enabled", "true")]);
    for id in 1..=5 {
        let asked = ask(&running);
        let before = written(&taken);
        // With the first batch the source gets room, and says its barrier; after the second the sink hears it.
        write_one(&running, &taken);
        write_one(&running, &taken);
        running.until("a complete checkpoint", |r| r.handle.checkpoints().completed == id);
        assert_eq!(written(&taken), before + 2, "the others were overtaken");
        let location = asked.join().unwrap();
        let checkpoints = running.handle.checkpoints();
        let latest = checkpoints.latest.unwrap();
        assert_eq!((latest.id, latest.location), (id, location), "they complete in their order");
        assert_eq!(checkpoints.failed, 0);
        assert!(latest.bytes > 0, "what was overtaken is part of the checkpoint");
    }
    running.handle.cancel().unwrap();
}

/// The other way round: without overtaking a checkpoint takes as long as all that is in its way.
#[test]
fn an_aligned_barrier_waits_its_turn() {
    let (running, taken) = stuck(&[]);
    let asked = ask(&running);
    let before = written(&taken);
    for _ in 0..CREDITS / 2 {
        write_one(&running, &taken);
    }
    assert_eq!(running.handle.checkpoints().completed, 0);
    while running.handle.checkpoints().completed == 0 {
        write_one(&running, &taken);
    }
    assert!(written(&taken) - before >= CREDITS - 2, "all that was in its way");
    asked.join().unwrap();
    running.handle.cancel().unwrap();
}
