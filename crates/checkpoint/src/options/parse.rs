//! From settings to options.

use tidegate_api::config::{Configuration, parse_bytes};
use tidegate_api::error::{Error, Result};

use crate::options::keys::{self, Key};
use crate::options::{Backend, CheckpointOptions, ClaimMode, Mode, RestoreOptions, Retention, S3Options, StorageKind};

/// State on disk has this much memory unless it is set. Flink derives it from the size of its process.
const MANAGED_BYTES: u64 = 512 << 20;
/// Below this a job would only move state to and fro.
const LEAST_MANAGED_BYTES: u64 = 16 << 20;
/// Flink's least interval and timeout.
const LEAST_MS: i64 = 10;

impl Key {
    /// The value, under whichever of its names; and that name.
    fn find<'a>(&self, config: &'a Configuration) -> Option<(&'static str, &'a str)> {
        self.names().find_map(|name| Some((name, config.get(name)?)))
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.0).chain(self.1.iter().copied())
    }

    /// A configuration that holds this key alone, under its name, for the typed readers.
    fn alone(&self, config: &Configuration) -> (&'static str, Configuration) {
        let mut alone = Configuration::default();
        let found = self.find(config);
        let name = found.map_or(self.0, |(name, _)| name);
        if let Some((name, value)) = found {
            alone.set(name, value);
        }
        (name, alone)
    }

    pub(super) fn bool(&self, config: &Configuration, default: bool) -> Result<bool> {
        let (name, alone) = self.alone(config);
        alone.bool(name, default)
    }

    fn duration_ms(&self, config: &Configuration, default: i64, least: i64) -> Result<i64> {
        let (name, alone) = self.alone(config);
        let ms = alone.duration_ms(name, default)?;
        if ms < least {
            return Err(Error::invalid(format!("Key '{name}' is {ms} ms but must be at least {least} ms.")));
        }
        Ok(ms)
    }

    fn count(&self, config: &Configuration, default: usize, least: usize) -> Result<usize> {
        let (name, alone) = self.alone(config);
        let count = alone.usize(name, default)?;
        if count < least || count > i32::MAX as usize {
            return Err(Error::invalid(format!("Key '{name}' is {count} but must be between {least} and 2147483647.")));
        }
        Ok(count)
    }

    fn bytes(&self, config: &Configuration, default: u64, least: u64) -> Result<u64> {
        let Some((name, value)) = self.find(config) else { return Ok(default) };
        let bytes = parse_bytes(value).ok_or_else(|| {
            Error::invalid(format!(
                "Could not parse value '{value}' for key '{name}': a size such as '512 mb' is wanted."
            ))
        })?;
        if bytes < least {
            return Err(Error::invalid(format!("Key '{name}' is {bytes} bytes but must be at least {least} bytes.")));
        }
        Ok(bytes)
    }

    pub(super) fn text(&self, config: &Configuration) -> Option<String> {
        self.find(config).map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn choice<T: Copy>(&self, config: &Configuration, default: T, choices: &[(&str, T)]) -> Result<T> {
        let Some((name, value)) = self.find(config) else { return Ok(default) };
        // Flink reads enumerations in any case and with either dash.
        let wanted = value.trim().to_ascii_uppercase().replace('-', "_");
        choices.iter().find(|(text, _)| *text == wanted).map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(text, _)| *text).collect();
            Error::invalid(format!(
                "Could not parse value '{value}' for key '{name}'. Expected one of: {}.",
                names.join(", ")
            ))
        })
    }
}

/// Sets the folder of checkpoints where none is set, under whatever name; not for a job that wants them in memory.
pub fn default_dir(config: &mut Configuration, dir: &str) {
    let in_memory = keys::STORAGE.find(config).is_some_and(|(_, kind)| kind.trim().eq_ignore_ascii_case("jobmanager"));
    if keys::DIR.find(config).is_none() && !in_memory {
        config.set(keys::DIR.0, dir);
    }
}

/// Adds the settings that a job does not have, under whatever name.
pub fn add_defaults(config: &mut Configuration, defaults: &Configuration) {
    let names = |key: &str| {
        let of = keys::RENAMED.iter().find(|known| known.0 == key || known.1.contains(&key));
        of.map_or_else(|| vec![key.to_owned()], |known| known.names().map(str::to_owned).collect())
    };
    for (key, value) in &defaults.values {
        if !names(key).iter().any(|name| config.get(name).is_some()) {
            config.set(key, value);
        }
    }
}

impl CheckpointOptions {
    /// Reads and checks all of them.
    pub fn from_config(config: &Configuration) -> Result<CheckpointOptions> {
        refuse(config)?;
        let dir = keys::DIR.text(config);
        let options = CheckpointOptions {
            interval_ms: interval(config)?,
            mode: keys::MODE.choice(
                config,
                Mode::ExactlyOnce,
                &[("EXACTLY_ONCE", Mode::ExactlyOnce), ("AT_LEAST_ONCE", Mode::AtLeastOnce)],
            )?,
            timeout_ms: keys::TIMEOUT.duration_ms(config, 600_000, LEAST_MS)?,
            min_pause_ms: keys::MIN_PAUSE.duration_ms(config, 0, 0)?,
            max_concurrent: keys::MAX_CONCURRENT.count(config, 1, 1)?,
            tolerable_failures: keys::TOLERABLE.count(config, 0, 0)? as u32,
            unaligned: keys::UNALIGNED.bool(config, false)?,
            aligned_timeout_ms: keys::ALIGNED_TIMEOUT.duration_ms(config, 0, 0)?,
            storage: storage(config, dir.is_some())?,
            dir,
            create_subdir: keys::CREATE_SUBDIR.bool(config, true)?,
            savepoint_dir: keys::SAVEPOINT_DIR.text(config),
            num_retained: keys::NUM_RETAINED.count(config, 1, 1)?,
            retention: retention(config)?,
            backend: backend(config)?,
            managed_bytes: keys::MANAGED.bytes(config, MANAGED_BYTES, LEAST_MANAGED_BYTES)?,
            incremental: keys::INCREMENTAL.bool(config, false)?,
            restore: restore(config)?,
            s3: S3Options::from_config(config)?,
            history: keys::HISTORY.count(config, 10, 0)?,
            without_effect: without_effect(config),
        };
        options.check()?;
        Ok(options)
    }

