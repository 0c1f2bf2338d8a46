//! One job, killed many times, with its rows counted at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidegate_api::fail_point::FailPoint;

use crate::chaos::input::{Generator, PARTITIONS, expected};
use crate::chaos::job::{Job, LIMIT};
use crate::chaos::output::{Difference, read_topic};
use crate::chaos::site::Site;
use crate::kafka::real;
use crate::kafka::{Kafka, Kind, Settings};
use crate::random::Random;
use crate::wait_for;

const NUMBERS: &str = "numbers";
const SUMS: &str = "sums";
/// What the shell sees of a process that died at a fail point: SIGABRT.
const ABORTED: i32 = 6;

/// What to do to a job.
#[derive(Clone, Debug)]
pub struct Round {
    /// On whose broker.
    pub kind: Kind,
    /// Decides every choice.
    pub seed: u64,
    /// Kills at random moments.
    pub kills: u64,
    /// Fail points at which the process dies, once each.
    pub points: Vec<FailPoint>,
    /// How often the broker is away.
    pub outages: u64,
    /// How often the disk of the checkpoints is full.
    pub full_disks: u64,
}

/// How it went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Kills at random moments.
    pub kills: u64,
    /// Deaths at fail points, by name.
    pub points: BTreeMap<&'static str, u64>,
    /// Points that did not come: commits kept up, so there never was another one to die before. Killed instead.
    pub unreached: Vec<&'static str>,
    /// How often the broker was away.
    pub outages: u64,
    /// How often the disk was full.
    pub full_disks: u64,
    /// Lives after the first.
    pub restarts: u64,
    /// The number of the last checkpoint: so many were begun over all lives.
    pub checkpoints: u64,
    /// Records of the input.
    pub records: u64,
    /// Rows that each sink should have.
    pub rows: u64,
    /// What is different in the topic.
    pub topic: Difference,
    /// What is different in the files.
    pub files: Difference,
}

/// Checkpoints within which a sink that is slower than they are has more than one segment to commit.
const SEGMENTS_PILE_UP: u64 = 100;

/// How a life ends.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// By `kill -9`, some time.
    Kill,
    /// By itself.
    Point(FailPoint),
    /// Perhaps it does not: the broker dies.
    Outage,
    /// The disk is full, and then it is not.
    FullDisk,
}

impl Round {
    /// How many deaths are wished for.
    pub fn deaths(&self) -> u64 {
        self.kills + self.points.len() as u64
    }

    /// Plays it with this binary. An error is a failure of the job or of its surroundings; rows that differ are in
    /// the outcome. `None` if there is no such broker, which has then been said.
    pub fn play(&self, binary: &Path) -> Result<Option<Outcome>, String> {
        let kafka = match self.kind {
            Kind::Embedded => Kafka::start_program(binary)?,
            Kind::Real => {
                if real::available().is_none() {
                    return Ok(None);
                }
                Kafka::start(Kind::Real, Settings::default())?
            }
        };
        for topic in [NUMBERS, SUMS] {
            kafka.create_topic(topic, PARTITIONS);
        }
        let site = Site::new()?;
        let mut random = Random::new(self.seed);
        let claims = random.below(2) == 0;
        let script = script(&kafka, &site);
        let mut play = Play {
            job: Job::new(binary, site, &script)?,
            generator: Generator::start(&kafka, NUMBERS)?,
            kafka,
            random,
            claims,
            finished: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        let outcome = play.all(self);
        match outcome {
            Ok(()) if play.outcome.is_exact() => Ok(Some(play.outcome)),
            outcome => {
                let Play { job, outcome: seen, .. } = play;
                let kept = job.site.keep();
                let place = format!("seed {}, {:?}; everything is in {}", self.seed, self.kind, kept.display());
                outcome.map_err(|e| format!("{e}\n{place}"))?;
                eprintln!("rows differ: {place}");
                Ok(Some(seen))
            }
        }
    }
}

struct Play {
    job: Job,
    generator: Generator,
    kafka: Kafka,
    random: Random,
    /// Each life takes over the checkpoint it goes on from.
    claims: bool,
    /// Files that readers have seen, with their sizes: they stay as they are.
    finished: BTreeMap<PathBuf, u64>,
    outcome: Outcome,
}

impl Play {
    fn all(&mut self, round: &Round) -> Result<(), String> {
        let mut deaths: Vec<Death> = round.points.iter().copied().map(Death::Point).collect();
        deaths.extend((0..round.kills).map(|_| Death::Kill));
        deaths.extend((0..round.outages).map(|_| Death::Outage));
        deaths.extend((0..round.full_disks).map(|_| Death::FullDisk));
        self.random.shuffle(&mut deaths);
        // Something to go on from.
        self.start(None)?;
        self.job.wait_checkpoints(1)?;
        for death in deaths {
            let what = format!("{death:?}");
            self.die(death).map_err(|e| format!("{what}: {e}"))?;
            self.look_at_files()?;
            self.remove_old_lives()?;
        }
        self.finish()
    }

