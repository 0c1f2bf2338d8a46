//! The committer: does with Kafka what the sequences say, and tries again for as long as it takes.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_api::audit::Finding;
use tidegate_api::connector::{Committable, CommitterContext, Notifier, SinkCommitter};
use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::metrics::{Counter, Gauge};
use tidegate_api::{Error, Result};
use tidegate_checkpoint::CheckpointId;
use tidegate_checkpoint::sequences::{Command, Restored, Segment, SequenceError, Sequences, SinkName, spread};
use tidegate_time::{Clock, SystemClock};

use super::limits::Limits;
use super::transaction::{Failure, Transactions, transaction_timeout_ms};
use super::{Book, Entries, ExactlyOnce, StagedSegment, output_name, segment_data};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// An attempt that takes longer is worth a word.
const SLOW: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One subtask's committer.
pub(super) struct KafkaCommitter {
    sink: ExactlyOnce,
    ctx: CommitterContext,
    clock: SystemClock,
    /// Ids that were fenced and not given up since.
    open: HashMap<SinkName, Arc<Transactions>>,
    book: Option<Arc<Book>>,
    /// The id of the command that is being obeyed: if nobody waited for its end, that is not known.
    begun: Option<SinkName>,
    /// Tells calls that block that nobody waits for them any more.
    stop: Arc<AtomicBool>,
    /// Files of segments that were written by the last commit.
    written: Vec<PathBuf>,
    records: Counter,
    pending: Gauge,
}

impl Drop for KafkaCommitter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl KafkaCommitter {
    pub fn new(sink: ExactlyOnce, ctx: CommitterContext) -> KafkaCommitter {
        KafkaCommitter {
            clock: SystemClock::new(),
            open: HashMap::new(),
            book: None,
            begun: None,
            stop: Arc::default(),
            written: Vec::new(),
            records: ctx.metrics.counter("numRecordsSend"),
            pending: ctx.metrics.gauge("pendingCommittables", 0),
            sink,
            ctx,
        }
    }

    /// Does all that can be done now.
    async fn drive(&mut self, book: &Book) -> Result<()> {
        let mut patience = Patience::new(self.ctx.notices.clone());
        let mut has_written = false;
        if let Some(name) = self.begun.take() {
            self.give_up(&name).await?;
            book.lock().sequences.failed(&name);
        }
        loop {
            let command = {
                let mut entries = book.lock();
                self.pending.set(i64::try_from(entries.sequences.pending().count()).unwrap_or(i64::MAX));
                entries.sequences.next_command()
            };
            let Some(command) = command else {
                patience.restored();
                return Ok(());
            };
            let name = match &command {
                Command::Fence(name) | Command::Read(name) | Command::Close(name) => name.clone(),
                Command::Write(segment) => segment.name.clone(),
            };
            let is_write = matches!(command, Command::Write(_));
            if is_write && std::mem::replace(&mut has_written, true) {
                fail_point::reached(FailPoint::BetweenKafkaSegments);
            }
            self.begun = Some(name.clone());
            let done = patience.attend(self.obey(command, book)).await;
            self.begun = None;
            book.changed.notify_waiters();
            let Err(failure) = done else {
                // An id that can be opened does not say that what it failed to write can be written.
                if is_write || !patience.has_failed() {
                    patience.restored();
                }
                continue;
            };
            self.give_up(&name).await?;
            book.lock().sequences.failed(&name);
            match failure {
                Failure::Passing(text) => patience.wait(&text).await,
                Failure::Final(error) => return Err(error),
                Failure::Stopped => return Err(Error::cancelled()),
            }
        }
    }

    async fn obey(&mut self, command: Command, book: &Book) -> std::result::Result<(), Failure> {
        match command {
            Command::Fence(name) => {
                self.give_up(&name).await?;
                let (plan, id) = (Arc::clone(&self.sink.plan), name.clone());
                let timeout_ms = transaction_timeout_ms(&plan.table)?;
                let fenced = blocking(move || Transactions::fence(&plan.table, &id, timeout_ms)).await?;
                self.open.insert(name.clone(), Arc::new(fenced));
                book.lock().sequences.fenced(&name);
            }
            Command::Read(name) => {
                let topic = self.topic_of(&name, &book.lock())?;
                let open = self.opened(&name)?;
                let committed = blocking(move || open.committed(&topic)).await?;
                let mut entries = book.lock();
                entries.sequences.read(&name, committed).map_err(|e| Failure::Final(refused(&e)))?;
                let found = entries.forget_written();
                drop(entries);
                self.settled(found, Finding::WasThere);
            }
            Command::Write(segment) => self.write(*segment, book).await?,
            Command::Close(name) => self.give_up(&name).await?,
        }
        Ok(())
    }

