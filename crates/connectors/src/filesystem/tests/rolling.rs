//! When files are finished, and how a restart goes on with one.

use std::path::Path;

use super::block_on;
use super::job::{Job, ROOT, day_of, values};

/// Unpartitioned: one file at a time.
fn flat() -> Job {
    let mut job = Job::new(&[]);
    job.table.partition_keys.clear();
    job
}

const DAY: &str = "2026-10-01";

#[test]
fn a_file_stays_open_over_barriers_until_it_is_large() {
    let mut job = Job::new(&[("sink.rolling-policy.file-size", "6")]);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, DAY, &[1, 2, 3]).await?;
        job.checkpoint(&mut run).await?;
        assert!(job.rows().is_empty(), "six bytes are not more than six");
        // Eight bytes at the barrier are.
        run.write(0, DAY, &[4]).await?;
        job.checkpoint(&mut run).await?;
        assert_eq!(job.files(), [4]);
        // The next file is begun before the row that comes after more than six bytes.
        run.write(0, DAY, &[1, 2, 3, 4, 5, 6]).await?;
        job.checkpoint(&mut run).await?;
        assert_eq!(job.files(), [4, 4], "two rows are still in progress");
        let hidden: Vec<String> = job.disk.hidden().iter().map(|path| path.to_string_lossy().into_owned()).collect();
        assert!(
            hidden[0].starts_with("/t/dt=2026-10-01/.part-") && hidden[0].contains("-0-2.inprogress."),
            "{hidden:?}"
        );
        job.end(run).await?;
        assert_eq!((job.files(), job.disk.hidden().len()), (vec![4, 4, 2], 0));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("written");
}

#[test]
fn age_and_idleness_finish_a_file_when_they_are_checked() {
    let options = [
        ("sink.rolling-policy.rollover-interval", "60 s"),
        ("sink.rolling-policy.inactivity-interval", "25 s"),
        ("sink.rolling-policy.check-interval", "10 s"),
    ];
    let mut job = Job::new(&options);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, DAY, &[1]).await?;
        job.clock.advance_ms(29_999);
        job.checkpoint(&mut run).await?;
        assert_eq!(job.files(), [0; 0], "it was idle for long enough, and the check at 20 s found it young");
        job.clock.advance_ms(1);
        job.checkpoint(&mut run).await?;
        assert_eq!(job.files(), [1], "the check at 30 s found it idle");
        // Never idle for so long, and finished for its age: begun at 30 s, so it is 60 s old at 90 s.
        for value in 2..8 {
            run.write(0, DAY, &[value]).await?;
            job.clock.advance_ms(9_999);
            job.checkpoint(&mut run).await?;
        }
        assert_eq!(job.files(), [1]);
        job.clock.advance_ms(6);
        run.write(0, DAY, &[8]).await?;
        job.checkpoint(&mut run).await?;
        assert_eq!(job.files(), [1, 6], "the row that came after the check is in the next file");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("written");
}

#[test]
fn a_restart_cuts_off_what_no_checkpoint_knows_and_goes_on() {
    let mut job = Job::new(&[]);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, DAY, &[1, 2]).await?;
        job.checkpoint(&mut run).await?;
        run.write(0, DAY, &[3, 4]).await?;
        // It has even been finished, in a checkpoint that came to nothing.
        run.finish(0).await?;
        job.barrier(&mut run).await?;
        drop(run);
        let mut run = job.start(1).await?;
        run.write(0, DAY, &[5]).await?;
        job.checkpoint(&mut run).await?;
        drop(run);
        let run = job.start(1).await?;
        job.end(run).await?;
        assert_eq!((job.files(), job.rows()[DAY].clone()), (vec![3], vec![1, 2, 5]));
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("written");
}

