//! `filesystem`: files of a directory as a table, and a table as files.
//!
//! One file is one split, read from its start to its end; splits are handed out in the order of their paths.
//! Partitioned tables keep their partition columns in directory names (`day=2026-10-01/`), not in the files.

mod commit;
mod disk;
mod part;
mod partition;
mod partition_commit;
mod parts;
mod path;
mod rolling;
mod sink;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use tidegate_api::config::Configuration;
use tidegate_api::connector::{ConnectorFactory, Sink, Source, TableDescriptor};
use tidegate_api::{Error, LogicalType, Result, Schema, TypeKind};

use self::disk::{Disk, LocalDisk};
use self::partition_commit::{PartitionCommitOptions, PartitionCommits};
use self::path::TablePath;
use self::rolling::RollingPolicy;
use self::sink::FileSink;
use self::source::FileSource;
use crate::format::{decoding_format, encoding_format};
use crate::option::{OptionReader, invalid_value};

/// Options without effect here.
const HINTS: [&str; 2] = ["sink.shuffle-by-partition.enable", "source.report-statistics"];

/// Options of compaction; a source takes them without effect.
const COMPACTION: [&str; 3] = ["auto-compaction", "compaction.file-size", "compaction.parallelism"];

/// The factory of `'connector' = 'filesystem'`.
pub struct FilesystemFactory;

impl ConnectorFactory for FilesystemFactory {
    fn identifier(&self) -> &'static str {
        "filesystem"
    }

    fn source(&self, table: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Source>> {
        let mut options = OptionReader::new(self.identifier(), table);
        options.require(&["path", "format"])?;
        let format = decoding_format(&mut options, "format")?;
        let path = read_path(&mut options)?;
        let pattern_key = "source.path.regex-pattern";
        let pattern = match options.text(pattern_key) {
            Some(text) => Some(
                Regex::new(&format!("^(?:{text})$"))
                    .map_err(|e| invalid_value(pattern_key, text, &format!("a regular expression ({e})")))?,
            ),
            None => None,
        };
        let monitor_ms = options.duration_ms("source.monitor-interval")?;
        let default_partition = read_default_partition(&mut options);
        let parallelism = options.positive("scan.parallelism")?;
        options.accept(&HINTS);
        options.accept(&COMPACTION);
        options.accept(&RollingPolicy::KEYS);
        options.accept(&partition_commit::KEYS);
        options.accept(&["sink.parallelism"]);
        options.finish()?;
        let in_files = physical_in_files(table);
        format.check(&in_files)?;
        partition::check(table)?;
        Ok(Arc::new(FileSource {
            table: table.clone(),
            path,
            pattern,
            monitor_ms,
            default_partition,
            parallelism,
            format,
        }))
    }

    fn sink(&self, table: &TableDescriptor, _: &Configuration) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(file_sink(table, Arc::new(LocalDisk))?))
    }

    fn metadata_keys(&self, _: &BTreeMap<String, String>) -> Vec<(String, LogicalType)> {
        let not_null = LogicalType::not_null;
        vec![
            ("file.path".to_owned(), LogicalType::string().with_nullable(false)),
            ("file.name".to_owned(), LogicalType::string().with_nullable(false)),
            ("file.size".to_owned(), not_null(TypeKind::BigInt)),
            ("file.modification-time".to_owned(), not_null(TypeKind::TimestampLtz(3))),
        ]
    }
}

/// Checks every option and makes a sink that writes to `disk`.
fn file_sink(table: &TableDescriptor, disk: Arc<dyn Disk>) -> Result<FileSink> {
    let mut options = OptionReader::new(FilesystemFactory.identifier(), table);
    options.require(&["path", "format"])?;
    let format = encoding_format(&mut options, "format")?;
    let path = read_path(&mut options)?;
    let parallelism = options.positive("sink.parallelism")?;
    let default_partition = read_default_partition(&mut options);
    let policy = RollingPolicy::read(&mut options)?;
    let partitions = PartitionCommitOptions::read(&mut options, table)?;
    if options.bool("auto-compaction", false)? {
        return Err(Error::unsupported(
            "Option 'auto-compaction' = 'true' is not supported: files stay as they were finished. Let larger ones grow \
             with 'sink.rolling-policy.*'.",
        ));
    }
    options.accept(&COMPACTION);
    options.accept(&HINTS);
    options.accept(&["scan.parallelism", "source.monitor-interval", "source.path.regex-pattern"]);
    options.finish()?;
    if path.is_glob() {
        return Err(invalid_value("path", path.text(), "a directory to write to, without * or ?"));
    }
    format.encoder(&physical_in_files(table))?;
    partition::check(table)?;
    let root = path.path().to_owned();
    let partitions = partitions.map(|options| Arc::new(PartitionCommits::new(options, Arc::clone(&disk), root)));
    Ok(FileSink { table: table.clone(), path, parallelism, default_partition, policy, format, disk, partitions })
}

fn read_path(options: &mut OptionReader<'_>) -> Result<TablePath> {
    let text = options.required("path")?;
    TablePath::parse(text).ok_or_else(|| {
        Error::unsupported(format!(
            "Could not find a file system implementation for the path '{text}'. Supported are local paths and file:// URIs."
        ))
    })
}

fn read_default_partition(options: &mut OptionReader<'_>) -> String {
    options.text("partition.default-name").unwrap_or("__DEFAULT_PARTITION__").to_owned()
}

/// The columns that stand in the files: all physical ones but the partition keys.
fn physical_in_files(table: &TableDescriptor) -> Schema {
    let columns = table.physical.fields.iter().enumerate();
    let in_files = columns.filter(|(i, _)| !table.partition_keys.contains(i));
    Schema::new(in_files.map(|(_, f)| f.clone()).collect())
}