    /// The job goes on until it ends like this.
    fn die(&mut self, death: Death) -> Result<(), String> {
        match death {
            Death::Kill => {
                self.start(None)?;
                self.live_a_while()?;
                self.job.kill()?;
                self.outcome.kills += 1;
            }
            Death::Point(point) => self.die_at(point)?,
            Death::Outage => self.outage()?,
            Death::FullDisk => self.full_disk()?,
        }
        Ok(())
    }

    fn start(&mut self, point: Option<&str>) -> Result<(), String> {
        // Whose checkpoint is the newest is known when the life before is over.
        self.job.end();
        let mut settings: Vec<String> = Vec::new();
        let mut set = |key: &str, value: &str| settings.extend(["-D".to_owned(), format!("{key}={value}")]);
        let unaligned = "execution.checkpointing.unaligned.enabled";
        let overtakes = self.job.settled().iter().any(|setting| setting.starts_with(unaligned));
        if self.random.below(3) == 0 {
            set(unaligned, "true");
        }
        if self.claims {
            set("execution.state-recovery.claim-mode", "CLAIM");
        }
        // What barriers have overtaken goes on at its parallelism only.
        let kept = self.job.settled().iter().position(|word| word == "-p").map(|at| self.job.settled()[at + 1].clone());
        let parallelism = match kept {
            Some(kept) if overtakes || self.random.below(4) > 0 => kept,
            _ => self.random.pick(&["1", "2", "2", "3"]).to_owned(),
        };
        settings.extend(["-p".to_owned(), parallelism]);
        self.job.start(&settings, point)
    }

    /// Some time: while it starts, between two checkpoints, or after some more.
    fn live_a_while(&mut self) -> Result<(), String> {
        let checkpoints = self.random.below(5);
        if checkpoints > 1 {
            self.job.wait_checkpoints(checkpoints - 1)?;
        }
        let most_ms = if checkpoints == 0 { 1_500 } else { 400 };
        std::thread::sleep(Duration::from_millis(self.random.below(most_ms)));
        Ok(())
    }

    fn die_at(&mut self, point: FailPoint) -> Result<(), String> {
        let most = match point {
            FailPoint::DuringRestore | FailPoint::AfterSinkRecovery | FailPoint::DuringSweep => 1,
            FailPoint::AfterBarrier | FailPoint::AfterUpload => 12,
            _ => 4,
        };
        let armed = format!("{}:{}", point.name(), 1 + self.random.below(most));
        self.start(Some(&armed))?;
        if point == FailPoint::DuringSweep {
            self.fail_with_garbage()?;
        }
        if point == FailPoint::BetweenKafkaSegments && self.job.wait_checkpoints(SEGMENTS_PILE_UP).is_ok() {
            self.job.kill()?;
            self.outcome.unreached.push(point.name());
            return Ok(());
        }
        let status = self.job.life()?.wait(LIMIT);
        if point == FailPoint::DuringSweep {
            self.unblock_files()?;
        }
        match status.map(|status| status.signal()) {
            Some(Some(ABORTED)) => {
                self.job.end();
                *self.outcome.points.entry(point.name()).or_default() += 1;
                Ok(())
            }
            ended => Err(self.job.failure(&format!("fail point {armed} was not reached, but {ended:?}"))),
        }
    }

