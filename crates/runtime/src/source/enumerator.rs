//! Hands splits to the subtasks of a source.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_api::connector::{Split, SplitAssignment, SplitEnumerator};
use tidegate_api::{Error, ErrorKind, Result, Watermark};
use tokio::sync::mpsc;

/// What the enumerator tells a subtask.
#[derive(Debug)]
pub(crate) enum SplitMessage {
    /// Read these, too. May be empty: nothing for you (yet).
    Add(Vec<AssignedSplit>),
    /// Nothing will be added any more.
    NoMore,
}

/// A split for a subtask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AssignedSplit {
    pub split: Split,
    /// The watermark it had reached, if it goes on from a checkpoint.
    pub watermark: Option<Watermark>,
}

impl From<Split> for AssignedSplit {
    fn from(split: Split) -> Self {
        AssignedSplit { split, watermark: None }
    }
}

/// The enumerator's part of checkpoints: what it had said when nothing was said later. It is read before
/// the first barrier is sent; whatever is assigned after that is found again, and left out if a subtask
/// has it.
#[derive(Clone, Default)]
pub(crate) struct EnumeratorState {
    /// Absent if the job takes no checkpoints.
    latest: Option<Arc<Mutex<Value>>>,
}

#[derive(Serialize, Deserialize)]
struct Said {
    connector: Value,
    /// Found and not yet given to anybody.
    unassigned: Vec<AssignedSplit>,
}

impl EnumeratorState {
    /// A state that is kept.
    pub(crate) fn kept() -> EnumeratorState {
        EnumeratorState { latest: Some(Arc::default()) }
    }

