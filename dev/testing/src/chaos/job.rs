//! A job over its lives: each goes on from the newest checkpoint of those before.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::chaos::life::Life;
use crate::chaos::site::{Found, Site};
use crate::wait_for;

/// How long a life may take for what it should do at once.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A job.
pub struct Job {
    binary: PathBuf,
    /// What it leaves behind.
    pub site: Site,
    script: PathBuf,
    life: Option<Life>,
    /// Lives so far.
    pub lives: u64,
    /// The newest checkpoint when this life began.
    begun_at: u64,
    /// Settings of the life that took the newest checkpoint.
    settled: Vec<String>,
    settings: Vec<String>,
}

impl Job {
    /// A job of this script that has not begun.
    pub fn new(binary: &Path, site: Site, script: &str) -> Result<Job, String> {
        let path = site.path().join("job.sql");
        fs::write(&path, script).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Job {
            binary: binary.to_owned(),
            site,
            script: path,
            life: None,
            lives: 0,
            begun_at: 0,
            settled: Vec::new(),
            settings: Vec::new(),
        })
    }

    /// Begins a life, from the newest checkpoint if there is one. `settings` are arguments.
    pub fn start(&mut self, settings: &[String], fail_point: Option<&str>) -> Result<(), String> {
        // Until the life before is over, a newer one may come.
        self.end();
        let from = self.site.latest().map(|found| found.folder);
        self.start_from(from.as_deref(), settings, fail_point)
    }

    /// Begins a life from this checkpoint.
    pub fn start_from(
        &mut self,
        checkpoint: Option<&Path>,
        settings: &[String],
        fail_point: Option<&str>,
    ) -> Result<(), String> {
        self.end();
        self.begun_at = self.site.latest().map_or(0, |found| found.id);
        let mut arguments = vec!["run".to_owned(), text(&self.script)];
        arguments.extend(settings.iter().cloned());
        if let Some(folder) = checkpoint {
            arguments.extend(["-s".to_owned(), text(folder)]);
        }
        self.life = Some(Life::start(&self.binary, &arguments, fail_point, &self.site)?);
        self.settings = settings.to_vec();
        self.lives += 1;
        Ok(())
    }

    /// The settings of the life that took the newest checkpoint.
    pub fn settled(&self) -> &[String] {
        &self.settled
    }

    /// The process.
    pub fn life(&mut self) -> Result<&mut Life, String> {
        self.life.as_mut().ok_or_else(|| "the job does not run".to_owned())
    }

    /// Waits until this life has completed `more` checkpoints; returns the newest. An error if it ends before.
    pub fn wait_checkpoints(&mut self, more: u64) -> Result<Found, String> {
        let wanted = self.begun_at + more;
        self.wait(&format!("{more} checkpoints"), |site| site.latest().filter(|found| found.id >= wanted))
    }

    /// Waits for something while the job runs; an error if it ends meanwhile.
    pub fn wait<T>(&mut self, what: &str, mut ask: impl FnMut(&Site) -> Option<T>) -> Result<T, String> {
        let Job { site, life, .. } = self;
        let life = life.as_mut().ok_or("the job does not run")?;
        let mut ended = None;
        let answer = wait_for(LIMIT, || {
            if let Some(answer) = ask(site) {
                return Some(Some(answer));
            }
            ended = life.ended();
            ended.map(|_| None)
        });
        match (answer.flatten(), ended) {
            (Some(answer), _) => Ok(answer),
            (None, Some(status)) => Err(self.failure(&format!("the job ended ({status}), before there were {what}"))),
            (None, None) => Err(self.failure(&format!("{what}: not within {} s", LIMIT.as_secs()))),
        }
    }

    /// Kills the process; an error if it had ended by itself.
    pub fn kill(&mut self) -> Result<(), String> {
        match self.life()?.kill() {
            true => self.end(),
            false => return Err(self.failure("the job ended by itself")),
        }
        Ok(())
    }

    /// The process is gone: notes whose checkpoint is the newest.
    pub fn end(&mut self) {
        if self.life.take().is_some() && self.site.latest().is_some_and(|found| found.id > self.begun_at) {
            self.settled = self.settings.clone();
        }
    }

    /// A failure, with what the job said.
    pub fn failure(&self, what: &str) -> String {
        format!("{what}; life {} said at last:\n{}", self.lives, self.site.log_tail())
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
