//! The life of part files against a model, with crashes between any two things that are done to the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;
use tidegate_api::Result;

use super::block_on;
use super::job::{Job, Run, day_of, values};

const DAYS: [&str; 3] = ["2026-10-01", "2026-10-02", "2026-10-03"];
const DAY_MS: i64 = 24 * 3_600_000;
const FIRST_MS: i64 = 20_727 * DAY_MS;

#[derive(Clone, Debug)]
enum Step {
    /// Rows for one day.
    Write {
        subtask: usize,
        day: usize,
        rows: u8,
    },
    Advance {
        ms: i64,
    },
    Watermark {
        subtask: usize,
        days: i64,
    },
    Idle {
        subtask: usize,
        is_idle: bool,
    },
    /// A barrier; what comes of it.
    Barrier(Fate),
    /// The input of a subtask ends.
    Finish {
        subtask: usize,
    },
    /// The process dies at once, or some operations later.
    Crash {
        after: u64,
        again_after: Option<u64>,
        is_last_done: bool,
        power: bool,
        parallelism: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The checkpoint comes to nothing.
    Aborted,
    /// It is complete, and nothing is published before the next one.
    Complete,
    Published,
}

fn step() -> impl Strategy<Value = Step> {
    let crash = (0u64..60, proptest::option::of(0u64..12), any::<bool>(), any::<bool>(), 1usize..4);
    prop_oneof![
        8 => (0usize..3, 0usize..3, 1u8..6).prop_map(|(subtask, day, rows)| Step::Write { subtask, day, rows }),
        2 => (0i64..15_000).prop_map(|ms| Step::Advance { ms }),
        2 => (0usize..3, 0i64..5).prop_map(|(subtask, days)| Step::Watermark { subtask, days }),
        1 => (0usize..3, any::<bool>()).prop_map(|(subtask, is_idle)| Step::Idle { subtask, is_idle }),
        1 => (0usize..3).prop_map(|subtask| Step::Finish { subtask }),
        5 => prop_oneof![Just(Fate::Aborted), Just(Fate::Complete), Just(Fate::Published), Just(Fate::Published)]
            .prop_map(Step::Barrier),
        3 => crash.prop_map(|(after, again_after, is_last_done, power, parallelism)| Step::Crash {
            after, again_after, is_last_done, power, parallelism
        }),
    ]
}

/// How the table announces its partitions.
fn options(kind: u8) -> Vec<(&'static str, &'static str)> {
    let mut options = vec![
        ("sink.rolling-policy.file-size", "8"),
        ("sink.rolling-policy.rollover-interval", "20 s"),
        ("sink.rolling-policy.inactivity-interval", "8 s"),
        ("sink.rolling-policy.check-interval", "3 s"),
    ];
    let announced = ("sink.partition-commit.policy.kind", "success-file");
    match kind {
        0 => {}
        1 => options.push(announced),
        2 => options.extend([announced, ("sink.partition-commit.delay", "10 s")]),
        _ => options.extend([announced, ("sink.partition-commit.trigger", "partition-time")]),
    }
    options
}

/// What ought to be there.
struct Model {
    job: Job,
    run: Option<Run>,
    /// The day of each row that the source has, by its number.
    source: Vec<usize>,
    /// The next row to be read, and what it was at the last complete checkpoint.
    next: usize,
    complete: usize,
    /// What it was at the first barrier of which nothing is published.
    unpublished: Option<usize>,
    /// Finished files that must stay as they are.
    finished: BTreeMap<PathBuf, Vec<u8>>,
    parallelism: usize,
    /// What happens at the crash that is set.
    crash: Option<(bool, Option<(u64, bool)>, usize)>,
}

impl Model {
    async fn start(&mut self) {
        loop {
            match self.job.start(self.parallelism).await {
                Ok(run) => {
                    self.run = Some(run);
                    self.next = self.complete;
                    self.unpublished = None;
                    return self.note();
                }
                Err(error) => {
                    assert!(self.crash.is_some(), "it does not start: {error}");
                    self.revive();
                }
            }
        }
    }

