//! A blocked Bloom filter: all bits of a key lie in one cache line of 512 bits. At ten bits a key about
//! one absent key in a hundred passes.

const WORDS: usize = 8;
const PROBES: usize = 6;
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Bits spent on a key.
pub(crate) const BITS_PER_KEY: usize = 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    words: Vec<u64>,
}

#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

impl Filter {
    /// A filter of these hashes of keys.
    pub(crate) fn build(hashes: &[u64]) -> Filter {
        let lines = (hashes.len() * BITS_PER_KEY).div_ceil(WORDS * 64);
        let mut words = vec![0; lines * WORDS];
        for &hash in hashes {
            let line = line_of(hash, lines) * WORDS;
            let mut bits = hash.wrapping_mul(MIX);
            for _ in 0..PROBES {
                let bit = (bits >> 55) as usize;
                words[line + bit / 64] |= 1 << (bit % 64);
                bits = bits.rotate_left(9);
            }
        }
        Filter { words }
    }

    /// Whether the key of this hash may be there.
    #[inline]
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        let line = line_of(hash, self.words.len() / WORDS) * WORDS;
        let Some(line) = self.words.get(line..line + WORDS) else {
            return false;
        };
        let mut bits = hash.wrapping_mul(MIX);
        for _ in 0..PROBES {
            let bit = (bits >> 55) as usize;
            if line[bit / 64] & (1 << (bit % 64)) == 0 {
                return false;
            }
            bits = bits.rotate_left(9);
        }
        true
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Filter> {
        let (words, rest) = bytes.as_chunks::<8>();
        (rest.is_empty() && words.len() % WORDS == 0)
            .then(|| Filter { words: words.iter().map(|word| u64::from_le_bytes(*word)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn no_key_is_missed_and_few_others_pass() {
        let hashes: Vec<u64> = (0..5_000u64).map(|n| xxh3_64(&n.to_le_bytes())).collect();
        let mut bytes = Vec::new();
        Filter::build(&hashes).encode(&mut bytes);
        let filter = Filter::decode(&bytes).unwrap();
        assert!(hashes.iter().all(|&hash| filter.may_have(hash)));
        let passed = (5_000..55_000u64).filter(|n| filter.may_have(xxh3_64(&n.to_le_bytes()))).count();
        assert!(passed < 1_000, "{passed} of 50000");
    }

    #[test]
    fn an_empty_filter_has_nothing() {
        assert!(!Filter::build(&[]).may_have(7));
        assert!(Filter::decode(&[0; 72]).is_none());
    }
}
