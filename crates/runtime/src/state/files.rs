//! Files of snapshots: written here, kept elsewhere.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::Barrier;
use tidegate_checkpoint::manifest::FileRef;
use tidegate_state::RunSetDescriptor;

use super::stores::OpenStore;

/// Where the files of a job's checkpoints go.
#[async_trait]
pub(crate) trait SnapshotFiles: Send + Sync {
    /// Keeps a finished local file of this name, which no other file of the job ever has. One that an earlier
    /// checkpoint kept and that exists is not kept again.
    async fn put_file(&self, barrier: Barrier, name: &str, path: &Path) -> Result<FileRef>;

    /// Keeps bytes for this checkpoint alone.
    async fn put_bytes(&self, barrier: Barrier, name: &str, bytes: Vec<u8>) -> Result<FileRef>;

    /// Keeps a file that a sink has staged.
    async fn put_staged(&self, barrier: Barrier, path: &Path) -> Result<FileRef> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::internal(format!("a staged file is called {}", path.display())))?;
        self.put_file(barrier, name, path).await
    }
}

/// A store's part of a manifest. Its files are these of the subtask's list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredRuns {
    pub snapshot: RunSetDescriptor,
    /// Position of its first file in the list; the others follow in the snapshot's order.
    pub first_file: usize,
}

/// Waits until a snapshot that was asked for has begun, writes what it still needs, and keeps its files. `before` is the number of files
/// in the subtask's list so far.
pub(crate) async fn write_store(
    open: &OpenStore,
    barrier: Barrier,
    files: &Arc<dyn SnapshotFiles>,
    before: usize,
    now_ms: i64,
) -> Result<(Value, Vec<FileRef>)> {
    open.asked.begun(barrier.id.0).await?;
    let writing = open.upkeep.writing.lock().await;
    let snapshot = loop {
        if let Some(snapshot) = { open.lock().take_snapshot(barrier.id.0) } {
            break snapshot;
        }
        if !open.flush(now_ms).await? {
            return Err(Error::internal("a snapshot waits for nothing"));
        }
    };
    drop(writing);
    let mut kept = Vec::with_capacity(snapshot.files.len());
    for file in &snapshot.files {
        kept.push(files.put_file(barrier, &file.name, &open.folder.join(&file.name)).await?);
    }
    open.merge_behind(now_ms);
    open.trouble()?;
    let stored = StoredRuns { snapshot, first_file: before };
    let stored = serde_json::to_value(stored).map_err(|e| Error::internal(format!("runs cannot be named: {e}")))?;
    Ok((stored, kept))
}
