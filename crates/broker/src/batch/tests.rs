use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::records::{Compression, RecordBatchDecoder};
use proptest::prelude::*;

use super::samples::{PLAIN, Sender, batch, decode, numbered, plain};
use super::*;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

#[test]
fn reads_the_head_that_a_client_wrote() {
    let bytes = batch(
        Sender { id: 7, epoch: 3, sequence: 40, transactional: true },
        Compression::Lz4,
        &[(100, Some("a"), Some("1")), (90, None, None), (120, Some("b"), Some("2"))],
    );
    let header = parse(&bytes).unwrap();
    assert_eq!(header.size, bytes.len());
    assert_eq!((header.record_count, header.last_offset_delta), (3, 2));
    assert_eq!((header.base_timestamp, header.max_timestamp), (90, 120));
    assert_eq!((header.producer_id, header.producer_epoch), (7, 3));
    assert_eq!((header.base_sequence, header.last_sequence()), (40, 42));
    assert_eq!(header.compression(), Some(Compression::Lz4));
    assert!(header.is_transactional() && !header.is_control() && !header.is_log_append_time());
}

#[test]
fn sequences_wrap_after_the_largest() {
    let header = parse(&numbered(1, 0, i32::MAX - 1, 4, false)).unwrap();
    assert_eq!(header.last_sequence(), 1);
}

#[test]
fn refuses_what_a_producer_must_not_send() {
    let refused = |bytes: Bytes| split(bytes).unwrap_err();
    let patched = |change: &dyn Fn(&mut BatchHeader)| {
        let bytes = numbered(1, 0, 0, 2, true);
        let mut header = parse(&bytes).unwrap();
        change(&mut header);
        encode(&header, &bytes[HEADER_SIZE..])
    };
    assert_eq!(refused(end_marker(1, 0, 0, true, 0, 5)), ResponseError::InvalidRecord);
    assert_eq!(refused(patched(&|header| header.record_count = 3)), ResponseError::InvalidRecord);
    assert_eq!(refused(patched(&|header| header.last_offset_delta = -1)), ResponseError::InvalidRecord);
    assert_eq!(refused(patched(&|header| header.base_sequence = -1)), ResponseError::InvalidRecord);
    assert_eq!(refused(patched(&|header| header.producer_id = -1)), ResponseError::InvalidRecord);
    assert_eq!(refused(patched(&|header| header.magic = 1)), ResponseError::InvalidRecord);
    assert_eq!(refused(patched(&|header| header.attributes |= 0b111)), ResponseError::UnsupportedCompressionType);
    let bytes = numbered(1, 0, 0, 2, true);
    assert_eq!(refused(bytes.slice(..bytes.len() - 1)), ResponseError::CorruptMessage);
    assert_eq!(split(patched(&|_| {})).unwrap().len(), 1);
}

#[test]
fn a_flipped_bit_is_corrupt() {
    let bytes = plain(&[(1, Some("key"), Some("value"))]);
    for at in ATTRIBUTES_AT..bytes.len() {
        let mut damaged = BytesMut::from(&bytes[..]);
        damaged[at] ^= 1;
        assert_eq!(split(damaged.freeze()).unwrap_err(), ResponseError::CorruptMessage, "byte {at}");
    }
}

#[test]
fn a_client_reads_our_end_markers() {
    for commit in [true, false] {
        let bytes = end_marker(9, 4, 11, commit, 55, 1000);
        assert_eq!(marker_commits(&bytes), Some(commit));
        let record = decode(bytes).remove(0);
        assert!(record.control && record.transactional);
        assert_eq!((record.producer_id, record.producer_epoch, record.offset), (9, 4, 55));
        assert_eq!(record.timestamp, 1000);
        assert_eq!(record.key.as_deref(), Some(&[0, 0, 0, u8::from(commit)][..]));
        assert_eq!(record.value.as_deref(), Some(&[0, 0, 0, 0, 0, 11][..]));
    }
}

#[test]
fn every_codec_is_read_and_written() {
    let value = "a value that repeats ".repeat(5000);
    for codec in CODECS {
        let bytes = batch(PLAIN, codec, &[(5, Some("k"), Some(&value)), (6, None, None)]);
        let header = verify(&bytes).unwrap();
        let plain = decompress(&header, &bytes).unwrap();
        let records: Vec<_> = Records::new(&plain, header.record_count).map(Result::unwrap).collect();
        assert_eq!(records[0].value, Some(value.as_bytes()));
        assert_eq!((records[1].key, records[1].value, records[1].offset_delta), (None, None, 1));
        for target in CODECS {
            let again = recompress(&header, &bytes, target, None).unwrap();
            assert_eq!(parse(&again).unwrap().compression(), Some(target));
            assert_eq!(decode(again), decode(bytes.clone()), "{codec:?} to {target:?}");
        }
    }
}