    /// Leaves an old file in the folder of this life's checkpoints, and makes the job start again by itself: only
    /// then is anything swept.
    fn fail_with_garbage(&mut self) -> Result<(), String> {
        let newest = self.job.wait_checkpoints(1)?;
        let shared = newest.folder.parent().map(|job| job.join("shared")).ok_or("a checkpoint without a job")?;
        let told = |e: std::io::Error| e.to_string();
        fs::create_dir_all(&shared).map_err(told)?;
        let garbage = File::create(shared.join("left-over")).map_err(told)?;
        garbage.set_modified(SystemTime::now() - Duration::from_secs(3600)).map_err(told)?;
        let (files, block) = (self.job.site.files(), self.job.site.path().join("block"));
        fs::create_dir_all(&files).and_then(|()| fs::write(&block, "")).map_err(told)?;
        exchange(&files, &block)
    }

    fn unblock_files(&self) -> Result<(), String> {
        let (files, block) = (self.job.site.files(), self.job.site.path().join("block"));
        exchange(&files, &block)?;
        fs::remove_file(&block).map_err(|e| e.to_string())
    }

    /// The broker goes away and comes back; the job may be killed meanwhile.
    fn outage(&mut self) -> Result<(), String> {
        self.start(None)?;
        self.job.wait_checkpoints(1)?;
        match self.kafka.kind() {
            Kind::Embedded => self.kafka.interrupt(),
            // After a kill it looks through its logs first.
            Kind::Real => self.kafka.stop()?,
        }
        std::thread::sleep(Duration::from_millis(200 + self.random.below(1_500)));
        let is_killed = self.random.below(2) == 0;
        if is_killed {
            self.job.kill()?;
            self.outcome.kills += 1;
        }
        self.kafka.resume()?;
        self.outcome.outages += 1;
        if is_killed {
            return Ok(());
        }
        let before = self.job.site.latest().map_or(0, |found| found.id);
        self.job.wait("checkpoints after the outage", |site| site.latest().filter(|found| found.id > before + 1))?;
        self.job.kill()?;
        self.outcome.kills += 1;
        Ok(())
    }

    /// Nothing can be written for a while: the job says so, its checkpoints stay, and it goes on from them.
    fn full_disk(&mut self) -> Result<(), String> {
        self.start(None)?;
        self.job.wait_checkpoints(2)?;
        let pid = self.job.life()?.pid();
        let said_before = self.job.site.complaints();
        self.job.site.disk().fill(pid)?;
        // The first may be of a checkpoint or of a task; the second is of a job that has started again in vain.
        let told = wait_for(LIMIT, || (self.job.site.complaints() >= said_before + 2).then_some(()));
        let newest = self.job.site.latest();
        self.job.site.disk().free(pid)?;
        told.ok_or_else(|| self.job.failure("the disk was full, and the job has not said so"))?;
        let newest = newest.ok_or_else(|| self.job.failure("a full disk has taken the last checkpoint"))?;
        if self.job.life()?.ended().is_some() {
            return Err(self.job.failure("the job gave up before its restart strategy wanted it"));
        }
        let more = |site: &Site| site.latest().filter(|found| found.id > newest.id + 1);
        self.job.wait("checkpoints on a disk with room", more)?;
        self.job.kill()?;
        self.outcome.kills += 1;
        self.outcome.full_disks += 1;
        Ok(())
    }

