//! The topics in what a consumer tells its leader.

use std::collections::BTreeSet;

/// Topics of a consumer's subscription: a version, then an array of strings (all versions begin so).
/// `None` if the bytes are something else.
pub(super) fn topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let (_version, mut rest) = metadata.split_first_chunk::<2>()?;
    let count = i32::from_be_bytes(take(&mut rest)?);
    let mut topics = BTreeSet::new();
    for _ in 0..count.max(0) {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, after) = rest.split_at_checked(length)?;
        topics.insert(std::str::from_utf8(name).ok()?.to_owned());
        rest = after;
    }
    Some(topics)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_topics() {
        let bytes = b"\0\x03\0\0\0\x02\0\x01a\0\x02bc\0\0\0\0\xff\xff\xff\xff";
        assert_eq!(topics(bytes), Some(BTreeSet::from(["a".to_owned(), "bc".to_owned()])));
        assert_eq!(topics(b"\0\0\xff\xff\xff\xff"), Some(BTreeSet::new()));
        for broken in [&b""[..], b"\0", b"\0\0\0\0\0\x01", b"\0\0\0\0\0\x01\0\x05ab", b"\0\0\x7f\xff\xff\xff\0\x01\xff"]
        {
            assert_eq!(topics(broken), None, "{broken:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = topics(&bytes);
        }
    }
}
