//! When partitions are announced.

use super::block_on;
use super::job::Job;

const HOUR_MS: i64 = 3_600_000;
/// 2026-10-01 and the day after, in UTC.
const FIRST: (&str, i64) = ("2026-10-01", 20_727 * 24 * HOUR_MS);
const SECOND: (&str, i64) = ("2026-10-02", 20_728 * 24 * HOUR_MS);

fn job(options: &[(&str, &str)]) -> Job {
    let mut all = vec![("sink.partition-commit.policy.kind", "success-file")];
    all.extend(options);
    Job::new(&all)
}

fn by_event_time(options: &[(&str, &str)]) -> Job {
    let mut all = vec![("sink.partition-commit.trigger", "partition-time"), ("sink.partition-commit.delay", "1 d")];
    all.extend(options);
    job(&all)
}

#[test]
fn without_a_delay_every_checkpoint_announces_what_it_published() {
    let mut job = job(&[]);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, FIRST.0, &[1]).await?;
        job.checkpoint(&mut run).await?;
        assert_eq!((job.announced(), job.files()), (vec![FIRST.0.to_owned()], vec![1]), "its file is whole");
        job.checkpoint(&mut run).await?;
        assert!(job.announced().is_empty(), "nothing came");
        run.write(0, SECOND.0, &[2]).await?;
        run.write(0, FIRST.0, &[3]).await?;
        job.checkpoint(&mut run).await?;
        assert_eq!(job.announced(), [FIRST.0, SECOND.0], "once more for the late row");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn a_delay_counts_from_the_first_row() {
    let mut job = job(&[("sink.partition-commit.delay", "10 s")]);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, FIRST.0, &[1]).await?;
        job.clock.advance_ms(10_000);
        run.write(0, FIRST.0, &[2]).await?;
        job.checkpoint(&mut run).await?;
        assert!(job.announced().is_empty() && job.rows().is_empty(), "at the delay, not past it");
        drop(run);
        let mut run = job.start(1).await?;
        job.clock.advance_ms(1);
        job.checkpoint(&mut run).await?;
        assert_eq!((job.announced(), job.files()), (vec![FIRST.0.to_owned()], vec![2]), "over a restart");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn event_time_announces_by_the_lowest_watermark_of_all() {
    let mut job = by_event_time(&[]);
    block_on(async {
        let mut run = job.start(2).await?;
        run.write(0, FIRST.0, &[1]).await?;
        run.write(1, FIRST.0, &[2]).await?;
        run.write(1, SECOND.0, &[3]).await?;
        run.watermark(0, SECOND.1 + 1);
        run.watermark(1, SECOND.1);
        job.checkpoint(&mut run).await?;
        assert!(job.announced().is_empty(), "one stands at the end, not past it");
        run.watermark(1, SECOND.1 + 1);
        job.complete = job.barrier(&mut run).await?;
        run.commit_of(1).await?;
        assert!(job.announced().is_empty(), "files of the other are not finished");
        run.commit_of(0).await?;
        assert_eq!(job.announced(), [FIRST.0]);
        assert_eq!(job.rows()[FIRST.0], [1, 2]);
        // A late row: its file is published at once, and announced again.
        run.write(0, FIRST.0, &[4]).await?;
        job.checkpoint(&mut run).await?;
        assert_eq!((job.announced(), job.rows()[FIRST.0].clone()), (vec![FIRST.0.to_owned()], vec![1, 2, 4]));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn the_name_is_read_as_the_options_say() {
    let zoned = [
        ("sink.partition-commit.watermark-time-zone", "Asia/Shanghai"),
        ("partition.time-extractor.timestamp-pattern", "$dt 08:00:00"),
    ];
    let mut job = by_event_time(&zoned);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, FIRST.0, &[1]).await?;
        run.watermark(0, SECOND.1);
        job.checkpoint(&mut run).await?;
        assert!(job.announced().is_empty(), "eight in the morning there is midnight here");
        run.watermark(0, SECOND.1 + 1);
        job.checkpoint(&mut run).await?;
        assert_eq!(job.announced(), [FIRST.0]);
        run.write(0, "", &[2]).await?;
        let told = job.checkpoint(&mut run).await.expect_err("no time").to_string();
        assert!(told.contains("'dt=__DEFAULT_PARTITION__' names no time"), "{told}");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn an_idle_writer_holds_nobody_back() {
    let mut job = by_event_time(&[]);
    block_on(async {
        let mut run = job.start(2).await?;
        run.write(0, FIRST.0, &[1]).await?;
        run.write(1, FIRST.0, &[2]).await?;
        run.watermark(0, SECOND.1 + 1);
        run.idle(1, true);
        job.checkpoint(&mut run).await?;
        assert!(job.announced().is_empty(), "the idle one has a file in progress");
        job.checkpoint(&mut run).await?;
        assert_eq!((job.announced(), job.rows()[FIRST.0].clone()), (vec![FIRST.0.to_owned()], vec![1, 2]));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn what_is_not_announced_survives_restarts_and_other_parallelisms() {
    let mut job = by_event_time(&[]);
    block_on(async {
        let mut run = job.start(3).await?;
        for subtask in 0..3_u8 {
            run.write(subtask.into(), FIRST.0, &[subtask.into()]).await?;
        }
        job.checkpoint(&mut run).await?;
        drop(run);
        let mut run = job.start(2).await?;
        job.checkpoint(&mut run).await?;
        drop(run);
        let mut run = job.start(4).await?;
        (0..4).for_each(|subtask| run.watermark(subtask, SECOND.1 + 1));
        job.checkpoint(&mut run).await?;
        assert_eq!((job.announced(), job.rows()[FIRST.0].clone()), (vec![FIRST.0.to_owned()], vec![0, 1, 2]));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn the_end_announces_everything() {
    for options in [[("sink.partition-commit.delay", "1 d")], [("sink.partition-commit.trigger", "partition-time")]] {
        let mut job = job(&options);
        block_on(async {
            let mut run = job.start(2).await?;
            run.write(0, FIRST.0, &[1]).await?;
            run.write(1, "no day", &[2]).await?;
            let with_names = options[0].1 != "partition-time";
            if with_names {
                job.checkpoint(&mut run).await?;
                assert!(job.announced().is_empty());
            }
            job.end(run).await?;
            assert_eq!(job.announced(), [FIRST.0, "no day"]);
            Ok::<(), tidegate_api::Error>(())
        })
        .expect("committed");
    }
}

#[test]
fn what_a_writer_leaves_is_taken_over_by_those_who_go_on() {
    let mut job = by_event_time(&[]);
    block_on(async {
        let mut run = job.start(2).await?;
        run.write(0, FIRST.0, &[1]).await?;
        assert!(run.finish(0).await?, "it has a file");
        job.checkpoint(&mut run).await?;
        run.leave(0);
        assert!(job.announced().is_empty(), "the other may have rows of it");
        job.checkpoint(&mut run).await?;
        // The one that is gone is in no checkpoint any more.
        drop(run);
        let mut run = job.start(2).await?;
        assert!(!run.finish(0).await?, "it has nothing");
        run.leave(0);
        run.watermark(1, SECOND.1 + 1);
        job.checkpoint(&mut run).await?;
        assert_eq!(job.announced(), [FIRST.0]);
        assert!(!run.finish(1).await?, "everything is announced");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn a_drained_job_needs_no_barrier_after_the_last() {
    let mut job = job(&[("sink.partition-commit.delay", "1 d")]);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, FIRST.0, &[1]).await?;
        // The savepoint of a job that drains comes behind the end of event time, and the end of the input behind it.
        run.watermark(0, i64::MAX);
        job.complete = job.barrier(&mut run).await?;
        assert!(!run.finish(0).await?, "all has been handed over");
        run.commit().await?;
        assert_eq!((job.announced(), job.rows()[FIRST.0].clone()), (vec![FIRST.0.to_owned()], vec![1]));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("committed");
}

#[test]
fn a_success_file_that_cannot_be_made_fails_the_job() {
    let mut job = job(&[("sink.partition-commit.success-file.name", "_DONE")]);
    job.disk.refuse("_DONE", std::io::ErrorKind::StorageFull);
    let told = block_on(async {
        let mut run = job.start(1).await.expect("started");
        run.write(0, FIRST.0, &[1]).await.expect("written");
        job.checkpoint(&mut run).await.expect_err("no space").to_string()
    });
    assert!(told.contains("The success file '/t/dt=2026-10-01/_DONE' cannot be written: no storage space"), "{told}");
}
