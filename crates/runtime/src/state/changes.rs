//! Which groups of a table have changed since they were last written.

/// What a checkpoint writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// Nothing: there is none.
    #[default]
    Off,
    /// What changed since the one before.
    Changed,
    /// Everything. Savepoints of a job without checkpoints are so rare that noting changes with every row, and
    /// keeping what is gone in mind, would cost more.
    Whole,
}

/// Numbers of groups, each once, in the order they first changed.
///
/// A barrier [notes](Changes::note) what has changed, which is then written in slices while rows go on coming: a group
/// that is noted and changes before its turn must be written first, as [`Changes::mark`] says.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    tracking: Tracking,
    /// For each group the epoch in which it last changed; 0 once that is written.
    epochs: Vec<u32>,
    epoch: u32,
    changed: Vec<u32>,
    /// What the last barrier has noted, written up to `written`. A group that was written out of turn has another
    /// epoch than the one before this.
    noted: Vec<u32>,
    written: usize,
}

impl Changes {
    /// Keeps changes in mind if only they are to be written; else costs nothing between checkpoints.
    pub(crate) fn new(tracking: Tracking) -> Changes {
        Changes { tracking, epoch: 1, ..Changes::default() }
    }

    /// Whether changes are kept in mind, and what was written once is not written again.
    pub(crate) fn are_tracked(&self) -> bool {
        self.tracking == Tracking::Changed
    }

    /// These groups of a table with `count` groups are about to change. Gives those of them that are noted and must be
    /// written before.
    #[must_use]
    pub(crate) fn mark(&mut self, groups: &[u32], count: usize) -> Vec<u32> {
        let mut first = Vec::new();
        if !self.are_tracked() && !self.is_saving() {
            return first;
        }
        if self.epochs.len() < count {
            self.epochs.resize(count, 0);
        }
        let is_saving = self.is_saving();
        for group in groups {
            let epoch = &mut self.epochs[*group as usize];
            if *epoch != self.epoch {
                if is_saving && *epoch == self.epoch - 1 {
                    first.push(*group);
                }
                *epoch = self.epoch;
                self.changed.push(*group);
            }
        }
        first
    }

    /// A barrier: what has changed is to be written as it is now, or all of a table with `count` groups. What was noted
    /// before has been.
    pub(crate) fn note(&mut self, count: usize) {
        debug_assert!(!self.is_saving(), "a barrier before the one before it is written");
        self.noted = std::mem::take(&mut self.changed);
        self.written = 0;
        self.next_epoch();
        if self.tracking == Tracking::Whole {
            self.noted = (0..count as u32).collect();
            self.epochs = vec![self.epoch - 1; count];
        }
    }

    /// Whether something noted is left to be written.
    pub(crate) fn is_saving(&self) -> bool {
        self.written < self.noted.len()
    }

    /// The next groups to be written of those that are noted, at most `most`. Empty if there are none left.
    pub(crate) fn next_noted(&mut self, most: usize) -> Vec<u32> {
        let mut next = Vec::new();
        while next.len() < most && self.is_saving() {
            let group = self.noted[self.written];
            self.written += 1;
            let epoch = &mut self.epochs[group as usize];
            if *epoch == self.epoch - 1 {
                *epoch = 0;
                next.push(group);
            }
        }
        if !self.is_saving() {
            (self.noted, self.written) = (Vec::new(), 0);
            if self.tracking == Tracking::Whole {
                (self.epochs, self.changed) = (Vec::new(), Vec::new());
            }
        }
        next
    }