    async fn write(&mut self, segment: Segment, book: &Book) -> std::result::Result<(), Failure> {
        let key = (segment.name.clone(), segment.sequence);
        let path = book.lock().files.get(&key).cloned();
        let path = path.ok_or_else(|| Error::internal("a staged segment has no file"))?;
        let open = self.opened(&segment.name)?;
        let (stop, rows) = (Arc::clone(&self.stop), segment.staged.rows);
        blocking(move || open.write(&segment, &path, &stop)).await?;
        fail_point::reached(FailPoint::AfterKafkaCommit);
        self.records.add(rows);
        let mut entries = book.lock();
        entries.sequences.written(&key.0, key.1, self.clock.now_ms());
        let written = entries.forget_written();
        drop(entries);
        self.settled(written, Finding::Published);
        Ok(())
    }

    /// Segments that are in Kafka for certain.
    fn settled(&mut self, segments: BTreeMap<(SinkName, u64), PathBuf>, finding: Finding) {
        for ((name, sequence), path) in segments {
            self.ctx.audit.found(&output_name(&name, sequence), finding);
            self.written.push(path);
        }
    }

    /// The topic an id's sequence is kept with: what its segments say, for the table's may have changed.
    fn topic_of(&self, name: &SinkName, entries: &Entries) -> Result<String> {
        match entries.sequences.pending().find(|segment| segment.name == *name) {
            Some(segment) => Ok(segment_data(segment)?.topic),
            None => Ok(self.sink.plan.topic.clone()),
        }
    }

    /// The producer of an id. Another committer of this subtask may have fenced it; then this one does again.
    fn opened(&self, name: &SinkName) -> std::result::Result<Arc<Transactions>, Failure> {
        let open = self.open.get(name).cloned();
        open.ok_or_else(|| Failure::Passing(format!("Transactional id '{}' is not open", name.transactional_id)))
    }

    /// Drops the producer of an id, which may take its time.
    async fn give_up(&mut self, name: &SinkName) -> Result<()> {
        let Some(open) = self.open.remove(name) else { return Ok(()) };
        let dropped = tokio::task::spawn_blocking(move || drop(open)).await;
        dropped.map_err(|e| Error::internal(e.to_string()))
    }

