//! `tidegate run --dry-run`: what a restore would do with each operator's state, without starting anything.

use tidegate_api::{Error, Result};
use tidegate_sql::script::ScriptStatement;
use tidegate_sql::session::{Outcome, Session};

use crate::console::Console;
use crate::engine::Engine;

/// Plans the script and prints, for each job it would start, what each operator gets of the snapshot. An error if one
/// of the jobs would be refused.
pub async fn dry_run(
    mut session: Session,
    engine: &Engine,
    statements: &[ScriptStatement],
    console: &Console,
) -> Result<()> {
    let mut jobs = 0;
    let mut refusals = Vec::new();
    for statement in statements {
        let job = match session.execute(statement)? {
            Outcome::Job(job) => job,
            Outcome::Quit => break,
            _ => continue,
        };
        jobs += 1;
        let plan = engine.plan_restore(&job.graph).await?;
        console.notice(&format!("job '{}' from {}:", job.graph.name, plan.snapshot));
        console.out(&plan.mapping.to_string())?;
        refusals.extend(plan.refusal);
    }
    if jobs == 0 {
        return Err(Error::invalid("The script starts no job, so there is nothing to compare with the snapshot."));
    }
    match refusals.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(Error::job(first.to_string()).context("the job would be refused")),
    }
}
