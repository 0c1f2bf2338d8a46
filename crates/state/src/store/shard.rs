//! A part of the key space: the runs that are read for its keys, and the runs that a snapshot names.
//!
//! The two differ where runs have been merged. What a merge writes says nothing new, so it stays local:
//! a snapshot goes on to name the flushed runs it was made of, which are in the checkpoint's store
//! already. Only when a snapshot would name too many runs, or twice the bytes, it names the merged ones.

use crate::error::Result;
use crate::range::{KeyRange, group_of};
use crate::run::Run;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) range: KeyRange,
    /// Newest first.
    pub(crate) levels: Vec<Level>,
    /// The merge job at work on it.
    pub(crate) merging: Option<u64>,
}

/// A run that is read, and what a snapshot names for it.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) run: Arc<Run>,
    /// Newest first; the run itself unless it was merged here.
    pub(crate) durable: Vec<Arc<Run>>,
}

impl Level {
    /// A run that a snapshot names itself.
    pub(crate) fn of(run: Arc<Run>) -> Level {
        Level { durable: vec![Arc::clone(&run)], run }
    }

    /// Lets a snapshot name the run itself.
    pub(crate) fn adopt(&mut self) {
        self.durable = vec![Arc::clone(&self.run)];
    }
}

impl Shard {
    /// Keys that nothing is stored for yet.
    pub(crate) fn new(range: KeyRange) -> Shard {
        Shard { range, levels: Vec::new(), merging: None }
    }

    /// The runs that are read, newest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.levels.iter().map(|level| &level.run)
    }

    /// The runs that a snapshot names, newest first.
    pub(crate) fn durable(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.levels.iter().flat_map(|level| &level.durable)
    }

    /// The two parts of it, before and from key `cut` on.
    pub(crate) fn cut(&self, cut: &[u8]) -> (Shard, Shard) {
        let mut left = self.clone();
        let mut right = self.clone();
        left.range.end = Some(cut.to_vec());
        right.range.start = cut.to_vec();
        for half in [&mut left, &mut right] {
            let range = half.range.clone();
            half.levels.retain(|level| level.run.touches(&range));
            half.levels.iter_mut().for_each(|level| level.durable.retain(|run| run.touches(&range)));
        }
        (left, right)
    }

    /// Lets snapshots name merged runs where that is worth writing them out again: where it halves the
    /// bytes that are named, and, while more than `longest` runs are named, where it saves most runs for
    /// its bytes.
    pub(crate) fn adopt_merged(&mut self, longest: usize) -> Result<()> {
        let range = &self.range;
        for level in &mut self.levels {
            let mut named = 0;
            for run in &level.durable {
                named += run.bytes_in(range)?;
            }
            if named >= 2 * level.run.bytes_in(range)? {
                level.adopt();
            }
        }
        while self.durable().count() > longest {
            let mut best: Option<(u64, usize)> = None;
            for (at, level) in self.levels.iter().enumerate().filter(|(_, level)| level.durable.len() > 1) {
                let price = level.run.bytes_in(range)? / (level.durable.len() as u64 - 1);
                if best.is_none_or(|(least, _)| price < least) {
                    best = Some((price, at));
                }
            }
            let Some((_, at)) = best else { break };
            self.levels[at].adopt();
        }
        Ok(())
    }

    /// About how many bytes its runs have in it.
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.runs().try_fold(0, |sum, run| Ok(sum + run.bytes_in(&self.range)?))
    }

    /// Its levels as merges see them: neighbours that share no key range are as one, because reading
    /// them costs as much as reading one. Which levels, and their bytes in this shard; newest first.
    pub(crate) fn groups(&self) -> Result<Vec<(Range<usize>, u64)>> {
        let mut groups: Vec<(Range<usize>, u64)> = Vec::new();
        for (at, run) in self.runs().enumerate() {
            let bytes = run.bytes_in(&self.range)?;
            let is_apart = |other: &Level| {
                other.run.facts.last_key < run.facts.first_key || run.facts.last_key < other.run.facts.first_key
            };
            match groups.last_mut() {
                Some((levels, sum)) if self.levels[levels.clone()].iter().all(is_apart) => {
                    levels.end = at + 1;
                    *sum += bytes;
                }
                _ => groups.push((at..at + 1, bytes)),
            }
        }
        Ok(groups)
    }

    /// A key that cuts its data in two about equal parts, at the start of a key group where that is
    /// possible. `None` when nothing of the kind lies inside.
    pub(crate) fn middle(&self) -> Result<Option<Vec<u8>>> {
        let mut largest: Option<(u64, &Arc<Run>)> = None;
        for run in self.runs() {
            let bytes = run.bytes_in(&self.range)?;
            if largest.is_none_or(|(most, _)| bytes > most) {
                largest = Some((bytes, run));
            }
        }
        let Some((bytes, run)) = largest else {
            return Ok(None);
        };
        let footer = run.footer()?;
        let pages = footer.pages_of(&self.range);
        let mut before = 0;
        let middle = pages.clone().find(|&page| {
            before += footer.pages[page].data_bytes;
            before >= bytes / 2
        });
        let Some(middle) = middle else {
            return Ok(None);
        };
        for page in [middle + 1, middle] {
            if page >= footer.pages.len() {
                continue;
            }
            let key = footer.keys.key(page);
            let group = group_of(&key).map(|group| group.to_be_bytes().to_vec());
            let next_group = group_of(&key).and_then(|group| group.checked_add(1)).map(|g| g.to_be_bytes().to_vec());
            for cut in [group, next_group, Some(key)].into_iter().flatten() {
                let is_inside = cut > self.range.start && self.range.is_before_end(&cut);
                let cuts = is_inside && cut > run.facts.first_key && cut <= run.facts.last_key;
                if cuts {
                    return Ok(Some(cut));
                }
            }
        }
        Ok(None)
    }
}