    /// The process is gone; the next one finds the disk.
    fn revive(&mut self) {
        let Some((power, again, parallelism)) = self.crash.take() else { panic!("nobody had crashed it") };
        // A process that is killed cleans nothing up.
        self.job.disk.die_after(0, false);
        self.run = None;
        self.job.disk.revive(power);
        self.job.disk.announced();
        self.parallelism = parallelism;
        if let Some((after, is_last_done)) = again {
            self.job.disk.die_after(after, is_last_done);
            self.crash = Some((false, None, parallelism));
        }
        self.check();
    }

    /// Does something that may end in the crash that is set.
    async fn outlive(&mut self, done: Result<()>) {
        if let Err(error) = done {
            assert!(self.crash.is_some(), "{error}");
            self.revive();
            self.start().await;
        }
        self.check();
    }

    /// What was published without a crash stays.
    fn note(&mut self) {
        self.finished.extend(self.job.disk.seen());
    }

    fn check(&self) {
        let seen = self.job.disk.seen();
        for (path, bytes) in &self.finished {
            assert_eq!(seen.get(path), Some(bytes), "{} is finished", path.display());
        }
        let mut all = BTreeSet::new();
        for (path, bytes) in &seen {
            for value in values(bytes) {
                let row = usize::try_from(value).expect("a row");
                assert!(all.insert(row), "row {row} is there twice");
                assert_eq!(DAYS[self.source[row]], day_of(path));
                assert!(row < self.complete, "row {row} is seen before its checkpoint is complete");
            }
        }
    }

    /// Every announcement came when all rows of the day up to the barrier could be seen.
    fn check_announced(&mut self) {
        let barrier = self.unpublished.take().unwrap_or(self.complete);
        let seen = self.job.disk.seen();
        for (path, beside) in self.job.disk.announced() {
            let there: BTreeSet<i32> = beside.iter().flat_map(|path| values(&seen[path])).collect();
            for row in (0..barrier).filter(|row| DAYS[self.source[*row]] == day_of(&path)) {
                let row = i32::try_from(row).expect("few rows");
                assert!(there.contains(&row), "{} is announced without row {row}", path.display());
            }
        }
    }

    async fn publish(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        // The last one first: subtasks publish in any order.
        for subtask in (0..run.parallelism()).rev() {
            run.commit_of(subtask).await?;
        }
        self.note();
        self.check_announced();
        Ok(())
    }

    async fn barrier(&mut self, fate: Fate) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let kept = self.job.barrier(run).await?;
        self.unpublished.get_or_insert(self.next);
        if fate == Fate::Aborted {
            return Ok(());
        }
        self.job.complete = kept;
        self.complete = self.next;
        if fate == Fate::Published { self.publish().await } else { Ok(()) }
    }

    /// A live subtask to stand for this number; the last of them does not end.
    fn live(&self, subtask: usize) -> Option<usize> {
        let run = self.run.as_ref()?;
        let live: Vec<usize> = (0..run.parallelism()).filter(|subtask| run.is_live(*subtask)).collect();
        live.get(subtask % live.len().max(1)).copied()
    }

    async fn write(&mut self, subtask: usize, day: usize, rows: u8) -> Result<()> {
        let (Some(subtask), from) = (self.live(subtask), self.next) else { return Ok(()) };
        for _ in 0..rows {
            if self.next == self.source.len() {
                self.source.push(day);
            }
            self.next += 1;
        }
        let rows: Vec<(usize, i32)> =
            (from..self.next).map(|row| (self.source[row], i32::try_from(row).expect("few rows"))).collect();
        let Some(run) = &mut self.run else { return Ok(()) };
        for (day, row) in rows {
            run.write(subtask, DAYS[day], &[row]).await?;
        }
        Ok(())
    }

    /// A subtask ends, publishes with a last checkpoint, and goes.
    async fn finish(&mut self, subtask: usize) -> Result<()> {
        let Some(subtask) = self.live(subtask) else { return Ok(()) };
        let Some(run) = &mut self.run else { return Ok(()) };
        if (0..run.parallelism()).filter(|subtask| run.is_live(*subtask)).count() < 2 {
            return Ok(());
        }
        run.finish(subtask).await?;
        self.barrier(Fate::Published).await?;
        if let Some(run) = &mut self.run {
            run.leave(subtask);
        }
        // What it leaves is in the next one's checkpoint.
        self.barrier(Fate::Published).await
    }

