//! Hands splits to the subtasks of a source.

use std::collections::VecDeque;

use tidegate_api::connector::{Split, SplitAssignment, SplitEnumerator};
use tidegate_api::{Error, Result};
use tokio::sync::mpsc;

/// What the enumerator tells a subtask.
#[derive(Debug)]
pub(crate) enum SplitMessage {
    /// Read these, too. May be empty: nothing for you (yet).
    Add(Vec<Split>),
    /// Nothing will be added any more.
    NoMore,
}

/// Finds splits and assigns them until all is assigned. `requests` carries the index of each subtask
/// that wants another split.
pub(crate) async fn enumerate(
    mut enumerator: Box<dyn SplitEnumerator>,
    bounded: bool,
    subtasks: Vec<mpsc::Sender<SplitMessage>>,
    mut requests: mpsc::Receiver<usize>,
) -> Result<()> {
    // A bounded source reads what exists when it starts.
    let interval = if bounded { None } else { enumerator.discovery_interval() };
    let mut waiting: VecDeque<usize> = VecDeque::new();
    let mut unassigned: VecDeque<Split> = VecDeque::new();
    let mut first = true;
    loop {
        let found = enumerator.discover().await?;
        match enumerator.assignment() {
            SplitAssignment::Eager => assign(found, &subtasks, first).await?,
            SplitAssignment::OnDemand => unassigned.extend(found),
        }
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
            next_look.await;
            continue;
        }
        let mut next_look = std::pin::pin!(next_look);
        loop {
            while !waiting.is_empty() {
                let Some(split) = unassigned.pop_front() else { break };
                if let Some(subtask) = waiting.pop_front() {
                    send(&subtasks[subtask], SplitMessage::Add(vec![split])).await?;
                }
            }
            if unassigned.is_empty() && bounded {
                return no_more(&subtasks).await;
            }
            tokio::select! {
                request = requests.recv() => match request {
                    Some(subtask) => {
                        if unassigned.is_empty() {
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

async fn assign(found: Vec<Split>, subtasks: &[mpsc::Sender<SplitMessage>], first: bool) -> Result<()> {
    let mut shares: Vec<Vec<Split>> = vec![Vec::new(); subtasks.len()];
    for split in found {
        let owner = (split.owner % subtasks.len() as u64) as usize;
        shares[owner].push(split);
    }
    for (subtask, share) in subtasks.iter().zip(shares) {
        if first || !share.is_empty() {
            send(subtask, SplitMessage::Add(share)).await?;
        }
    }
    Ok(())
}

async fn no_more(subtasks: &[mpsc::Sender<SplitMessage>]) -> Result<()> {
    for subtask in subtasks {
        send(subtask, SplitMessage::NoMore).await?;
    }
    Ok(())
}

async fn send(subtask: &mpsc::Sender<SplitMessage>, message: SplitMessage) -> Result<()> {
    // A subtask that is gone has failed or is being cancelled, and says why itself.
    subtask.send(message).await.map_err(|_| Error::cancelled())
}