    /// The groups that changed since the last call or note, of which everything is written; or all of a table with
    /// `count` groups.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u32> {
        debug_assert!(!self.is_saving(), "what is newer would be written with what is noted");
        if self.tracking == Tracking::Whole {
            return (0..count as u32).collect();
        }
        self.next_epoch();
        std::mem::take(&mut self.changed)
    }

    /// Groups got new numbers; nothing has changed since.
    pub(crate) fn clear(&mut self) {
        debug_assert!(!self.is_saving(), "what is noted would be lost");
        self.epochs.clear();
        self.changed.clear();
    }

    /// Only these groups stay, numbered anew from 0 in their order. Gives those that changed and go: they must be
    /// written before they do. What is noted has been.
    #[must_use]
    pub(crate) fn keep(&mut self, kept: &[u32]) -> Vec<u32> {
        debug_assert!(!self.is_saving(), "what is noted would be lost");
        if !self.are_tracked() {
            return Vec::new();
        }
        let old = std::mem::take(&mut self.epochs);
        self.epochs = kept.iter().map(|group| old.get(*group as usize).copied().unwrap_or(0)).collect();
        let mut going = std::mem::take(&mut self.changed);
        let has_changed = self.epochs.iter().enumerate().filter(|(_, epoch)| **epoch == self.epoch);
        self.changed = has_changed.map(|(group, _)| group as u32).collect();
        if !self.changed.is_empty() {
            let mut stays = vec![false; old.len()];
            kept.iter().filter(|group| (**group as usize) < old.len()).for_each(|group| stays[*group as usize] = true);
            going.retain(|group| !stays[*group as usize]);
        }
        going
    }

    fn next_epoch(&mut self) {
        match self.epoch.checked_add(1) {
            Some(next) => self.epoch = next,
            None => {
                self.epochs.iter_mut().for_each(|epoch| *epoch = 0);
                self.noted.iter().for_each(|group| self.epochs[*group as usize] = 1);
                self.epoch = 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_named_once_between_two_calls() {
        let mut changes = Changes::new(Tracking::Changed);
        assert!(changes.mark(&[2, 0, 2], 3).is_empty());
        assert!(changes.mark(&[0, 4], 5).is_empty());
        assert_eq!(changes.take(5), [2, 0, 4]);
        assert!(changes.take(5).is_empty());
        assert!(changes.mark(&[4], 5).is_empty());
        assert_eq!(changes.take(5), [4]);
    }

    #[test]
    fn nothing_is_kept_in_mind_when_changes_do_not_matter() {
        let mut off = Changes::new(Tracking::Off);
        assert!(off.mark(&[1, 2], 3).is_empty());
        assert!(off.take(3).is_empty() && off.epochs.is_empty());
        off.note(3);
        assert!(!off.is_saving());

        let mut whole = Changes::new(Tracking::Whole);
        for _ in 0..2 {
            assert!(whole.mark(&[1, 2], 3).is_empty() && whole.epochs.is_empty());
            assert_eq!(whole.take(3), [0, 1, 2]);
            // Everything is noted, and written once and before it changes.
            whole.note(3);
            assert_eq!(whole.next_noted(1), [0]);
            assert_eq!(whole.mark(&[0, 2, 3, 2], 4), [2]);
            assert_eq!(whole.next_noted(9), [1]);
            assert!(!whole.is_saving() && whole.epochs.is_empty() && whole.changed.is_empty());
        }
    }

    #[test]
    fn what_is_noted_is_written_once_and_before_it_changes() {
        let mut changes = Changes::new(Tracking::Changed);
        assert!(changes.mark(&[0, 1, 2, 3], 4).is_empty());
        changes.note(5);
        assert_eq!(changes.next_noted(1), [0]);
        // 0 is written, 4 is new, 2 is not written yet; it is asked for once.
        assert_eq!(changes.mark(&[0, 4, 2, 2], 5), [2]);
        assert!(changes.mark(&[2], 5).is_empty());
        assert_eq!(changes.next_noted(2), [1, 3]);
        assert!(!changes.is_saving() && changes.next_noted(9).is_empty());
        changes.note(5);
        assert_eq!(changes.next_noted(9), [0, 4, 2]);
    }

    #[test]
    fn a_barrier_after_a_barrier_notes_nothing() {
        let mut changes = Changes::new(Tracking::Changed);
        assert!(changes.mark(&[0], 1).is_empty());
        changes.note(5);
        assert_eq!(changes.next_noted(9), [0]);
        changes.note(5);
        assert!(!changes.is_saving());
        assert!(changes.mark(&[0], 1).is_empty());
    }

    #[test]
    fn what_stays_has_changed_under_its_new_number() {
        let mut changes = Changes::new(Tracking::Changed);
        assert!(changes.mark(&[0, 1, 2], 6).is_empty());
        assert_eq!(changes.take(5), [0, 1, 2]);
        assert!(changes.mark(&[5, 2, 3, 4], 6).is_empty());
        assert_eq!(changes.keep(&[1, 2, 5]), [3, 4]);
        assert!(changes.mark(&[1, 0], 3).is_empty());
        assert_eq!(changes.take(5), [1, 2, 0]);
        assert!(changes.mark(&[1], 3).is_empty());
        assert_eq!(changes.keep(&[0]), [1]);
        assert!(changes.take(5).is_empty());
    }

    #[test]
    fn epochs_may_run_out() {
        let mut changes = Changes::new(Tracking::Changed);
        assert!(changes.mark(&[0, 1], 2).is_empty());
        changes.epoch = u32::MAX;
        assert!(changes.mark(&[0], 2).is_empty());
        changes.note(5);
        assert_eq!(changes.mark(&[0], 2), [0]);
        // It has changed long before and was on the list twice: it is written at most once.
        assert_eq!(changes.next_noted(9), [1]);
        assert_eq!(changes.take(5), [0]);
    }
}