    async fn end(&mut self) -> Result<()> {
        // Rows that had been read before a crash and are not read again yet.
        while self.next < self.source.len() {
            self.write(0, 0, 1).await?;
        }
        let Some(run) = self.run.take() else { return Ok(()) };
        self.complete = self.next;
        self.job.end(run).await
    }
}

async fn live_through(kind: u8, steps: &[Step]) {
    let mut model = Model {
        job: Job::new(&options(kind)),
        run: None,
        source: Vec::new(),
        next: 0,
        complete: 0,
        unpublished: None,
        finished: BTreeMap::new(),
        parallelism: 2,
        crash: None,
    };
    model.start().await;
    for step in steps {
        let done = match step.clone() {
            Step::Write { subtask, day, rows } => model.write(subtask, day, rows).await,
            Step::Advance { ms } => {
                model.job.clock.advance_ms(ms);
                Ok(())
            }
            Step::Watermark { subtask, days } => {
                if let (Some(subtask), Some(run)) = (model.live(subtask), &mut model.run) {
                    run.watermark(subtask, FIRST_MS + days * DAY_MS + 1);
                }
                Ok(())
            }
            Step::Idle { subtask, is_idle } => {
                if let (Some(subtask), Some(run)) = (model.live(subtask), &mut model.run) {
                    run.idle(subtask, is_idle);
                }
                Ok(())
            }
            Step::Barrier(fate) => model.barrier(fate).await,
            Step::Finish { subtask } => model.finish(subtask).await,
            Step::Crash { after, again_after, is_last_done, power, parallelism } => {
                model.job.disk.die_after(after, is_last_done);
                model.crash = Some((power, again_after.map(|after| (after, is_last_done)), parallelism));
                Ok(())
            }
        };
        model.outlive(done).await;
    }
    // The crash that has not come yet comes now.
    while model.crash.is_some() {
        model.revive();
        model.start().await;
    }
    let rows = i32::try_from(model.source.len()).expect("few rows");
    model.end().await.expect("the end is reached");
    let mut seen: Vec<i32> = model.job.rows().into_values().flatten().collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..rows).collect::<Vec<i32>>());
    if kind > 0 {
        let announced =
            |day: &str| model.job.disk.hidden().iter().any(|path| path.ends_with(format!("dt={day}/_SUCCESS")));
        assert!(model.job.rows().keys().all(|day| announced(day)), "everything is announced at the end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_crash_loses_doubles_or_changes_a_row(kind in 0u8..4, steps in proptest::collection::vec(step(), 1..40)) {
        block_on(live_through(kind, &steps));
    }
}

#[test]
fn a_subtask_that_ends_early_announces_nothing_too_soon() {
    let write = |subtask| Step::Write { subtask, day: 0, rows: 1 };
    let steps = [Step::Barrier(Fate::Published), write(1), write(2), Step::Finish { subtask: 1 }];
    block_on(live_through(1, &steps));
}

/// One short life, with a crash at each single operation.
#[test]
fn every_operation_may_be_the_last() {
    let life = |crash: Option<Step>| {
        let write = |subtask, day| Step::Write { subtask, day, rows: 5 };
        let mut steps = vec![write(0, 0), write(1, 0), Step::Barrier(Fate::Published), write(0, 1), write(1, 0)];
        steps.extend([Step::Watermark { subtask: 0, days: 4 }, Step::Watermark { subtask: 1, days: 4 }]);
        steps.extend([Step::Barrier(Fate::Published), write(0, 0), Step::Barrier(Fate::Published)]);
        crash.into_iter().chain(steps).collect::<Vec<Step>>()
    };
    for kind in 0..4 {
        for (power, is_last_done) in [(false, false), (false, true), (true, false), (true, true)] {
            for after in 0..120 {
                let crash = Step::Crash { after, again_after: Some(3), is_last_done, power, parallelism: 2 };
                block_on(live_through(kind, &life(Some(crash))));
            }
        }
    }
}
