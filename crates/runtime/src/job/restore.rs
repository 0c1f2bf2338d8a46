//! What a restore would do: which state goes to which operator, found before anything starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result};
use tidegate_checkpoint::manifest::StateSchema;
use tidegate_checkpoint::mapping::Mapping;
use tidegate_checkpoint::options::CheckpointOptions;
use tidegate_checkpoint::restart::RestartStrategy;
use tokio::sync::mpsc;

use super::checkpoints::JobCheckpoints;
use super::cluster::{ClusterOptions, LocalCluster};
use super::deploy::Deployment;
use super::handle::JobId;
use crate::audit::OutputBoard;
use crate::plan::{ExecutionPlan, plan};

/// What becomes of a snapshot if a job is restored from it.
#[derive(Debug)]
pub struct RestorePlan {
    /// Where the snapshot is.
    pub snapshot: String,
    /// What each operator gets of it.
    pub mapping: Mapping,
    /// Why the job would be refused.
    pub refusal: Option<Error>,
}

/// What operators keep, by node of the graph. They say it when they are made, so they are made once, for nothing
/// else.
pub(super) fn operator_states(
    graph: &JobGraph,
    plan: &ExecutionPlan,
    id: &JobId,
    options: &ClusterOptions,
    own: &JobCheckpoints,
) -> Result<BTreeMap<usize, BTreeMap<String, StateSchema>>> {
    let (facts, _) = mpsc::unbounded_channel();
    let folder = own.folder.path().join("check");
    let attempt = own.attempt(graph, plan, facts, folder.clone(), "check".to_owned(), None, nobody(options));
    let made = Deployment::new(graph, plan, id, options, Some(&attempt));
    let states = made.map(|made| made.tasks.states);
    // The job's folder goes at its end, and this one with it.
    let _ = std::fs::remove_dir_all(&folder);
    states
}

/// The account of a job that publishes nothing.
fn nobody(options: &ClusterOptions) -> (Arc<OutputBoard>, u64) {
    (Arc::new(OutputBoard::new(options.clock.clone())), 0)
}

impl LocalCluster {
    /// What each operator of a job would get of the snapshot at `execution.state-recovery.path`, and whether the job
    /// would be refused for it. Everything is read as for a start; nothing is started and nothing is changed.
    pub async fn plan_restore(&self, graph: &JobGraph) -> Result<RestorePlan> {
        let options = CheckpointOptions::from_config(&graph.config)?;
        RestartStrategy::from_config(&graph.config, options.is_enabled())?;
        if options.restore.is_none() {
            return Err(Error::invalid(
                "There is no snapshot to compare the job with. Set 'execution.state-recovery.path'.",
            ));
        }
        let (id, plan) = (JobId::random(), plan(graph)?);
        let mut own = JobCheckpoints::open(graph, &id, options, self.stores().clone(), None, None).await?;
        let states = operator_states(graph, &plan, &id, self.options(), &own)?;
        let (mapping, snapshot) = own.mapping(graph, &plan, &states)?;
        let refusal = match own.check_mapping(graph, &plan, &states) {
            Err(refused) => Some(refused),
            Ok(()) => self.read_whole(graph, &plan, &id, &mut own).await.err(),
        };
        Ok(RestorePlan { snapshot, mapping, refusal })
    }

    /// Gives the operators their state, to see whether they can read it.
    async fn read_whole(
        &self,
        graph: &JobGraph,
        plan: &ExecutionPlan,
        id: &JobId,
        own: &mut JobCheckpoints,
    ) -> Result<()> {
        let (folder, prefix) = own.begin_attempt();
        let restored = own.restored(&folder).await?;
        let (facts, _) = mpsc::unbounded_channel();
        let attempt = own.attempt(graph, plan, facts, folder, prefix, restored, nobody(self.options()));
        Deployment::new(graph, plan, id, self.options(), Some(&attempt)).map(|_| ())
    }
}