    /// What is known now.
    pub(crate) fn latest(&self) -> Value {
        self.latest.as_ref().map_or(Value::Null, |latest| latest.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn note(
        &self,
        enumerator: &dyn SplitEnumerator,
        unassigned: &VecDeque<AssignedSplit>,
        open: &[Vec<AssignedSplit>],
    ) -> Result<()> {
        let Some(latest) = &self.latest else { return Ok(()) };
        let unassigned = open.iter().flatten().chain(unassigned).cloned().collect();
        let said = Said { connector: enumerator.snapshot()?, unassigned };
        let said = serde_json::to_value(said).map_err(|e| Error::internal(e.to_string()))?;
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = said;
        Ok(())
    }
}

/// What an enumerator goes on from.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredSplits {
    /// What [`EnumeratorState::latest`] gave.
    pub said: Value,
    /// Splits that are not read to their end.
    pub open: Vec<AssignedSplit>,
    /// Ids of splits that were given out and need not be found again.
    pub given: HashSet<String>,
    /// All subtasks had read everything: there is nothing left to find.
    pub ended: bool,
}

/// Finds splits and assigns them until all is assigned. `requests` carries the index of each subtask
/// that wants another split.
pub(crate) struct Enumeration {
    pub enumerator: Box<dyn SplitEnumerator>,
    pub bounded: bool,
    pub subtasks: Vec<mpsc::Sender<SplitMessage>>,
    pub requests: mpsc::Receiver<usize>,
    pub state: EnumeratorState,
    pub restored: Option<RestoredSplits>,
}

/// What an enumeration begins with.
#[derive(Default)]
struct Begin {
    /// Splits to hand out before any others.
    carried: Vec<AssignedSplit>,
    /// Splits that were being read side by side, by the subtask that goes on with them, also side by side: read one
    /// after the other, the rows of the later ones would come behind the watermark of the first.
    open: Vec<Vec<AssignedSplit>>,
    /// Splits that need not be found again.
    given: HashSet<String>,
}

/// Lets an enumerator go on from a checkpoint; `None` if all had been read.
fn begin(
    restored: Option<RestoredSplits>,
    enumerator: &mut dyn SplitEnumerator,
    subtasks: usize,
) -> Result<Option<Begin>> {
    let mut begin = Begin { open: vec![Vec::new(); subtasks], ..Begin::default() };
    let Some(RestoredSplits { said, open, given, ended }) = restored else { return Ok(Some(begin)) };
    if ended {
        return Ok(None);
    }
    match enumerator.assignment() {
        SplitAssignment::Eager => begin.carried = open,
        SplitAssignment::OnDemand => {
            open.into_iter().enumerate().for_each(|(i, split)| begin.open[i % subtasks].push(split));
        }
    }
    if let Ok(said) = serde_json::from_value::<Said>(said) {
        enumerator.restore(said.connector)?;
        // Some may have been given out before the barrier came.
        begin.carried.extend(said.unassigned.into_iter().filter(|split| !given.contains(&split.split.id)));
    }
    begin.given = given;
    Ok(Some(begin))
}

/// Runs an enumeration to its end. Where a subtask is gone, that is it: it was stopped with a savepoint, or it has
/// failed and says why itself.
pub(crate) async fn enumerate(enumeration: Enumeration) -> Result<()> {
    match search(enumeration).await {
        Err(e) if e.kind == ErrorKind::Cancelled => Ok(()),
        ended => ended,
    }
}

async fn search(enumeration: Enumeration) -> Result<()> {
    let Enumeration { mut enumerator, bounded, subtasks, mut requests, state, restored } = enumeration;
    // A bounded source reads what exists when it starts.
    let interval = if bounded { None } else { enumerator.discovery_interval() };
    let mut waiting: VecDeque<usize> = VecDeque::new();
    let mut unassigned: VecDeque<AssignedSplit> = VecDeque::new();
    let mut first = true;
    let Some(Begin { mut carried, mut open, mut given }) = begin(restored, enumerator.as_mut(), subtasks.len())? else {
        return no_more(&subtasks).await;
    };
    loop {
        let mut found: Vec<AssignedSplit> = std::mem::take(&mut carried);
        given.extend(found.iter().map(|s| s.split.id.clone()));
        let new = enumerator.discover().await?.into_iter().filter(|split| !given.contains(&split.id));
        found.extend(new.map(AssignedSplit::from));
        match enumerator.assignment() {
            SplitAssignment::Eager => assign(found, &subtasks, first).await?,
            SplitAssignment::OnDemand => unassigned.extend(found),
        }
        // Only the first discovery after a restore can find what was given out.
        given.clear();
        state.note(enumerator.as_ref(), &unassigned, &open)?;
        first = false;
        let next_look = async {
            match interval {
                Some(interval) => tokio::time::sleep(interval).await,
                None => std::future::pending().await,
            }
        };
        if enumerator.assignment() == SplitAssignment::Eager {
            if interval.is_none() {
                return if bounded { no_more(&subtasks).await } else { Ok(()) };
            }
            tokio::select! {
                () = next_look => continue,
                // The job was stopped with a savepoint: nobody reads any more.
                () = all_gone(&subtasks) => return Ok(()),
            }
        }
        let mut next_look = std::pin::pin!(next_look);
        loop {
            if open.iter().any(|own| !own.is_empty()) {
                waiting = serve_open(waiting, &mut open, &subtasks).await?;
                state.note(enumerator.as_ref(), &unassigned, &open)?;
            }
            while !waiting.is_empty() {
                let Some(split) = unassigned.pop_front() else { break };
                if let Some(subtask) = waiting.pop_front() {
                    send(&subtasks[subtask], SplitMessage::Add(vec![split])).await?;
                    state.note(enumerator.as_ref(), &unassigned, &open)?;
                }
            }
            if unassigned.is_empty() && bounded && open.iter().all(Vec::is_empty) {
                return no_more(&subtasks).await;
            }
            tokio::select! {
                request = requests.recv() => match request {
                    Some(subtask) => {
                        if unassigned.is_empty() && open[subtask].is_empty() {
                            send(&subtasks[subtask], SplitMessage::Add(Vec::new())).await?;
                        }
                        waiting.push_back(subtask);
                    }
                    None => return Ok(()),
                },
                () = &mut next_look => break,
            }
        }
    }
}

/// Gives subtasks that ask the splits that were being read when the checkpoint was taken; the others wait on.
async fn serve_open(
    waiting: VecDeque<usize>,
    open: &mut [Vec<AssignedSplit>],
    subtasks: &[mpsc::Sender<SplitMessage>],
) -> Result<VecDeque<usize>> {
    let mut unserved = VecDeque::with_capacity(waiting.len());
    for subtask in waiting {
        match std::mem::take(&mut open[subtask]) {
            own if own.is_empty() => unserved.push_back(subtask),
            own => send(&subtasks[subtask], SplitMessage::Add(own)).await?,
        }
    }
    Ok(unserved)
}

async fn assign(found: Vec<AssignedSplit>, subtasks: &[mpsc::Sender<SplitMessage>], first: bool) -> Result<()> {
    let mut shares: Vec<Vec<AssignedSplit>> = vec![Vec::new(); subtasks.len()];
    for found in found {
        let owner = (found.split.owner % subtasks.len() as u64) as usize;
        shares[owner].push(found);
    }
    for (subtask, share) in subtasks.iter().zip(shares) {
        if first || !share.is_empty() {
            send(subtask, SplitMessage::Add(share)).await?;
        }
    }
    Ok(())
}

/// Waits until no subtask listens.
async fn all_gone(subtasks: &[mpsc::Sender<SplitMessage>]) {
    for subtask in subtasks {
        subtask.closed().await;
    }
}

async fn no_more(subtasks: &[mpsc::Sender<SplitMessage>]) -> Result<()> {
    for subtask in subtasks {
        send(subtask, SplitMessage::NoMore).await?;
    }
    Ok(())
}

async fn send(subtask: &mpsc::Sender<SplitMessage>, message: SplitMessage) -> Result<()> {
    subtask.send(message).await.map_err(|_| Error::cancelled())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;

    /// Three splits, all there from the start.
    struct Three(SplitAssignment);

    #[async_trait]
    impl SplitEnumerator for Three {
        async fn discover(&mut self) -> Result<Vec<Split>> {
            Ok((0..3).map(|i| Split { id: format!("split {i}"), owner: i, state: Value::Null }).collect())
        }

        fn discovery_interval(&self) -> Option<Duration> {
            None
        }

        fn assignment(&self) -> SplitAssignment {
            self.0
        }

        fn snapshot(&self) -> Result<Value> {
            Ok(Value::Null)
        }

        fn restore(&mut self, _: Value) -> Result<()> {
            Ok(())
        }
    }

    fn run(future: impl Future<Output = Result<()>>) -> Result<()> {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// An enumeration for two subtasks, and what those hear and ask with.
    fn enumeration(
        assignment: SplitAssignment,
        restored: Option<RestoredSplits>,
    ) -> (Enumeration, Vec<mpsc::Receiver<SplitMessage>>, mpsc::Sender<usize>) {
        let (subtasks, heard) = (0..2).map(|_| mpsc::channel(8)).unzip();
        let (asks, requests) = mpsc::channel(2);
        let enumerator = Box::new(Three(assignment));
        let state = EnumeratorState::kept();
        (Enumeration { enumerator, bounded: true, subtasks, requests, state, restored }, heard, asks)
    }

    fn ids(heard: &mut mpsc::Receiver<SplitMessage>) -> Vec<String> {
        let mut ids = Vec::new();
        while let Ok(message) = heard.try_recv() {
            match message {
                SplitMessage::Add(splits) => ids.extend(splits.into_iter().map(|s| s.split.id)),
                SplitMessage::NoMore => ids.push("no more".to_owned()),
            }
        }
        ids
    }

    #[test]
    fn a_job_that_is_stopped_before_all_is_said_has_not_failed() {
        for assignment in [SplitAssignment::Eager, SplitAssignment::OnDemand] {
            let (enumeration, heard, asks) = enumeration(assignment, None);
            asks.try_send(0).unwrap();
            drop(heard);
            assert!(run(enumerate(enumeration)).is_ok(), "{assignment:?}");
        }
    }

    #[test]
    fn splits_read_side_by_side_are_given_back_side_by_side() {
        let split = |i: u64| Split { id: format!("split {i}"), owner: i, state: Value::Null }.into();
        let restored = RestoredSplits {
            open: vec![split(0), split(1)],
            given: ["split 0".to_owned(), "split 1".to_owned()].into(),
            ..RestoredSplits::default()
        };
        let (mut enumeration, mut heard, asks) = enumeration(SplitAssignment::OnDemand, Some(restored));
        enumeration.subtasks.truncate(1);
        asks.try_send(0).unwrap();
        asks.try_send(0).unwrap();
        run(enumerate(enumeration)).unwrap();
        assert_eq!(ids(&mut heard[0]), ["split 0", "split 1", "split 2", "no more"]);
    }

    #[test]
    fn what_was_read_to_its_end_is_not_looked_for_again() {
        let restored = RestoredSplits { ended: true, ..RestoredSplits::default() };
        let (enumeration, mut heard, _asks) = enumeration(SplitAssignment::Eager, Some(restored));
        run(enumerate(enumeration)).unwrap();
        assert_eq!((ids(&mut heard[0]), ids(&mut heard[1])), (vec!["no more".to_owned()], vec!["no more".to_owned()]));
    }
}