    /// What each allows and both together do not.
    fn check(&self) -> Result<()> {
        if self.unaligned && self.mode == Mode::AtLeastOnce {
            return Err(Error::invalid(
                "Unaligned checkpoints need 'execution.checkpointing.mode' = 'EXACTLY_ONCE', it is 'AT_LEAST_ONCE'.",
            ));
        }
        if self.unaligned && self.max_concurrent > 1 {
            return Err(Error::invalid(format!(
                "'execution.checkpointing.max-concurrent-checkpoints' is {} but can't be > 1 if unaligned checkpoints \
                 are enabled.",
                self.max_concurrent
            )));
        }
        if self.storage == StorageKind::FileSystem && self.dir.is_none() {
            return Err(Error::invalid(
                "'execution.checkpointing.storage' is 'filesystem', but no folder is configured. Set \
                 'execution.checkpointing.dir'.",
            ));
        }
        if self.retention != Retention::NoExternalized && self.dir.is_none() {
            return Err(Error::invalid(
                "CheckpointConfig says to persist periodic checkpoints, but no checkpoint directory has been \
                 configured. You can configure one via key 'execution.checkpointing.dir'.",
            ));
        }
        Ok(())
    }
}

/// 0 is off; so is no interval at all.
fn interval(config: &Configuration) -> Result<Option<i64>> {
    match keys::INTERVAL.duration_ms(config, 0, 0)? {
        0 => Ok(None),
        ms if ms < LEAST_MS => Err(Error::invalid(format!(
            "Checkpoint interval must be larger than or equal to {LEAST_MS} ms: '{}' is {ms} ms.",
            keys::INTERVAL.0
        ))),
        ms => Ok(Some(ms)),
    }
}

fn retention(config: &Configuration) -> Result<Retention> {
    keys::RETENTION.choice(
        config,
        Retention::NoExternalized,
        &[
            ("NO_EXTERNALIZED_CHECKPOINTS", Retention::NoExternalized),
            ("DELETE_ON_CANCELLATION", Retention::DeleteOnCancellation),
            ("RETAIN_ON_CANCELLATION", Retention::RetainOnCancellation),
        ],
    )
}

fn storage(config: &Configuration, has_dir: bool) -> Result<StorageKind> {
    let default = if has_dir { StorageKind::FileSystem } else { StorageKind::JobManager };
    keys::STORAGE.choice(
        config,
        default,
        &[("FILESYSTEM", StorageKind::FileSystem), ("JOBMANAGER", StorageKind::JobManager)],
    )
}

fn backend(config: &Configuration) -> Result<Backend> {
    if let Some((name, value)) = keys::BACKEND.find(config)
        && value.trim().eq_ignore_ascii_case("forst")
    {
        return Err(Error::unsupported(format!(
            "State backend 'forst' in key '{name}' is not supported. Use 'hashmap' or 'rocksdb' (also called 'disk')."
        )));
    }
    keys::BACKEND.choice(
        config,
        Backend::HashMap,
        &[("HASHMAP", Backend::HashMap), ("ROCKSDB", Backend::Disk), ("DISK", Backend::Disk)],
    )
}

fn restore(config: &Configuration) -> Result<Option<RestoreOptions>> {
    let claim = keys::CLAIM_MODE.choice(
        config,
        Some(ClaimMode::NoClaim),
        &[("NO_CLAIM", Some(ClaimMode::NoClaim)), ("CLAIM", Some(ClaimMode::Claim)), ("LEGACY", None)],
    )?;
    let Some(claim) = claim else {
        return Err(Error::unsupported(format!(
            "Claim mode 'LEGACY' in key '{}' is not supported: nobody would own the snapshot. Use 'NO_CLAIM' or \
             'CLAIM'.",
            keys::CLAIM_MODE.0
        )));
    };
    let allow_non_restored = keys::IGNORE_UNCLAIMED.bool(config, false)?;
    Ok(keys::RESTORE_PATH.text(config).map(|path| RestoreOptions { path, claim, allow_non_restored }))
}

fn refuse(config: &Configuration) -> Result<()> {
    for (key, why) in keys::REFUSED {
        if config.get(key).is_some() {
            return Err(Error::unsupported(format!("Key '{key}' is not supported: {why}.")));
        }
    }
    for (key, value, why) in keys::FIXED {
        if let Some((name, found)) = key.find(config)
            && !found.trim().eq_ignore_ascii_case(value)
        {
            return Err(Error::unsupported(format!(
                "Key '{name}' = '{found}' is not supported, only '{value}': {why}."
            )));
        }
    }
    Ok(())
}

fn without_effect(config: &Configuration) -> Vec<&'static str> {
    let fixed = |name: &str| keys::FIXED.iter().any(|(key, ..)| key.0 == name || key.1.contains(&name));
    let single = keys::WITHOUT_EFFECT.iter().copied().filter(|key| config.get(key).is_some());
    let grouped = keys::WITHOUT_EFFECT_UNDER.iter().filter_map(|(prefix, shown)| {
        let any = config.values.keys().any(|key| key.starts_with(prefix) && !fixed(key));
        any.then_some(*shown)
    });
    single.chain(grouped).collect()
}
