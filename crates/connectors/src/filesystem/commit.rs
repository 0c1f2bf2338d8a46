//! Publishing part files: a rename from the hidden name to the final one.
//!
//! Both names lie in the table's own folder, so a checkpoint holds names only. A rename that has happened is told
//! by the final name being there: publishing twice is publishing once. What a crash leaves under a hidden name
//! and no checkpoint knows, nobody ever sees.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tidegate_api::connector::{Committable, SinkCommitter};
use tidegate_api::fail_point::{self, FailPoint};
use tidegate_api::{Error, Result};

use super::disk::Disk;
use super::part::PendingPart;
use super::partition_commit::{PartitionCommits, Report};

/// What a barrier hands over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Staged {
    Part(PendingPart),
    Report { report: Report },
}

impl Staged {
    /// As what a checkpoint keeps of it.
    pub(super) fn committable(&self) -> Result<Committable> {
        let rows = match self {
            Staged::Part(part) => part.rows,
            Staged::Report { .. } => 0,
        };
        let state = serde_json::to_value(self).map_err(|e| Error::internal(e.to_string()))?;
        Ok(Committable { state, rows, files: Vec::new() })
    }

    fn of(committable: Committable) -> Result<Staged> {
        serde_json::from_value(committable.state)
            .map_err(|e| Error::job(format!("What the checkpoint holds of a finished file cannot be read: {e}.")))
    }

    /// The part, if it is one.
    pub(super) fn part(&self) -> Option<&PendingPart> {
        match self {
            Staged::Part(part) => Some(part),
            Staged::Report { .. } => None,
        }
    }

    fn report(self) -> Option<Report> {
        match self {
            Staged::Part(_) => None,
            Staged::Report { report } => Some(report),
        }
    }
}

/// Publishes the parts of one subtask.
#[derive(Clone)]
pub(super) struct FileCommitter {
    pub disk: Arc<dyn Disk>,
    pub partitions: Option<Arc<PartitionCommits>>,
}

impl FileCommitter {
    fn publish(&self, staged: &[Staged]) -> Result<()> {
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        for (number, part) in staged.iter().filter_map(Staged::part).enumerate() {
            if number > 0 {
                fail_point::reached(FailPoint::BetweenFileParts);
            }
            part.publish(self.disk.as_ref())?;
            folders.extend(part.visible.parent());
        }
        // The new names must survive a power failure before the checkpoint forgets the parts.
        for folder in folders {
            self.disk.sync_folder(folder).map_err(|e| {
                Error::job(format!("The finished files in '{}' cannot be synced: {e}.", folder.display()))
            })?;
        }
        Ok(())
    }

    async fn publish_all(&self, committables: Vec<Committable>, says_so: bool) -> Result<()> {
        let staged = committables.into_iter().map(Staged::of).collect::<Result<Vec<Staged>>>()?;
        let this = self.clone();
        let published = tokio::task::spawn_blocking(move || {
            this.publish(&staged)?;
            let Some(partitions) = this.partitions.as_ref().filter(|_| says_so) else { return Ok(()) };
            staged.into_iter().filter_map(Staged::report).try_for_each(|report| partitions.published(report))
        });
        published.await.map_err(|e| Error::internal(format!("publishing files broke: {e}")))?
    }
}

#[async_trait]
impl SinkCommitter for FileCommitter {
    /// Reports of before are of no use: the writers remember what is not committed and report it again.
    async fn recover(&mut self, pending: Vec<Committable>) -> Result<()> {
        self.publish_all(pending, false).await
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Result<()> {
        self.publish_all(committables, true).await
    }
}
