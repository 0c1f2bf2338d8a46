//! Savepoints of jobs of this process, and what their end says about them.

use tidegate_api::{Error, Result};
use tidegate_checkpoint::Stop;
use tidegate_runtime::JobHandle;

/// Takes a savepoint; with `stop` waits for the end of the job too.
pub async fn savepoint(job: &JobHandle, target: Option<String>, stop: Option<Stop>) -> Result<String> {
    let location = job.savepoint(target, stop).await?;
    if stop.is_none() {
        return Ok(location);
    }
    match job.wait().await {
        Ok(_) => Ok(location),
        Err(why) => Err(Error::job(format!(
            "A savepoint has been created at: {location}, but the job {} failed during stopping: {why}. The savepoint is \
             consistent, but might have uncommitted transactions. If you want to commit the transaction please restart \
             a job from this savepoint.",
            job.id()
        ))),
    }
}