#[test]
fn fewer_writers_finish_what_two_had_begun() {
    let mut job = Job::new(&[]);
    block_on(async {
        let mut run = job.start(3).await?;
        for subtask in 0..3_u8 {
            run.write(subtask.into(), DAY, &[subtask.into()]).await?;
        }
        job.checkpoint(&mut run).await?;
        drop(run);
        let mut run = job.start(2).await?;
        run.write(0, DAY, &[3]).await?;
        job.end(run).await?;
        assert_eq!(job.rows()[DAY], [0, 1, 2, 3]);
        assert_eq!(job.files().len(), 3, "one of them went on");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("written");
}

#[test]
fn what_is_written_otherwise_is_not_appended_to() {
    let mut job = Job::new(&[]);
    block_on(async {
        let mut run = job.start(1).await?;
        run.write(0, DAY, &[1]).await?;
        job.checkpoint(&mut run).await?;
        drop(run);
        job.table.options.insert("format".to_owned(), "json".to_owned());
        let mut run = job.start(1).await?;
        run.write(0, DAY, &[2]).await?;
        job.end(run).await?;
        let texts: Vec<Vec<u8>> = job.disk.seen().into_values().collect();
        assert_eq!(texts.len(), 2);
        assert!(texts.contains(&b"1\n".to_vec()) && texts.contains(&b"{\"v\":2}\n".to_vec()), "{texts:?}");
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("written");
}

#[test]
fn an_older_checkpoint_than_what_is_published_is_refused() {
    let mut job = Job::new(&[]);
    let (told, hidden, visible) = block_on(async {
        let mut run = job.start(1).await.expect("started");
        run.write(0, DAY, &[1]).await.expect("written");
        job.checkpoint(&mut run).await.expect("published");
        let hidden = job.disk.hidden().remove(0);
        let older = job.complete.clone();
        run.write(0, DAY, &[2]).await.expect("written");
        job.end(run).await.expect("published");
        job.complete = older;
        let visible = job.disk.seen().into_keys().next().expect("a file");
        (job.start(1).await.err().expect("refused").to_string(), hidden, visible)
    });
    assert!(told.contains("has been finished as") && told.contains("after byte 2 is then cut off"), "{told}");
    assert_eq!(job.rows()[DAY], [1, 2], "nothing was touched");
    // What the message says helps.
    block_on(async {
        use super::super::disk::Disk;
        job.disk.rename(&visible, &hidden).expect("renamed");
        let mut run = job.start(1).await.expect("started");
        run.write(0, DAY, &[3]).await.expect("written");
        job.end(run).await.expect("published");
    });
    assert_eq!(job.rows()[DAY], [1, 3]);
}

#[test]
fn a_file_that_another_job_writes_is_not_taken() {
    let mut job = Job::new(&[]);
    let told = block_on(async {
        let mut run = job.start(1).await.expect("started");
        run.write(0, DAY, &[1]).await.expect("written");
        job.checkpoint(&mut run).await.expect("published");
        let told = job.start(1).await.err().expect("refused").to_string();
        run.write(0, DAY, &[2]).await.expect("written");
        job.end(run).await.expect("published");
        told
    });
    assert!(told.contains("is being written by another process"), "{told}");
    assert_eq!(job.rows()[DAY], [1, 2]);
}

#[test]
fn more_folders_than_open_files_keep_one_file_each() {
    let mut job = Job::new(&[]);
    block_on(async {
        let mut run = job.start(1).await?;
        for round in 0..3 {
            for day in 0..300 {
                run.write(0, &format!("d{day:03}"), &[round * 1000 + day]).await?;
            }
            job.checkpoint(&mut run).await?;
        }
        drop(run);
        let run = job.start(1).await?;
        job.end(run).await?;
        assert_eq!(job.files(), [3; 300]);
        assert_eq!(job.rows()["d299"], [299, 1299, 2299]);
        Ok::<(), tidegate_api::Error>(())
    })
    .expect("written");
}

#[test]
fn what_is_in_the_way_is_named() {
    let mut job = flat();
    let told = |result: tidegate_api::Result<()>| result.expect_err("refused").to_string();
    block_on(async {
        let mut run = job.start(1).await.expect("started");
        run.write(0, DAY, &[1]).await.expect("written");
        let hidden = job.disk.hidden().remove(0);
        let name = hidden.file_name().and_then(|name| name.to_str()).expect("a name");
        let name = name.trim_start_matches('.').split(".inprogress").next().expect("a name");
        job.disk.put(&Path::new(ROOT).join(name), b"mine\n");
        let error = told(job.end(run).await);
        assert!(error.contains("is in the way") && error.contains(name), "{error}");
        assert_eq!(job.disk.seen().into_values().collect::<Vec<_>>(), [b"mine\n"]);
    });
    let job = flat();
    job.disk.put(Path::new(ROOT), b"");
    block_on(async {
        let mut run = job.start(1).await.expect("started");
        let error = told(run.write(0, DAY, &[1]).await);
        assert!(error.contains("The folder '/t/' cannot be made: not a directory"), "{error}");
    });
    let job = Job::new(&[]);
    job.disk.refuse("dt=2026-10-01/.part-", std::io::ErrorKind::PermissionDenied);
    block_on(async {
        let mut run = job.start(1).await.expect("started");
        let error = told(run.write(0, DAY, &[1]).await);
        assert!(
            error.contains("Cannot write file '/t/dt=2026-10-01/.part-") && error.contains("permission denied"),
            "{error}"
        );
    });
}

#[test]
fn a_short_file_is_told() {
    let mut job = Job::new(&[]);
    let told = block_on(async {
        let mut run = job.start(1).await.expect("started");
        run.write(0, DAY, &[1, 2]).await.expect("written");
        job.checkpoint(&mut run).await.expect("published");
        let hidden = job.disk.hidden().remove(0);
        drop(run);
        job.disk.put(&hidden, b"1\n");
        job.start(1).await.err().expect("refused").to_string()
    });
    assert!(told.contains("has 2 bytes, but the checkpoint was taken when it had 4"), "{told}");
    assert_eq!((values(b"1\n"), day_of(Path::new("/t/dt=x/p"))), (vec![1], "x".to_owned()));
}