    /// What readers have seen stays there, and does not change.
    fn look_at_files(&mut self) -> Result<(), String> {
        let now = self.job.site.finished_files();
        for (path, bytes) in &self.finished {
            if now.get(path) != Some(bytes) {
                let text = format!("{} had {bytes} bytes and now {:?}", path.display(), now.get(path));
                return Err(self.job.failure(&text));
            }
        }
        self.finished = now;
        Ok(())
    }

    /// A life that claims nothing needs nothing of those before it as soon as it has a checkpoint of its own.
    fn remove_old_lives(&self) -> Result<(), String> {
        let Some(newest) = self.job.site.latest().filter(|_| !self.claims) else { return Ok(()) };
        for job in self.job.site.jobs().into_iter().filter(|job| !newest.folder.starts_with(job)) {
            fs::remove_dir_all(&job).map_err(|e| format!("{}: {e}", job.display()))?;
        }
        Ok(())
    }

    /// Lets the job come to its end undisturbed, and counts.
    fn finish(&mut self) -> Result<(), String> {
        let sent = self.generator.finish()?;
        let records = read_topic(&self.kafka, NUMBERS, PARTITIONS, "read_uncommitted")?;
        let expected = expected(&records, sent)?;
        self.start(None)?;
        let kafka = &self.kafka;
        let complete = self.job.wait("all rows", |site| {
            let rows = read_topic(kafka, SUMS, PARTITIONS, "read_committed").ok()?;
            let lines = site.file_lines().ok()?;
            let lost = |rows: &[String]| Difference::of(rows, &expected).map_or(1, |found| found.lost.len());
            (lost(&rows) == 0 && lost(&lines) == 0).then_some(())
        });
        let is_alive = self.job.life()?.ended().is_none();
        if is_alive && complete.is_ok() {
            // What comes twice would come by then.
            let now = self.job.site.latest().map_or(0, |found| found.id);
            self.job.wait("three more checkpoints", |site| site.latest().filter(|found| found.id >= now + 3))?;
            self.job.life()?.terminate()?;
            let status = self.job.life()?.wait(LIMIT);
            let status = status.ok_or_else(|| self.job.failure("the job does not stop"))?;
            if status.code() != Some(143) {
                return Err(self.job.failure(&format!("the job was asked to stop and ended with {status}")));
            }
        }
        let rows = read_topic(&self.kafka, SUMS, PARTITIONS, "read_committed")?;
        self.outcome.topic = Difference::of(&rows, &expected)?;
        self.outcome.files = Difference::of(&self.job.site.file_lines()?, &expected)?;
        self.outcome.checkpoints = self.job.site.latest().map_or(0, |found| found.id);
        self.outcome.restarts = self.job.lives - 1;
        self.outcome.records = sent;
        self.outcome.rows = expected.len() as u64;
        // If rows are missing for good, the difference says which.
        if self.outcome.is_exact() { complete } else { Ok(()) }
    }
}

impl Outcome {
    /// Nothing is lost, doubled or wrong.
    pub fn is_exact(&self) -> bool {
        self.topic.is_none() && self.files.is_none()
    }

    /// Adds another.
    pub fn add(&mut self, other: Outcome) {
        self.kills += other.kills;
        self.outages += other.outages;
        self.full_disks += other.full_disks;
        self.restarts += other.restarts;
        self.checkpoints += other.checkpoints;
        self.records += other.records;
        self.rows += other.rows;
        for (point, times) in other.points {
            *self.points.entry(point).or_default() += times;
        }
        for (all, more) in [(&mut self.topic, other.topic), (&mut self.files, other.files)] {
            all.lost.extend(more.lost);
            all.doubled.extend(more.doubled);
            all.wrong.extend(more.wrong);
        }
    }

