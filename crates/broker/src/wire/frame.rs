//! Frames: four bytes of length, then that many bytes.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::WireError;

/// Longest request that is read: `socket.request.max.bytes`.
pub(crate) const FRAME_BYTES_MAX: i32 = 100 * 1024 * 1024;

/// Shortest request: kind, version and correlation id.
const FRAME_BYTES_MIN: i32 = 8;

/// What is reserved at once. A longer frame gets its room as its bytes come, so that a length alone
/// costs nothing.
const RESERVE_BYTES: usize = 256 * 1024;

/// Cuts what a connection sends into frames.
pub(crate) struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(source: R) -> FrameReader<R> {
        FrameReader { source, buffer: BytesMut::new() }
    }

    /// The next frame without its length; none if the other side has closed the connection, also in the
    /// middle of a frame.
    ///
    /// # Errors
    ///
    /// If the length is impossible or reading fails.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        if !self.fill(4).await? {
            return Ok(None);
        }
        let length = self.buffer.get_i32();
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&length) {
            return Err(WireError::FrameSize(length));
        }
        let length = length as usize;
        if !self.fill(length).await? {
            return Ok(None);
        }
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Reads until that many bytes are there; false if the connection ends before.
    async fn fill(&mut self, bytes: usize) -> Result<bool, WireError> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            self.buffer.reserve(missing.min(RESERVE_BYTES.max(self.buffer.len())));
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(mut bytes: &[u8]) -> (Vec<Vec<u8>>, Option<WireError>) {
        let mut reader = FrameReader::new(&mut bytes);
        let mut frames = Vec::new();
        loop {
            match reader.next().await {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => return (frames, None),
                Err(error) => return (frames, Some(error)),
            }
        }
    }

    #[tokio::test]
    async fn cuts_several_frames_and_drops_a_torn_one() {
        let mut bytes = Vec::new();
        for body in [&b"12345678"[..], b"a longer body"] {
            bytes.extend((body.len() as i32).to_be_bytes());
            bytes.extend(body);
        }
        bytes.extend(100_i32.to_be_bytes());
        bytes.extend(b"torn");
        let (frames, error) = frames(&bytes).await;
        assert_eq!(frames, [b"12345678".to_vec(), b"a longer body".to_vec()]);
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn refuses_impossible_lengths() {
        for length in [-1, 0, 7, FRAME_BYTES_MAX + 1, i32::MAX, i32::MIN] {
            let (frames, error) = frames(&length.to_be_bytes()).await;
            assert!(frames.is_empty());
            assert!(matches!(error, Some(WireError::FrameSize(l)) if l == length), "{length}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_length_alone_reserves_little() {
        let bytes = FRAME_BYTES_MAX.to_be_bytes();
        let mut source = &bytes[..];
        let mut reader = FrameReader::new(&mut source);
        assert!(reader.next().await.expect("a possible length").is_none());
        assert!(reader.buffer.capacity() <= 2 * RESERVE_BYTES, "{}", reader.buffer.capacity());
    }
}
