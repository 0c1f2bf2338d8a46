//! Which groups of a table have changed since they were last written.

/// Numbers of groups, each once, in the order they first changed. Off unless someone will ask.
///
/// A barrier [notes](Changes::note) what has changed, which is then written in slices while rows go on coming: a group
/// that is noted and changes before its turn must be written first, as [`Changes::mark`] says.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    is_on: bool,
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
    /// Notes changes if `is_on`; else costs nothing.
    pub(crate) fn new(is_on: bool) -> Changes {
        Changes { is_on, epoch: 1, ..Changes::default() }
    }

    /// These groups of a table with `count` groups are about to change. Gives those of them that are noted and must be
    /// written before.
    #[must_use]
    pub(crate) fn mark(&mut self, groups: &[u32], count: usize) -> Vec<u32> {
        let mut first = Vec::new();
        if !self.is_on {
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

    /// A barrier: what has changed is to be written as it is now. What was noted before has been.
    pub(crate) fn note(&mut self) {
        debug_assert!(!self.is_saving(), "a barrier before the one before it is written");
        self.noted = std::mem::take(&mut self.changed);
        self.written = 0;
        self.next_epoch();
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
        }
        next
    }

    /// The groups that changed since the last call or note, of which everything is written.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        debug_assert!(!self.is_saving(), "what is newer would be written with what is noted");
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
        if !self.is_on {
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
        let mut changes = Changes::new(true);
        assert!(changes.mark(&[2, 0, 2], 3).is_empty());
        assert!(changes.mark(&[0, 4], 5).is_empty());
        assert_eq!(changes.take(), [2, 0, 4]);
        assert!(changes.take().is_empty());
        assert!(changes.mark(&[4], 5).is_empty());
        assert_eq!(changes.take(), [4]);
    }

    #[test]
    fn nothing_is_kept_when_off() {
        let mut changes = Changes::new(false);
        assert!(changes.mark(&[1, 2], 3).is_empty());
        assert!(changes.take().is_empty() && changes.epochs.is_empty());
        changes.note();
        assert!(!changes.is_saving());
    }

    #[test]
    fn what_is_noted_is_written_once_and_before_it_changes() {
        let mut changes = Changes::new(true);
        assert!(changes.mark(&[0, 1, 2, 3], 4).is_empty());
        changes.note();
        assert_eq!(changes.next_noted(1), [0]);
        // 0 is written, 4 is new, 2 is not written yet; it is asked for once.
        assert_eq!(changes.mark(&[0, 4, 2, 2], 5), [2]);
        assert!(changes.mark(&[2], 5).is_empty());
        assert_eq!(changes.next_noted(2), [1, 3]);
        assert!(!changes.is_saving() && changes.next_noted(9).is_empty());
        changes.note();
        assert_eq!(changes.next_noted(9), [0, 4, 2]);
    }

    #[test]
    fn a_barrier_after_a_barrier_notes_nothing() {
        let mut changes = Changes::new(true);
        assert!(changes.mark(&[0], 1).is_empty());
        changes.note();
        assert_eq!(changes.next_noted(9), [0]);
        changes.note();
        assert!(!changes.is_saving());
        assert!(changes.mark(&[0], 1).is_empty());
    }

    #[test]
    fn what_stays_has_changed_under_its_new_number() {
        let mut changes = Changes::new(true);
        assert!(changes.mark(&[0, 1, 2], 6).is_empty());
        assert_eq!(changes.take(), [0, 1, 2]);
        assert!(changes.mark(&[5, 2, 3, 4], 6).is_empty());
        assert_eq!(changes.keep(&[1, 2, 5]), [3, 4]);
        assert!(changes.mark(&[1, 0], 3).is_empty());
        assert_eq!(changes.take(), [1, 2, 0]);
        assert!(changes.mark(&[1], 3).is_empty());
        assert_eq!(changes.keep(&[0]), [1]);
        assert!(changes.take().is_empty());
    }

    #[test]
    fn epochs_may_run_out() {
        let mut changes = Changes::new(true);
        assert!(changes.mark(&[0, 1], 2).is_empty());
        changes.epoch = u32::MAX;
        assert!(changes.mark(&[0], 2).is_empty());
        changes.note();
        assert_eq!(changes.mark(&[0], 2), [0]);
        // It has changed long before and was on the list twice: it is written at most once.
        assert_eq!(changes.next_noted(9), [1]);
        assert_eq!(changes.take(), [0]);
    }
}
