//! `tidegate standalone`: jobs come over REST, are seen and cancelled from outside, and REST answers while they
//! keep every core busy.

#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Finished, run_sql, tidegate};

const LIMIT: Duration = Duration::from_secs(60);

/// A standalone process on a port of its own; killed when the test ends, however it ends.
struct Standalone {
    process: Child,
    address: String,
}

impl Standalone {
    fn start(arguments: &[&str]) -> Standalone {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["standalone", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(process.stderr.take().expect("piped"));
        let mut first = String::new();
        lines.read_line(&mut first).expect("a line");
        let after = first.split_once("http://").expect("the first line has the address").1;
        let address = after.split_whitespace().next().expect("an address").to_owned();
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Standalone { process, address }
    }

    fn submit(&self, script: &str) -> String {
        let ran = run_sql(script, &["--endpoint", &self.address], LIMIT);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let id = ran.stdout.lines().find_map(|l| l.strip_prefix("Job ID: ")).expect("an id").to_owned();
        assert_eq!(id.len(), 32, "{id}");
        id
    }

    fn job(&self, arguments: &[&str]) -> Finished {
        let mut all = vec!["job"];
        all.extend(arguments);
        all.extend(["--endpoint", &self.address]);
        tidegate(&all, LIMIT)
    }

    /// Status and body of a request without a body.
    fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it takes a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        (status, body.to_owned())
    }

    fn wait_for(&self, job: &str, state: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let (_, body) = self.request("GET", &format!("/jobs/{job}/status"));
            if body.contains(&format!("\"{state}\"")) {
                return;
            }
            assert!(Instant::now() < deadline, "{job} is not {state} but {body}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn endless(rows_per_second: u64) -> String {
    format!(
        "CREATE TABLE n (id BIGINT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts)
           WITH ('connector' = 'datagen', 'rows-per-second' = '{rows_per_second}');
         CREATE TABLE o (ws TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
         INSERT INTO o SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE n, DESCRIPTOR(ts), INTERVAL '1' SECOND))
           GROUP BY window_start, window_end;"
    )
}

#[test]
fn jobs_are_listed_described_and_cancelled() {
    let cluster = Standalone::start(&[]);
    assert_eq!(cluster.job(&["list"]).stdout, "No jobs.\n");
    let (first, second) = (cluster.submit(&endless(100)), cluster.submit(&endless(100)));
    cluster.wait_for(&first, "RUNNING");
    let list = cluster.job(&["list"]).stdout;
    assert!(list.contains(&first) && list.contains(&second), "{list}");
    let described = cluster.job(&["describe", &first[..12]]);
    assert_eq!(described.code, Some(0), "{}", described.stderr);
    assert!(described.stdout.contains("Source: n[1]"), "{}", described.stdout);
    assert!(described.stdout.contains("watermark"), "{}", described.stdout);
    let cancelled = cluster.job(&["cancel", &first]);
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.stderr);
    cluster.wait_for(&first, "CANCELED");
    assert_eq!(cluster.request("PATCH", &format!("/v1/jobs/{second}?mode=cancel")), (202, "{}".into()));
    cluster.wait_for(&second, "CANCELED");
    let unknown = cluster.job(&["describe", "zzz"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("There is no job zzz"), "{}", unknown.stderr);
}

#[test]
fn a_failing_job_says_why() {
    let cluster = Standalone::start(&[]);
    let job = cluster.submit(
        "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = '/no/such/rows.json', 'format' = 'json');
         CREATE TABLE o (id INT) WITH ('connector' = 'blackhole');
         INSERT INTO o SELECT id FROM t;",
    );
    cluster.wait_for(&job, "FAILED");
    let described = cluster.job(&["describe", &job]).stdout;
    assert!(described.contains("/no/such/rows.json"), "{described}");
    let (status, body) = cluster.request("PATCH", &format!("/jobs/{job}"));
    assert_eq!(status, 409, "{body}");
}

#[test]
fn an_insert_can_be_waited_for() {
    let cluster = Standalone::start(&[]);
    let insert = |rows: &str| {
        let script = format!(
            "SET 'table.dml-sync' = 'true';
             CREATE TABLE o (id INT) WITH ('connector' = 'blackhole');
             INSERT INTO o SELECT 1 / v FROM (VALUES {rows}) AS t (v);"
        );
        run_sql(&script, &["--endpoint", &cluster.address], LIMIT)
    };
    assert_eq!(insert("(1), (2)").code, Some(0));
    let failed = insert("(1), (0)");
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.starts_with("error: the job failed: "), "{}", failed.stderr);
}

#[test]
fn rest_answers_while_every_core_is_busy() {
    let cluster = Standalone::start(&[]);
    let jobs: Vec<String> = (0..3).map(|_| cluster.submit(&endless(1_000_000_000))).collect();
    jobs.iter().for_each(|job| cluster.wait_for(job, "RUNNING"));
    for _ in 0..20 {
        for path in ["/overview".to_owned(), "/jobs/overview".to_owned(), format!("/jobs/{}", jobs[0])] {
            let (status, body) = cluster.request("GET", &path);
            assert_eq!(status, 200, "{path}: {body}");
        }
    }
    for job in &jobs {
        assert_eq!(cluster.request("PATCH", &format!("/jobs/{job}")).0, 202);
        cluster.wait_for(job, "CANCELED");
    }
}

#[test]
fn ended_jobs_are_forgotten_one_day() {
    let cluster = Standalone::start(&["-D", "jobstore.max-capacity=2"]);
    let script = "CREATE TABLE o (id INT) WITH ('connector' = 'blackhole'); INSERT INTO o VALUES (1);";
    let jobs: Vec<String> = (0..4)
        .map(|_| {
            let job = cluster.submit(script);
            cluster.wait_for(&job, "FINISHED");
            job
        })
        .collect();
    let (_, list) = cluster.request("GET", "/jobs");
    assert!(!list.contains(&jobs[0]) && list.contains(&jobs[1]) && list.contains(&jobs[3]), "{list}");
    assert_eq!(cluster.request("GET", &format!("/jobs/{}", jobs[0])).0, 404);
}

#[test]
fn a_select_is_refused() {
    let cluster = Standalone::start(&[]);
    let ran = run_sql("SELECT 1;", &["--endpoint", &cluster.address], LIMIT);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("SELECT is not supported with --endpoint"), "{}", ran.stderr);
}
