//! `properties.*`: settings of Flink's Java client, said in librdkafka's words.
//!
//! Most names are the same. The rest is renamed, or has nothing to act on here and is accepted, or is
//! refused when the client checks it: an unknown setting is never dropped.

use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use tidegate_api::{Error, Result};

/// Settings that only steer Java objects, threads or Flink's own source; results do not depend on them.
const WITHOUT_EFFECT: &[&str] = &[
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "auto.commit.interval.ms",
    "client.id.prefix",
    "enable.auto.commit",
    "enable.metrics.push",
    "exclude.internal.topics",
    "max.block.ms",
    "max.poll.records",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partition.discovery.interval.ms",
    "register.consumer.metrics",
];

/// How long the first answer of a broker is waited for (`properties.default.api.timeout.ms`).
const API_TIMEOUT_MS: u64 = 30_000;

/// The client settings of a table.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    /// librdkafka's settings.
    pub client: BTreeMap<String, String>,
    /// `bootstrap.servers`.
    pub bootstrap: String,
    /// `auto.offset.reset`, if set.
    pub offset_reset: Option<String>,
    /// How long a call to the brokers may take until they count as unreachable.
    pub api_timeout_ms: u64,
    /// `commit.offsets.on.checkpoint`: whether a source tells its group how far complete checkpoints have read.
    pub commits_offsets: bool,
}

impl Properties {
    /// Translates the options under `properties.`, given without that prefix.
    pub fn translate(given: &[(&str, &str)]) -> Result<Properties> {
        let mut properties = Properties {
            client: BTreeMap::new(),
            bootstrap: String::new(),
            offset_reset: None,
            api_timeout_ms: API_TIMEOUT_MS,
            commits_offsets: true,
        };
        for (key, value) in given {
            properties.take(key, value)?;
        }
        Ok(properties)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<()> {
        let mut set = |key: &str, value: &str| self.client.insert(key.to_owned(), value.to_owned());
        match key {
            "bootstrap.servers" => {
                self.bootstrap = value.to_owned();
                set(key, value);
            }
            "auto.offset.reset" => self.offset_reset = Some(value.to_ascii_lowercase()),
            "commit.offsets.on.checkpoint" => self.commits_offsets = boolean(key, value)?,
            "default.api.timeout.ms" => self.api_timeout_ms = number(key, value)?,
            "request.timeout.ms" => {
                number(key, value)?;
                set("socket.timeout.ms", value);
            }
            "fetch.max.wait.ms" => {
                set("fetch.wait.max.ms", value);
            }
            "max.request.size" => {
                set("message.max.bytes", value);
            }
            "buffer.memory" => {
                set("queue.buffering.max.kbytes", &(number(key, value)? / 1024).max(1).to_string());
            }
            "receive.buffer.bytes" | "send.buffer.bytes" => {
                // Java's -1 is the system's choice, which librdkafka calls 0.
                set(&format!("socket.{key}"), if value.trim() == "-1" { "0" } else { value });
            }
            "sasl.jaas.config" => {
                let (user, password) = jaas_login(value)?;
                set("sasl.username", &user);
                set("sasl.password", &password);
            }
            _ if WITHOUT_EFFECT.contains(&key) => {}
            _ => {
                set(key, value);
            }
        }
        Ok(())
    }

    /// Sets what the user has not set.
    pub fn default(&mut self, key: &str, value: &str) {
        self.client.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }

    /// Sets it whatever the user has set.
    pub fn force(&mut self, key: &str, value: &str) {
        self.client.insert(key.to_owned(), value.to_owned());
    }

    /// Settings of a client, with names and values checked; needs no network.
    pub fn config(&self) -> Result<ClientConfig> {
        self.check_security()?;
        let mut config = ClientConfig::new();
        for (key, value) in &self.client {
            config.set(key, value);
        }
        match config.create_native_config() {
            Ok(_) => Ok(config),
            Err(e) => Err(self.refused(e)),
        }
    }

    /// Refuses what this build's client was built without; the client itself says so only later.
    fn check_security(&self) -> Result<()> {
        let built = ClientConfig::new().create_native_config().and_then(|config| config.get("builtin.features"));
        let built = built.map_err(|e| Error::internal(e.to_string()))?;
        let has = |feature: &str| built.split(',').any(|f| f.trim() == feature);
        let set = |key: &str| self.client.get(key).map_or(String::new(), |v| v.to_ascii_uppercase());
        let protocol = set("security.protocol");
        if protocol.ends_with("SSL") && !has("ssl") {
            return Err(Error::unsupported(format!(
                "Option 'properties.security.protocol' = '{protocol}' is not supported: this build has no TLS. Supported \
                 are PLAINTEXT and SASL_PLAINTEXT."
            )));
        }
        if !protocol.starts_with("SASL") {
            return Ok(());
        }
        let mechanism = Some(set("sasl.mechanism")).filter(|m| !m.is_empty()).unwrap_or_else(|| set("sasl.mechanisms"));
        let feature = match mechanism.as_str() {
            "PLAIN" => "sasl_plain",
            "" | "GSSAPI" => "sasl_gssapi",
            "OAUTHBEARER" => "sasl_oauthbearer",
            _ => "sasl_scram",
        };
        match has(feature) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "Option 'properties.sasl.mechanism' = '{}' is not supported by this build. Supported is PLAIN.",
                if mechanism.is_empty() { "GSSAPI" } else { &mechanism }
            ))),
        }
    }

    /// Words for a setting the client refuses. A secret's value is not repeated.
    pub fn refused(&self, error: KafkaError) -> Error {
        match error {
            KafkaError::ClientConfig(_, reason, key, value) => {
                let shown = if is_secret(&key) { "******" } else { value.as_str() };
                let reason = if is_secret(&key) { "the value is not valid" } else { reason.as_str() };
                Error::invalid(format!("Kafka client setting 'properties.{key}' = '{shown}' cannot be used: {reason}"))
            }
            KafkaError::ClientCreation(reason) => {
                Error::invalid(format!("The Kafka client settings ('properties.*') cannot be used together: {reason}"))
            }
            other => Error::invalid(format!("The Kafka client settings ('properties.*') cannot be used: {other}")),
        }
    }
}

