//! Whether a store that is reached over a network does what checkpoints ask of it.

use bytes::Bytes;

use crate::storage::folder::{create, delete};
use crate::storage::{CheckpointStorage, StorageError};

impl CheckpointStorage {
    /// Lists, creates, reads and deletes, so that a wrong key or a missing bucket is found before the job runs and not
    /// at its first checkpoint; and makes sure that what is there is not written over, on which everything rests.
    /// `random` keeps two proofs apart; one that a crash leaves over is swept.
    pub async fn prove(&self, random: u64) -> Result<(), StorageError> {
        let root = &self.root;
        self.list().await?;
        let path = root.path.clone().join(format!("proof-{random:016x}"));
        create(root, &path, Bytes::from_static(b"first")).await?;
        let again = create(root, &path, Bytes::from_static(b"second")).await;
        delete(root, path).await?;
        match again {
            Err(StorageError::Occupied { .. }) => Ok(()),
            Ok(()) => Err(StorageError::Unconditional { folder: root.url(&root.path) }),
            Err(error) => Err(error),
        }
    }
}
