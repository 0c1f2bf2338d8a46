//! What the brokers allow and keep, asked once when the sink opens.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::config::FromClientConfigAndContext;
use tidegate_api::{Error, Result};

use super::transaction::Failure;
use crate::kafka::client::Health;
use crate::kafka::sink::SinkTable;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Kafka's default of `offsets.retention.minutes`.
const RETENTION_MINUTES: i64 = 7 * 24 * 60;

/// Settings of the brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// `transaction.max.timeout.ms`, if it may be seen.
    pub transaction_max_ms: Option<i64>,
    /// `offsets.retention.minutes`, in milliseconds.
    pub retention_ms: i64,
}

impl Limits {
    /// What holds where the brokers' settings may not be seen.
    pub fn unknown() -> Limits {
        Limits { transaction_max_ms: None, retention_ms: RETENTION_MINUTES * 60_000 }
    }

    /// Asks a broker.
    pub async fn ask(table: &SinkTable) -> std::result::Result<Limits, Failure> {
        let properties = &table.options.properties;
        let admin = AdminClient::from_config_and_context(&table.config, Health::default());
        let admin = admin.map_err(|e| Failure::Final(properties.refused(e)))?;
        let bootstrap = properties.bootstrap.clone();
        let asked = tokio::task::spawn_blocking(move || (admin.inner().fetch_metadata(None, TIMEOUT), admin)).await;
        let (metadata, admin) = asked.map_err(|e| Error::internal(e.to_string()))?;
        let unreachable = |why: String| {
            let health = admin.inner().context();
            let text = format!("Kafka at '{bootstrap}' does not answer: {}", health.last_error().unwrap_or(why));
            match health.login_error() {
                Some(_) => Failure::Final(Error::job(text)),
                None => Failure::Passing(text),
            }
        };
        let metadata = metadata.map_err(|e| unreachable(e.to_string()))?;
        let broker = metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id);
        let broker = broker.ok_or_else(|| unreachable("it knows of no broker".to_owned()))?;
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
        let described = admin.describe_configs(&[ResourceSpecifier::Broker(broker)], &options).await;
        let described = described.map_err(|e| unreachable(e.to_string()))?;
        // Who may not see the settings may still write.
        let Some(Ok(settings)) = described.into_iter().next() else { return Ok(Limits::unknown()) };
        let number = |name: &str| settings.get(name)?.value.as_ref()?.trim().parse::<i64>().ok();
        let minutes = number("offsets.retention.minutes").unwrap_or(RETENTION_MINUTES);
        let transaction_max_ms = number("transaction.max.timeout.ms");
        Ok(Limits { transaction_max_ms, retention_ms: minutes.saturating_mul(60_000) })
    }

    /// Refuses a timeout that a broker would refuse.
    pub fn check(&self, timeout_ms: i64) -> Result<()> {
        match self.transaction_max_ms {
            Some(max) if timeout_ms > max => Err(Error::invalid(format!(
                "Option 'properties.transaction.timeout.ms' = '{timeout_ms}' is larger than the brokers allow: their \
                 transaction.max.timeout.ms is {max}. A transaction here lasts only as long as writing one segment, so \
                 a minute is plenty."
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_above_the_brokers_is_refused_with_both_values() {
        let limits = Limits { transaction_max_ms: Some(900_000), ..Limits::unknown() };
        let text = limits.check(3_600_000).expect_err("too long").to_string();
        assert!(text.contains("'3600000'") && text.contains("900000"), "{text}");
        assert!(limits.check(900_000).is_ok() && Limits::unknown().check(i64::MAX).is_ok());
    }
}
