//! Why a sink must not go on by itself.

/// Why a sink must not go on by itself. In each case `forced` lets it, and says what that may cost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// The offset is gone, and the checkpoint is old enough for that.
    #[error(
        "The checkpoint is {age_ms} ms old and Kafka keeps the committed offsets of an idle group for {retention_ms} ms. \
         Group '{group}' has none, so it cannot be told whether {pending} staged segments of transactional id \
         '{transactional_id}' were written. Forced, they are written, perhaps once more."
    )]
    Expired {
        /// Which id.
        transactional_id: String,
        /// Its group.
        group: String,
        /// Age of the checkpoint.
        age_ms: i64,
        /// How long offsets live.
        retention_ms: i64,
        /// Segments whose fate is unknown.
        pending: usize,
    },
    /// The offset is behind what was there before, or gone though it is too young for that.
    #[error(
        "Group '{group}' of transactional id '{transactional_id}' has committed sequence {found}, but {confirmed} was \
         written before: this is another cluster, or the group or topic was deleted or restored from a backup. Forced, \
         the sink goes on after {confirmed}; what is missing there stays missing."
    )]
    Regressed {
        /// Which id.
        transactional_id: String,
        /// Its group.
        group: String,
        /// What was read; 0 for nothing.
        found: u64,
        /// What was known.
        confirmed: u64,
    },
    /// The same sequence was written with other rows.
    #[error(
        "Sequence {sequence} of transactional id '{transactional_id}' was written with other rows than this snapshot has \
         staged: the job went on from an older checkpoint after this snapshot was taken. Forced, the staged rows are \
         taken for written. Restore a newer snapshot, or use another transactional id prefix and accept that rows since \
         then come twice."
    )]
    Forked {
        /// Which id.
        transactional_id: String,
        /// Which sequence.
        sequence: u64,
    },
}
