//! Places where a test lets the process die, as by a power cut: nothing is unwound, flushed or said goodbye.
//!
//! `TIDEGATE_FAIL_POINT=after-manifest-before-commit:3` ends the process the third time it comes there. A build
//! without debug assertions has none of it: [`reached`] is empty there, and the variable means nothing.
//!
//! The points are the steps of the checkpoint protocol between which a death must not cost or double a row.

use crate::{Error, Result};

/// The variable that names a point.
pub const VARIABLE: &str = "TIDEGATE_FAIL_POINT";

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailPoint {
    /// A checkpoint has begun, and no source knows of it.
    BeforeBarrier,
    /// A task has sent the barrier on and has not taken its state.
    AfterBarrier,
    /// A file of a task is stored, and the task has not acknowledged.
    AfterUpload,
    /// All files are stored and acknowledged, and there is no manifest.
    BeforeManifest,
    /// The checkpoint exists, and no sink knows of it.
    AfterManifest,
    /// Some of the Kafka segments of a checkpoint are written, others not.
    BetweenKafkaSegments,
    /// Kafka has committed a segment, and the committer has not noted it.
    AfterKafkaCommit,
    /// Some of the part files of a checkpoint have their names, others not.
    BetweenFileParts,
    /// Half of the operators have their state back.
    DuringRestore,
    /// A sink has published what the last run left over, and has no writer yet.
    AfterSinkRecovery,
    /// The manifest of a subsumed checkpoint is deleted, its files are not.
    DuringDeletion,
    /// Files that nobody names are being removed.
    DuringSweep,
}

impl FailPoint {
    /// All of them, in the order of the protocol.
    pub const ALL: [FailPoint; 12] = [
        FailPoint::BeforeBarrier,
        FailPoint::AfterBarrier,
        FailPoint::AfterUpload,
        FailPoint::BeforeManifest,
        FailPoint::AfterManifest,
        FailPoint::BetweenKafkaSegments,
        FailPoint::AfterKafkaCommit,
        FailPoint::BetweenFileParts,
        FailPoint::DuringRestore,
        FailPoint::AfterSinkRecovery,
        FailPoint::DuringDeletion,
        FailPoint::DuringSweep,
    ];

    /// Its name in [`VARIABLE`].
    pub const fn name(self) -> &'static str {
        match self {
            FailPoint::BeforeBarrier => "before-barrier",
            FailPoint::AfterBarrier => "after-barrier",
            FailPoint::AfterUpload => "after-upload",
            FailPoint::BeforeManifest => "after-upload-before-manifest",
            FailPoint::AfterManifest => "after-manifest-before-commit",
            FailPoint::BetweenKafkaSegments => "between-kafka-segments",
            FailPoint::AfterKafkaCommit => "after-kafka-commit",
            FailPoint::BetweenFileParts => "between-file-parts",
            FailPoint::DuringRestore => "during-restore",
            FailPoint::AfterSinkRecovery => "after-sink-recovery",
            FailPoint::DuringDeletion => "during-deletion",
            FailPoint::DuringSweep => "during-sweep",
        }
    }
}

/// A point and how often the process may come there, the last time included.
#[cfg_attr(not(any(debug_assertions, test)), allow(dead_code))]
fn parse(text: &str) -> Result<(FailPoint, u64)> {
    let (name, times) = text.split_once(':').unwrap_or((text, "1"));
    let point = FailPoint::ALL.into_iter().find(|point| point.name() == name).ok_or_else(|| {
        let known: Vec<&str> = FailPoint::ALL.into_iter().map(FailPoint::name).collect();
        Error::invalid(format!("{VARIABLE}={text}: there is no point '{name}'. The points are {}.", known.join(", ")))
    })?;
    match times.parse() {
        Ok(times) if times > 0 => Ok((point, times)),
        _ => Err(Error::invalid(format!("{VARIABLE}={text}: '{times}' is not a number from 1 on."))),
    }
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{FailPoint, Result, VARIABLE, parse};

    static ARMED: OnceLock<(FailPoint, AtomicU64)> = OnceLock::new();

    pub fn arm() -> Result<()> {
        let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
        let (point, times) = parse(&text)?;
        ARMED.get_or_init(|| (point, AtomicU64::new(times)));
        Ok(())
    }

    pub fn reached(point: FailPoint) {
        let Some((armed, left)) = ARMED.get() else { return };
        if *armed == point && left.fetch_sub(1, Ordering::SeqCst) == 1 {
            eprintln!("fail point {} reached", point.name());
            // The signal cannot be caught here, and no destructor runs: what SIGKILL does, from within.
            std::process::abort();
        }
    }
}

/// Arms the point that [`VARIABLE`] names; a name that is none is refused with the list.
pub fn arm() -> Result<()> {
    #[cfg(debug_assertions)]
    armed::arm()?;
    Ok(())
}

/// The process has come to a point, and dies if it is the armed one.
#[inline(always)]
pub fn reached(point: FailPoint) {
    #[cfg(debug_assertions)]
    armed::reached(point);
    #[cfg(not(debug_assertions))]
    let _ = point;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_named_with_a_count_or_without() {
        for point in FailPoint::ALL {
            assert_eq!(parse(point.name()).unwrap(), (point, 1));
            assert_eq!(parse(&format!("{}:12", point.name())).unwrap(), (point, 12));
        }
    }

    #[test]
    fn what_is_no_point_is_refused_with_the_list() {
        let told = parse("after-lunch").unwrap_err().to_string();
        assert!(told.contains("'after-lunch'") && told.contains("before-barrier, after-barrier"), "{told}");
        for wrong in ["before-barrier:0", "before-barrier:x", "before-barrier:"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