    async fn limits(&self) -> Result<Limits> {
        let mut patience = Patience::new(self.ctx.notices.clone());
        loop {
            match Limits::ask(&self.sink.plan.table).await {
                Ok(limits) => {
                    patience.restored();
                    return Ok(limits);
                }
                Err(Failure::Passing(text)) => patience.wait(&text).await,
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Stopped) => return Err(Error::cancelled()),
            }
        }
    }

    /// Files of segments that are written. The engine may still be looking at those of the last commit, as
    /// part of the next checkpoint, so they are kept until then.
    fn remove_files(&mut self) {
        for path in self.written.drain(..) {
            // The folder is emptied when the job ends; a file that stays costs only space.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Entries {
    /// Forgets the files of segments that are written, and returns them.
    fn forget_written(&mut self) -> BTreeMap<(SinkName, u64), PathBuf> {
        let Entries { sequences, files } = self;
        let pending: std::collections::BTreeSet<(&SinkName, u64)> =
            sequences.pending().map(|segment| (&segment.name, segment.sequence)).collect();
        let is_written = |name: &SinkName, sequence: u64| !pending.contains(&(name, sequence));
        files.extract_if(.., |(name, sequence), _| is_written(name, *sequence)).collect()
    }
}

#[async_trait]
impl SinkCommitter for KafkaCommitter {
    async fn recover(&mut self, pending: Vec<Committable>) -> Result<()> {
        let limits = self.limits().await?;
        limits.check(transaction_timeout_ms(&self.sink.plan.table)?)?;
        let mut files = BTreeMap::new();
        let (mut lanes, mut taken_ms) = (Vec::with_capacity(pending.len()), i64::MIN);
        for committable in &pending {
            let (staged, path) = StagedSegment::of(committable)?;
            files.insert((staged.segment.name.clone(), staged.segment.sequence), path);
            taken_ms = taken_ms.max(staged.staged_ms);
            lanes.push(staged.lane());
        }
        let own = self.sink.plan.name(self.ctx.subtask);
        let lanes = spread(lanes, std::slice::from_ref(&own)).pop().unwrap_or_default();
        let restored = (!lanes.is_empty()).then(|| Restored {
            lanes,
            taken_ms,
            now_ms: self.clock.now_ms(),
            retention_ms: limits.retention_ms,
            forced: self.sink.plan.forced,
        });
        let sequences = Sequences::new(own, self.sink.plan.caps, restored);
        let book = Arc::new(Book {
            entries: std::sync::Mutex::new(Entries { sequences, files }),
            changed: tokio::sync::Notify::new(),
            retention_ms: limits.retention_ms,
        });
        self.drive(&book).await?;
        // The checkpoint these files belong to may be restored again: they are the engine's.
        self.written.clear();
        if !book.lock().sequences.is_open() {
            return Err(Error::internal("a Kafka sink has recovered and is not open"));
        }
        self.sink.put_book(self.ctx.subtask, Arc::clone(&book));
        self.book = Some(book);
        Ok(())
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Result<()> {
        let Some(book) = self.book.clone().or_else(|| self.sink.book(self.ctx.subtask)) else {
            return self.recover(committables).await;
        };
        self.remove_files();
        let mut newest: Option<CheckpointId> = None;
        for committable in &committables {
            let (staged, _) = StagedSegment::of(committable)?;
            newest = newest.max(Some(staged.segment.checkpoint));
        }
        if let Some(newest) = newest {
            book.lock().sequences.complete(newest);
        }
        self.drive(&book).await
    }
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, Failure> + Send + 'static,
) -> std::result::Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => Err(Failure::Final(Error::internal(format!("a call to Kafka broke: {e}")))),
    }
}

/// Why the sink does not go on by itself, and what lets it.
pub(super) fn refused(error: &SequenceError) -> Error {
    Error::job(format!("{error} To force it, set table option 'sink.exactly-once.force-recovery' = 'true'."))
}

/// Pauses between attempts, and what the user hears of them.
struct Patience {
    notices: Notifier,
    pause: Duration,
    attempts: u32,
    /// What the user has heard last.
    told: Option<String>,
}

impl Patience {
    fn new(notices: Notifier) -> Patience {
        Patience { notices, pause: FIRST_PAUSE, attempts: 0, told: None }
    }

    /// Waits for an attempt, and says so if it takes long: the client tries again by itself for a while.
    async fn attend<T>(&mut self, attempt: impl Future<Output = T>) -> T {
        let mut attempt = std::pin::pin!(attempt);
        match tokio::time::timeout(SLOW, &mut attempt).await {
            Ok(done) => done,
            Err(_) => {
                if self.told.is_none() {
                    self.tell("it does not answer");
                }
                attempt.await
            }
        }
    }

    /// Something failed that may succeed later.
    async fn wait(&mut self, why: &str) {
        self.attempts += 1;
        // The first failure may be one that the second attempt already gets over.
        if self.attempts >= 2 {
            self.tell(why);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Each reason once, until it is over or another one.
    fn tell(&mut self, why: &str) {
        if self.told.as_deref() != Some(why) {
            self.told = Some(why.to_owned());
            self.notices
                .warn(&format!("output waits for Kafka and is kept meanwhile, nothing is lost; trying again: {why}"));
        }
    }

    /// Whether the last attempt failed.
    fn has_failed(&self) -> bool {
        self.attempts > 0
    }

    fn restored(&mut self) {
        if self.told.take().is_some() {
            self.notices.warn("Kafka takes output again");
        }
        (self.attempts, self.pause) = (0, FIRST_PAUSE);
    }
}
