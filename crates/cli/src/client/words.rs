//! What completion knows besides the catalog: settings, connectors, their options and some of their values.
//!
//! The lists are what the engine and the connectors of this version read; a test hands every option to its connector,
//! which refuses those it does not know.

/// Settings that `SET` may change and Tidegate heeds.
pub const SETTINGS: &[(&str, &[&str])] = &[
    ("execution.runtime-mode", &["streaming", "batch"]),
    ("parallelism.default", &[]),
    ("pipeline.name", &[]),
    ("sql-client.display.print-time-cost", BOOL),
    ("sql-client.execution.max-table-result.rows", &[]),
    ("sql-client.execution.result-mode", &["table", "changelog", "tableau"]),
    ("table.display.max-column-width", &[]),
    ("table.dml-sync", BOOL),
    ("table.exec.mini-batch.allow-latency", &[]),
    ("table.exec.mini-batch.enabled", BOOL),
    ("table.exec.mini-batch.size", &[]),
    ("table.exec.resource.default-parallelism", &[]),
    ("table.exec.sink.not-null-enforcer", &["ERROR", "DROP"]),
    ("table.exec.source.idle-timeout", &[]),
    ("table.exec.state.ttl", &[]),
    ("table.local-time-zone", &["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Seoul", "default"]),
    ("table.optimizer.agg-phase-strategy", &["AUTO", "ONE_PHASE", "TWO_PHASE"]),
];

const BOOL: &[&str] = &["true", "false"];

/// Options that every table takes.
pub const COMMON_OPTIONS: &[&str] = &["connector", "scan.watermark.emit.strategy", "scan.watermark.idle-timeout"];

/// Connectors and their options.
pub const CONNECTORS: &[(&str, &[&str])] = &[
    ("blackhole", &[]),
    ("datagen", &["number-of-rows", "rows-per-second", "fields."]),
    ("filesystem", &["path", "format", "source.monitor-interval", "source.path.regex-pattern"]),
    (
        "kafka",
        &[
            "topic",
            "topic-pattern",
            "properties.bootstrap.servers",
            "properties.group.id",
            "format",
            "key.format",
            "key.fields",
            "key.fields-prefix",
            "value.format",
            "value.fields-include",
            "scan.startup.mode",
            "scan.startup.specific-offsets",
            "scan.startup.timestamp-millis",
            "scan.bounded.mode",
            "scan.topic-partition-discovery.interval",
            "sink.partitioner",
            "sink.delivery-guarantee",
        ],
    ),
    ("print", &["print-identifier", "standard-error", "sink.parallelism"]),
    (
        "upsert-kafka",
        &[
            "topic",
            "properties.bootstrap.servers",
            "key.format",
            "value.format",
            "key.fields-prefix",
            "value.fields-include",
        ],
    ),
];

/// Formats and their options, without the format's name before them.
pub const FORMATS: &[(&str, &[&str])] = &[
    ("csv", &["field-delimiter", "ignore-parse-errors", "null-literal", "allow-comments", "quote-character"]),
    ("json", &["ignore-parse-errors", "fail-on-missing-field", "timestamp-format.standard", "map-null-key.mode"]),
    ("raw", &["charset", "endianness"]),
];

/// Values that an option may have, as far as they are words.
pub fn option_values(key: &str) -> Vec<&'static str> {
    match key {
        "connector" => CONNECTORS.iter().map(|(name, _)| *name).collect(),
        "format" | "key.format" | "value.format" => FORMATS.iter().map(|(name, _)| *name).collect(),
        "scan.startup.mode" => {
            vec!["earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"]
        }
        "scan.bounded.mode" => vec!["unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"],
        "scan.watermark.emit.strategy" => vec!["on-event", "on-periodic"],
        "value.fields-include" => vec!["ALL", "EXCEPT_KEY"],
        "json.timestamp-format.standard" => vec!["SQL", "ISO-8601"],
        "standard-error" => BOOL.to_vec(),
        key if key.ends_with("ignore-parse-errors") || key.ends_with("fail-on-missing-field") => BOOL.to_vec(),
        _ => Vec::new(),
    }
}