/// Whether a setting's value must not be shown.
fn is_secret(key: &str) -> bool {
    ["password", "secret", "token", "jaas", ".key", "apikey", "api-key", "sasl.oauthbearer.config"]
        .iter()
        .any(|word| key.to_ascii_lowercase().contains(word))
}

fn boolean(key: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::invalid(format!(
            "Kafka client setting 'properties.{key}' = '{value}' is neither true nor false."
        ))),
    }
}

fn number(key: &str, value: &str) -> Result<u64> {
    value.trim().parse().map_err(|_| {
        Error::invalid(format!("Kafka client setting 'properties.{key}' = '{value}' is not a whole number."))
    })
}

/// User and password of a JAAS line: `...PlainLoginModule required username="u" password="p";`.
fn jaas_login(line: &str) -> Result<(String, String)> {
    let known = line.contains("PlainLoginModule") || line.contains("ScramLoginModule");
    match (known, jaas_value(line, "username"), jaas_value(line, "password")) {
        (true, Some(user), Some(password)) => Ok((user, password)),
        _ => Err(Error::unsupported(
            "Option 'properties.sasl.jaas.config' is supported for PlainLoginModule and ScramLoginModule with \
             username=\"...\" and password=\"...\" only.",
        )),
    }
}

fn jaas_value(line: &str, name: &str) -> Option<String> {
    let mut rest = line;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at].chars().next_back();
        rest = &rest[at + name.len()..];
        let Some(value) = rest.trim_start().strip_prefix('=') else { continue };
        if before.is_some_and(|c| !c.is_whitespace()) {
            continue;
        }
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'')?;
        return quoted(&value[1..], quote);
    }
}

fn quoted(text: &str, quote: char) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?),
            c if c == quote => return Some(out),
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_names_become_librdkafkas() {
        let given = [
            ("bootstrap.servers", "h:1"),
            ("auto.offset.reset", "EARLIEST"),
            ("max.poll.records", "10"),
            ("fetch.max.wait.ms", "7"),
            ("receive.buffer.bytes", "-1"),
            ("client.id", "me"),
            ("sasl.jaas.config", r#"org.a.PlainLoginModule required username="u\"1" password='p w';"#),
        ];
        let p = Properties::translate(&given).expect("all known");
        let pairs: Vec<(&str, &str)> = p.client.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("bootstrap.servers", "h:1"),
                ("client.id", "me"),
                ("fetch.wait.max.ms", "7"),
                ("sasl.password", "p w"),
                ("sasl.username", "u\"1"),
                ("socket.receive.buffer.bytes", "0"),
            ]
        );
        assert_eq!(p.offset_reset.as_deref(), Some("earliest"));
        assert_eq!(p.bootstrap, "h:1");
    }

    #[test]
    fn unknown_settings_are_refused_by_name() {
        let p = Properties::translate(&[("bootstrap.server", "h:1")]).expect("checked later");
        let text = p.config().map(|_| ()).expect_err("no such setting").to_string();
        assert!(text.contains("'properties.bootstrap.server'"), "{text}");
    }

    #[test]
    fn secrets_are_not_repeated() {
        let p = Properties::translate(&[("ssl.key.passwords", "hunter2")]).expect("checked later");
        let text = p.config().map(|_| ()).expect_err("no such setting").to_string();
        assert!(!text.contains("hunter2"), "{text}");
        let text = jaas_login("Krb5LoginModule required password=\"hunter2\";").expect_err("other module").to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
}
