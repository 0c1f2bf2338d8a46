//! Which groups of a table have changed since they were last written.

/// Numbers of groups, each once, in the order they first changed. Off unless someone will ask.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    is_on: bool,
    /// For each group the epoch in which it last changed.
    epochs: Vec<u32>,
    epoch: u32,
    changed: Vec<u32>,
}

impl Changes {
    /// Notes changes if `is_on`; else costs nothing.
    pub(crate) fn new(is_on: bool) -> Changes {
        Changes { is_on, epochs: Vec::new(), epoch: 1, changed: Vec::new() }
    }

    /// These groups of a table with `count` groups change.
    pub(crate) fn mark(&mut self, groups: &[u32], count: usize) {
        if !self.is_on {
            return;
        }
        if self.epochs.len() < count {
            self.epochs.resize(count, 0);
        }
        for group in groups {
            let epoch = &mut self.epochs[*group as usize];
            if *epoch != self.epoch {
                *epoch = self.epoch;
                self.changed.push(*group);
            }
        }
    }

    /// The groups that changed since the last call.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        match self.epoch.checked_add(1) {
            Some(next) => self.epoch = next,
            None => {
                self.epochs.clear();
                self.epoch = 1;
            }
        }
        std::mem::take(&mut self.changed)
    }

    /// Groups got new numbers; nothing has changed since.
    pub(crate) fn clear(&mut self) {
        self.epochs.clear();
        self.changed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_named_once_between_two_calls() {
        let mut changes = Changes::new(true);
        changes.mark(&[2, 0, 2], 3);
        changes.mark(&[0, 4], 5);
        assert_eq!(changes.take(), [2, 0, 4]);
        assert!(changes.take().is_empty());
        changes.mark(&[4], 5);
        assert_eq!(changes.take(), [4]);
    }

    #[test]
    fn nothing_is_kept_when_off() {
        let mut changes = Changes::new(false);
        changes.mark(&[1, 2], 3);
        assert!(changes.take().is_empty() && changes.epochs.is_empty());
    }

    #[test]
    fn epochs_may_run_out() {
        let mut changes = Changes::new(true);
        changes.mark(&[0], 1);
        changes.epoch = u32::MAX;
        changes.mark(&[0], 1);
        changes.take();
        changes.mark(&[0], 1);
        assert_eq!(changes.take(), [0]);
    }
}
