//! Before a job is started: whether the brokers allow what the table wants, and whether its checkpoints fit.
//!
//! A transaction here lasts as long as writing one segment, so neither the checkpoint interval nor an outage has to
//! fit into its timeout. What they have to fit into is how long Kafka remembers the committed offset of an idle
//! group, for that is how it is known what is written.

use tidegate_api::config::Configuration;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::options::CheckpointOptions;

use super::ExactlyOnce;
use super::limits::Limits;
use super::transaction::{Failure, transaction_timeout_ms};

impl ExactlyOnce {
    /// Refuses what the brokers would refuse, and gives warnings. Brokers that do not answer are asked again when the
    /// job runs.
    pub fn preflight(&self, config: &Configuration) -> Result<Vec<String>> {
        let timeout_ms = transaction_timeout_ms(&self.plan.table)?;
        let interval_ms = CheckpointOptions::from_config(config)?.interval_ms;
        let limits = match self.limits()? {
            Ok(limits) => limits,
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing(_) | Failure::Stopped) => Limits::unknown(),
        };
        limits.check(timeout_ms)?;
        Ok(misfit(interval_ms, limits.retention_ms).into_iter().collect())
    }

    /// Asks from a thread with a runtime of its own: the caller may be in one.
    fn limits(&self) -> Result<std::result::Result<Limits, Failure>> {
        let ask = || -> Result<std::result::Result<Limits, Failure>> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|e| Error::job(format!("Kafka cannot be asked for its settings: {e}")))?;
            Ok(runtime.block_on(Limits::ask(&self.plan.table)))
        };
        let asked = std::thread::scope(|scope| scope.spawn(ask).join());
        asked.map_err(|_| Error::internal("asking Kafka for its settings broke"))?
    }
}

/// What is wrong between a job's checkpoints and the brokers' memory.
fn misfit(interval_ms: Option<i64>, retention_ms: i64) -> Option<String> {
    match interval_ms {
        None => Some(
            "it is written exactly once, which takes checkpoints, and the job takes none: its rows are seen when the job \
             has ended, and never if it does not end. Set 'execution.checkpointing.interval'."
                .to_owned(),
        ),
        Some(interval_ms) if interval_ms.saturating_mul(2) > retention_ms => Some(format!(
            "a checkpoint every {interval_ms} ms ('execution.checkpointing.interval') does not fit: the brokers forget \
             what is written {retention_ms} ms after the last commit (offsets.retention.minutes), and that must leave room \
             for two intervals. After an outage the job might refuse to go on. Take checkpoints more often, or have the \
             offsets kept longer."
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_must_leave_room_in_what_kafka_remembers() {
        const WEEK_MS: i64 = 7 * 24 * 3_600_000;
        assert!(misfit(None, WEEK_MS).is_some_and(|text| text.contains("takes none")));
        assert_eq!(misfit(Some(60_000), WEEK_MS), None);
        assert_eq!(misfit(Some(WEEK_MS / 2), WEEK_MS), None);
        let text = misfit(Some(120_000), 180_000).expect("too long");
        assert!(text.contains("120000") && text.contains("180000"), "{text}");
    }
}