    /// Deaths of processes: kills, and fail points.
    pub fn deaths(&self) -> u64 {
        self.kills + self.points.values().sum::<u64>()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { kills, outages, full_disks, restarts, checkpoints, records, rows, .. } = self;
        writeln!(f, "{} deaths ({kills} kills, the others at fail points), {restarts} restarts", self.deaths())?;
        writeln!(f, "{outages} outages of the broker, {full_disks} full disks, {checkpoints} checkpoints")?;
        writeln!(f, "{records} records in, {rows} rows expected in the topic and as many in files")?;
        for (what, found) in [("topic", &self.topic), ("files", &self.files)] {
            let (lost, doubled, wrong) = (found.lost.len(), found.doubled.len(), found.wrong.len());
            writeln!(f, "{what}: {lost} lost, {doubled} doubled, {wrong} wrong")?;
            write!(f, "{found}")?;
        }
        let points: Vec<String> = self.points.iter().map(|(point, times)| format!("{point} {times}")).collect();
        write!(f, "fail points: {}", points.join(", "))?;
        match self.unreached.is_empty() {
            true => Ok(()),
            false => write!(f, "; not reached: {}", self.unreached.join(", ")),
        }
    }
}

/// Lets two names change places, at once.
fn exchange(a: &Path, b: &Path) -> Result<(), String> {
    let cwd = rustix::fs::CWD;
    let exchanged = rustix::fs::renameat_with(cwd, a, cwd, b, rustix::fs::RenameFlags::EXCHANGE);
    exchanged.map_err(|e| format!("{} and {} cannot be exchanged: {e}", a.display(), b.display()))
}

/// Windows of ten seconds by key, to a topic and to files.
fn script(kafka: &Kafka, site: &Site) -> String {
    let (bootstrap, checkpoints) = (kafka.bootstrap(), site.checkpoints());
    let (checkpoints, temporary, files) = (checkpoints.display(), site.temporary(), site.files());
    let (temporary, files) = (temporary.display(), files.display());
    // Each segment is a transaction, and the real broker takes longer for one.
    let interval_ms = if kafka.kind() == Kind::Real { 300 } else { 150 };
    let sums = "SELECT k, g, window_start, COUNT(*), SUM(v), MIN(id), MAX(id)
         FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, g, window_start, window_end";
    let columns = "k STRING, g STRING, w TIMESTAMP_LTZ(3), n BIGINT, s BIGINT, lo BIGINT, hi BIGINT";
    format!(
        "SET 'execution.checkpointing.interval' = '{interval_ms} ms';
         SET 'execution.checkpointing.dir' = '{checkpoints}';
         SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';
         SET 'execution.checkpointing.num-retained' = '2';
         SET 'restart-strategy.type' = 'fixed-delay';
         SET 'restart-strategy.fixed-delay.attempts' = '1000';
         SET 'restart-strategy.fixed-delay.delay' = '100 ms';
         SET 'io.tmp.dirs' = '{temporary}';
         SET 'tidegate.sink.segment-bytes' = '1500 b';
         CREATE TABLE numbers (id BIGINT, k STRING, g STRING, v BIGINT, ms BIGINT,
           ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
           WITH ('connector' = 'kafka', 'topic' = '{NUMBERS}', 'properties.bootstrap.servers' = '{bootstrap}',
             'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
         CREATE TABLE sums ({columns})
           WITH ('connector' = 'kafka', 'topic' = '{SUMS}', 'properties.bootstrap.servers' = '{bootstrap}',
             'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'kills', 'format' = 'json');
         CREATE TABLE files ({columns}) PARTITIONED BY (g)
           WITH ('connector' = 'filesystem', 'path' = '{files}', 'format' = 'json',
             'sink.rolling-policy.rollover-interval' = '1 s', 'sink.rolling-policy.inactivity-interval' = '1 s',
             'sink.rolling-policy.check-interval' = '100 ms');
         EXECUTE STATEMENT SET BEGIN
           INSERT INTO sums {sums};
           INSERT INTO files {sums};
         END;"
    )
}
