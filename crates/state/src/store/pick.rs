//! Which runs to merge next: decided from sizes alone.

use std::ops::Range;

/// How many runs of about the same size make a merge worth while.
pub(crate) const FAN_IN: usize = 4;

/// A run joins a merge when it is not larger than this many fourths of all newer ones in it.
const JOINS_UP_TO_FOURTHS: u64 = 5;

/// The runs (newest first, by size in bytes) to merge: at least four neighbours of which none is much
/// larger than the newer ones together. So a byte is rewritten about once for every fourfold growth.
/// When the chain is longer than `longest`, the newest runs are merged whatever their sizes.
pub(crate) fn pick_sizes(sizes: &[u64], longest: usize) -> Option<Range<usize>> {
    for first in 0..sizes.len() {
        let mut sum = sizes[first];
        let mut end = first + 1;
        while end < sizes.len() && sizes[end] * 4 <= sum * JOINS_UP_TO_FOURTHS {
            sum += sizes[end];
            end += 1;
        }
        if end - first >= FAN_IN {
            return Some(first..end);
        }
    }
    (sizes.len() > longest).then(|| 0..(sizes.len() - longest / 2).max(2).min(sizes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_base_waits_until_it_is_worth_it() {
        assert_eq!(pick_sizes(&[10, 10, 10], 12), None);
        assert_eq!(pick_sizes(&[10, 10, 10, 10, 1000], 12), Some(0..4));
        assert_eq!(pick_sizes(&[1, 300, 300, 300, 300, 1000], 12), Some(1..6));
        assert_eq!(pick_sizes(&[1, 10, 100, 1000], 3), Some(0..3));
    }

    proptest! {
        #[test]
        fn chains_stay_short_and_bytes_are_rewritten_seldom(sizes in proptest::collection::vec(50u64..150, 1..400)) {
            let mut chain: Vec<u64> = Vec::new();
            let mut rewritten = 0;
            for size in &sizes {
                chain.insert(0, *size);
                while let Some(picked) = pick_sizes(&chain, 12) {
                    let merged: u64 = chain[picked.clone()].iter().sum();
                    rewritten += merged;
                    chain.splice(picked, [merged]);
                }
            }
            let total: u64 = sizes.iter().sum();
            prop_assert!(chain.len() <= 16, "{:?}", chain);
            prop_assert!(rewritten <= total * 6, "{} of {}", rewritten, total);
        }
    }
}
