//! The strategies and their settings.

use std::fmt;

use tidegate_api::config::Configuration;
use tidegate_api::error::{Error, Result};

/// When to start a failed job again. Times are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartStrategy {
    /// Never.
    None,
    /// So many times, always after the same delay.
    FixedDelay {
        /// Restarts over the job's life.
        attempts: u32,
        /// Wait before each.
        delay_ms: i64,
    },
    /// As long as failures do not come too fast.
    FailureRate {
        /// Failures allowed within an interval.
        max_failures: u32,
        /// The interval.
        interval_ms: i64,
        /// Wait before each restart.
        delay_ms: i64,
    },
    /// Each wait longer than the one before, until the job has run well for a while.
    ExponentialDelay {
        /// The first wait.
        initial_ms: i64,
        /// The longest wait.
        max_ms: i64,
        /// How much longer each wait is than the one before.
        multiplier: f64,
        /// A job that ran this long starts with the first wait again.
        reset_threshold_ms: i64,
        /// Share of the wait that is random, to both sides.
        jitter: f64,
        /// Restarts without such a quiet time before giving up.
        attempts_before_reset: u32,
    },
}

const TYPE: &str = "restart-strategy.type";
const TYPE_ALIAS: &str = "restart-strategy";
const EXPONENTIAL: &str = "restart-strategy.exponential-delay";
const FIXED: &str = "restart-strategy.fixed-delay";
const RATE: &str = "restart-strategy.failure-rate";

impl RestartStrategy {
    /// Reads `restart-strategy.*`. Unset, it is exponential delay with checkpoints and none without.
    pub fn from_config(config: &Configuration, checkpointing: bool) -> Result<RestartStrategy> {
        let name = config.get(TYPE).or_else(|| config.get(TYPE_ALIAS));
        match name.map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            None if checkpointing => RestartStrategy::exponential(config),
            None | Some("none" | "off" | "disable") => Ok(RestartStrategy::None),
            Some("exponential-delay" | "exponentialdelay") => RestartStrategy::exponential(config),
            Some("fixed-delay" | "fixeddelay") => RestartStrategy::fixed(config),
            Some("failure-rate" | "failurerate") => RestartStrategy::rate(config),
            Some(other) => Err(Error::invalid(format!(
                "Unknown restart strategy '{other}' in key '{TYPE}'. Use none, fixed-delay, failure-rate or \
                 exponential-delay."
            ))),
        }
    }

    fn fixed(config: &Configuration) -> Result<RestartStrategy> {
        Ok(RestartStrategy::FixedDelay {
            attempts: count(config, &format!("{FIXED}.attempts"), 1)?,
            delay_ms: duration(config, &format!("{FIXED}.delay"), 1_000, 0)?,
        })
    }

    fn rate(config: &Configuration) -> Result<RestartStrategy> {
        let key = format!("{RATE}.max-failures-per-interval");
        let max_failures = count(config, &key, 1)?;
        if max_failures == 0 {
            return Err(Error::invalid(format!("Key '{key}' must be greater than 0.")));
        }
        Ok(RestartStrategy::FailureRate {
            max_failures,
            interval_ms: duration(config, &format!("{RATE}.failure-rate-interval"), 60_000, 1)?,
            delay_ms: duration(config, &format!("{RATE}.delay"), 1_000, 0)?,
        })
    }

    fn exponential(config: &Configuration) -> Result<RestartStrategy> {
        let initial_ms = duration(config, &format!("{EXPONENTIAL}.initial-backoff"), 1_000, 1)?;
        let max_ms = duration(config, &format!("{EXPONENTIAL}.max-backoff"), 60_000, 1)?;
        if initial_ms > max_ms {
            return Err(Error::invalid(format!(
                "Initial backoff cannot be higher than maximum backoff: '{EXPONENTIAL}.initial-backoff' is \
                 {initial_ms} ms, '{EXPONENTIAL}.max-backoff' {max_ms} ms."
            )));
        }
        let attempts_key = format!("{EXPONENTIAL}.attempts-before-reset-backoff");
        let attempts_before_reset = count(config, &attempts_key, i32::MAX as u32)?;
        if attempts_before_reset == 0 {
            return Err(Error::invalid(format!("Key '{attempts_key}' must be at least 1.")));
        }
        Ok(RestartStrategy::ExponentialDelay {
            initial_ms,
            max_ms,
            multiplier: number(config, &format!("{EXPONENTIAL}.backoff-multiplier"), 1.5, |n| n > 1.0, "above 1")?,
            reset_threshold_ms: duration(config, &format!("{EXPONENTIAL}.reset-backoff-threshold"), 3_600_000, 1)?,
            jitter: number(
                config,
                &format!("{EXPONENTIAL}.jitter-factor"),
                0.1,
                |n| (0.0..=1.0).contains(&n),
                "between 0 and 1",
            )?,
            attempts_before_reset,
        })
    }
}

fn duration(config: &Configuration, key: &str, default: i64, least: i64) -> Result<i64> {
    let ms = config.duration_ms(key, default)?;
    if ms < least {
        return Err(Error::invalid(format!("Key '{key}' is {ms} ms but must be at least {least} ms.")));
    }
    Ok(ms)
}

fn count(config: &Configuration, key: &str, default: u32) -> Result<u32> {
    let number = config.usize(key, default as usize)?;
    u32::try_from(number).map_err(|_| Error::invalid(format!("Key '{key}' is too large: {number}.")))
}

fn number(config: &Configuration, key: &str, default: f64, accept: impl Fn(f64) -> bool, wanted: &str) -> Result<f64> {
    let Some(text) = config.get(key) else { return Ok(default) };
    match text.trim().parse::<f64>() {
        Ok(number) if accept(number) => Ok(number),
        _ => {
            Err(Error::invalid(format!("Could not parse value '{text}' for key '{key}': expected a number {wanted}.")))
        }
    }
}

impl fmt::Display for RestartStrategy {
    /// Flink's text, as it stands after `Recovery is suppressed by`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestartStrategy::None => f.write_str("NoRestartBackoffTimeStrategy"),
            RestartStrategy::FixedDelay { attempts, delay_ms } => write!(
                f,
                "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts={attempts}, backoffTimeMS={delay_ms})"
            ),
            RestartStrategy::FailureRate { max_failures, interval_ms, delay_ms } => write!(
                f,
                "FailureRateRestartBackoffTimeStrategy(failuresIntervalMS={interval_ms},backoffTimeMS={delay_ms},\
                 maxFailuresPerInterval={max_failures})"
            ),
            RestartStrategy::ExponentialDelay {
                initial_ms,
                max_ms,
                multiplier,
                reset_threshold_ms,
                jitter,
                attempts_before_reset,
            } => write!(
                f,
                "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS={initial_ms}, maxBackoffMS={max_ms}, \
                 backoffMultiplier={multiplier}, resetBackoffThresholdMS={reset_threshold_ms}, \
                 jitterFactor={jitter}, attemptsBeforeResetBackoff={attempts_before_reset})"
            ),
        }
    }
}
