//! What flows between operators.

use arrow::array::{RecordBatch, UInt8Array};
use serde::{Deserialize, Serialize};
use tidegate_time::{Watermark, WatermarkStatus};

/// What a row does to the table that the stream describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a new row.
    Insert = 0,
    /// `-U`: takes back the row that the next `+U` replaces.
    UpdateBefore = 1,
    /// `+U`: the new content of a row.
    UpdateAfter = 2,
    /// `-D`: the row is gone.
    Delete = 3,
}

impl RowKind {
    /// Flink's two-character name.
    pub fn short(self) -> &'static str {
        match self {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        }
    }

    /// The kind a stored byte stands for. Bytes come only from [`RowKind::to_byte`].
    pub fn from_byte(byte: u8) -> RowKind {
        match byte {
            0 => RowKind::Insert,
            1 => RowKind::UpdateBefore,
            2 => RowKind::UpdateAfter,
            _ => RowKind::Delete,
        }
    }

    /// The byte kept in [`Batch::kinds`].
    pub fn to_byte(self) -> u8 {
        self as u8
    }

    /// True for `+I` and `+U`.
    pub fn is_addition(self) -> bool {
        matches!(self, RowKind::Insert | RowKind::UpdateAfter)
    }
}

/// Rows in arrival order.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The columns; all of one length.
    pub columns: RecordBatch,
    /// A [`RowKind`] byte for each row; `None` means every row is `+I`.
    pub kinds: Option<UInt8Array>,
}

impl Batch {
    /// A batch of insertions.
    pub fn inserts(columns: RecordBatch) -> Self {
        Batch { columns, kinds: None }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// The kind of row `i`.
    pub fn kind(&self, i: usize) -> RowKind {
        self.kinds.as_ref().map_or(RowKind::Insert, |k| RowKind::from_byte(k.value(i)))
    }

    /// Rows `offset .. offset + len`, without copying.
    pub fn slice(&self, offset: usize, len: usize) -> Batch {
        Batch { columns: self.columns.slice(offset, len), kinds: self.kinds.as_ref().map(|k| k.slice(offset, len)) }
    }
}

/// One element of a stream.
#[derive(Clone, Debug)]
pub enum StreamElement {
    /// Rows.
    Batch(Batch),
    /// Event time has advanced to here.
    Watermark(Watermark),
    /// The sender became idle or active again.
    Status(WatermarkStatus),
    /// Nothing follows on this channel.
    EndOfInput,
}