#[test]
fn levels_trade_time_for_size() {
    let value: String = (0..20_000).map(|number: u32| (number * number).to_string()).collect();
    let bytes = plain(&[(1, None, Some(&value))]);
    let header = parse(&bytes).unwrap();
    for (codec, low, high) in [(Compression::Gzip, 1, 9), (Compression::Lz4, 1, 17), (Compression::Zstd, -20, 19)] {
        let [low, high] = [low, high].map(|level| recompress(&header, &bytes, codec, Some(level)).unwrap());
        assert!(high.len() < low.len(), "{codec:?}: {} and {}", low.len(), high.len());
        assert_eq!(decode(low), decode(high));
    }
}

#[test]
fn stamping_gives_every_record_the_time_of_appending() {
    let bytes = plain(&[(5, None, Some("a")), (9, None, Some("b"))]);
    let stamped = stamp(&parse(&bytes).unwrap(), &bytes, 77);
    let header = verify(&stamped).unwrap();
    assert!(header.is_log_append_time());
    assert_eq!(header.max_timestamp, 77);
}

#[test]
fn a_small_batch_that_says_it_is_huge_is_refused_before_memory_is_taken() {
    // Snappy, raw: a length of 4 GB in front of nothing.
    let records = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let mut header = parse(&plain(&[(1, None, None)])).unwrap();
    header.attributes = 2;
    let bytes = encode(&header, &records);
    assert!(decompress(&parse(&bytes).unwrap(), &bytes).is_err());
}

#[test]
fn a_record_written_again_keeps_headers_and_time() {
    let bytes = plain(&[(1000, Some("k"), Some("v")), (3000, Some("k2"), None)]);
    let header = parse(&bytes).unwrap();
    let mut out = BytesMut::new();
    for record in Records::new(&bytes[HEADER_SIZE..], 2) {
        put_record(&mut out, &record.unwrap(), header.base_timestamp - 50_000);
    }
    let moved = encode(&cleaned_header(&header, 2, 3000, Some(50_000)), &out);
    assert_eq!(parse(&moved).unwrap().delete_horizon_ms(), Some(50_000));
    let (before, after) = (decode(bytes), decode(moved));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((before.timestamp, &before.key, &before.value), (after.timestamp, &after.key, &after.value));
        assert_eq!(before.headers, after.headers);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), count in any::<i32>()) {
        let _ = parse(&bytes);
        let _ = verify(&bytes);
        let _ = marker_commits(&bytes);
        for record in Records::new(&bytes, count) {
            let _ = record;
        }
        prop_assert!(bytes.is_empty() || split(Bytes::from(bytes)).is_err());
    }

    /// Behind a checksum that holds, the records may be anything.
    #[test]
    fn random_records_never_panic(
        codec in 0i16..8,
        count in any::<i32>(),
        records in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut header = parse(&plain(&[(1, None, None)])).unwrap();
        header.attributes = codec;
        header.record_count = count;
        let bytes = encode(&header, &records);
        let header = verify(&bytes).unwrap();
        if let Ok(plain) = decompress(&header, &bytes) {
            for record in Records::new(&plain, header.record_count) {
                let _ = record;
            }
        }
        let _ = recompress(&header, &bytes, Compression::Lz4, Some(1));
    }

    #[test]
    fn damaged_batches_never_panic(
        codec in 0usize..5,
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = batch(PLAIN, CODECS[codec], &[(5, Some("key"), Some("some value")), (6, Some("x"), None)]);
        let mut damaged = BytesMut::from(&bytes[..]);
        let at = at.index(damaged.len());
        damaged[at] ^= flip;
        let mut cut = damaged.split_to(cut.index(bytes.len() + 1)).freeze();
        let _ = split(cut.clone());
        let header = BatchHeader { size: cut.len(), ..parse(&bytes).unwrap() };
        if let Ok(plain) = decompress(&header, &cut) {
            Records::new(&plain, header.record_count).for_each(drop);
        }
        let _ = RecordBatchDecoder::decode_batch_info(&mut cut);
    }

    #[test]
    fn what_a_client_encodes_is_read_as_it_decodes_it(
        records in prop::collection::vec((any::<i32>(), prop::option::of("[a-z]{0,9}"), prop::option::of("[a-z]{0,40}")), 1..20),
        codec in 0usize..5,
    ) {
        let samples: Vec<_> =
            records.iter().map(|(time, key, value)| (i64::from(*time), key.as_deref(), value.as_deref())).collect();
        let bytes = batch(PLAIN, CODECS[codec], &samples);
        let header = verify(&bytes).unwrap();
        let plain = decompress(&header, &bytes).unwrap();
        let ours: Vec<_> = Records::new(&plain, header.record_count).map(Result::unwrap).collect();
        prop_assert_eq!(ours.len(), samples.len());
        for (ours, (time, key, value)) in ours.iter().zip(&samples) {
            prop_assert_eq!(header.base_timestamp + ours.timestamp_delta, *time);
            prop_assert_eq!(ours.key, key.map(str::as_bytes));
            prop_assert_eq!(ours.value, value.map(str::as_bytes));
        }
    }
}
