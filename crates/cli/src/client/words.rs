//! What completion knows besides the catalog: settings, connectors, their options and some of their values.
//!
//! The lists are what the engine and the connectors of this version read; a test hands every option to its connector,
//! which refuses those it does not know.

/// Settings that Tidegate heeds, and their values as far as they are words.
pub const SETTINGS: &[(&str, &[&str])] = &[
    ("parallelism.default", &[]),
    ("pipeline.name", &[]),
    ("sql-client.display.print-time-cost", BOOL),
    ("sql-client.execution.max-table-result.rows", &[]),
    ("sql-client.execution.result-mode", &["table", "changelog", "tableau"]),
    ("table.display.max-column-width", &[]),
    ("table.dml-sync", BOOL),
    ("table.dynamic-table-options.enabled", BOOL),
    ("table.exec.resource.default-parallelism", &[]),
    ("table.exec.sink.not-null-enforcer", &["ERROR", "DROP"]),
    ("table.exec.sink.require-on-conflict", BOOL),
    ("table.exec.source.idle-timeout", &[]),
    ("table.local-time-zone", &["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Seoul", "default"]),
    ("table.optimizer.agg-phase-strategy", &["AUTO", "ONE_PHASE", "TWO_PHASE"]),
    ("tidegate.lateness", &["operator", "split"]),
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

#[cfg(test)]
mod tests {
    use tidegate_api::config::Configuration;
    use tidegate_api::connector::{ConnectorRegistry, TableDescriptor};
    use tidegate_api::{Field, LogicalType, Schema, TypeKind};

    use super::*;

    /// Enough to make a table of any connector and format.
    const GIVEN: &[(&str, &[(&str, &str)])] = &[
        ("filesystem", &[("path", "/x")]),
        ("kafka", &[("topic", "t"), ("properties.bootstrap.servers", "b:1"), ("scan.startup.mode", "earliest-offset")]),
    ];

    /// The options that the connector, used with the format, says it knows when it is given one that it does not.
    fn known(connector: &str, format: Option<&str>) -> String {
        let mut registry = ConnectorRegistry::default();
        tidegate_connectors::register_all(&mut registry);
        let given = GIVEN.iter().find(|(name, _)| *name == connector).map_or(&[][..], |(_, options)| options);
        let mut options: Vec<(&str, &str)> = vec![("connector", connector), ("no-such-option", "x")];
        options.extend(given);
        options.extend(format.map(|format| ("format", format)));
        let table = TableDescriptor {
            identifier: "c.d.t".into(),
            options: options.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            physical: Schema { fields: vec![Field::new("id", LogicalType::new(TypeKind::Varchar(10)))] },
            ..TableDescriptor::default()
        };
        let factory = registry.factory(&table).expect("a connector");
        let config = Configuration::default();
        let refused = [factory.source(&table, &config).err(), factory.sink(&table, &config).err()];
        let texts: Vec<String> = refused.into_iter().flatten().map(|e| e.to_string()).collect();
        assert!(texts.iter().any(|t| t.contains("Supported options")), "{connector}, {format:?}: {texts:?}");
        texts.join("\n")
    }

    /// Whether the text lists the option, by itself or by how it starts.
    fn lists(text: &str, option: &str) -> bool {
        let covers = |line: &str| line.strip_suffix('*').is_some_and(|start| option.starts_with(start));
        let begins = |line: &str| option.ends_with('.') && line.starts_with(option);
        text.lines().any(|line| line == option || covers(line) || begins(line))
    }

    #[test]
    fn every_option_that_is_offered_is_known() {
        let mut unknown = Vec::new();
        for (connector, options) in CONNECTORS {
            let needs_format = GIVEN.iter().any(|(name, _)| name == connector);
            let text = known(connector, needs_format.then_some("json"));
            let offered = COMMON_OPTIONS.iter().chain(*options);
            unknown.extend(offered.filter(|o| !lists(&text, o)).map(|o| format!("{connector}: {o}")));
        }
        for (format, options) in FORMATS {
            let text = known("kafka", Some(format));
            let offered = options.iter().map(|option| format!("{format}.{option}"));
            unknown.extend(offered.filter(|o| !lists(&text, o)));
        }
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
