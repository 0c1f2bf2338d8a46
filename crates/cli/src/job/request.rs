//! Savepoints and checkpoints asked for over REST: a trigger id at once, the outcome by asking again.

use serde_json::{Value, json};
use tidegate_api::{Error, Result};

use crate::remote::{POLL, Remote};

/// What is wished of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A savepoint; the job goes on.
    Savepoint,
    /// A savepoint with which the job ends, to be gone on from.
    Suspend,
    /// The same after all windows have fired.
    Drain,
    /// A checkpoint now, as the job takes them by itself.
    Checkpoint,
}

impl Wish {
    /// Where it is asked for, and where its outcome is.
    fn paths(self) -> (&'static str, &'static str) {
        match self {
            Wish::Savepoint => ("savepoints", "savepoints"),
            Wish::Suspend | Wish::Drain => ("stop", "savepoints"),
            Wish::Checkpoint => ("checkpoints", "checkpoints"),
        }
    }
}

impl Remote {
    /// Asks for it and gives the trigger id.
    pub fn begin(&self, id: &str, wish: Wish, target: Option<String>) -> Result<String> {
        let body = match wish {
            Wish::Savepoint => json!({ "target-directory": target, "cancel-job": false }),
            Wish::Suspend | Wish::Drain => json!({ "targetDirectory": target, "drain": wish == Wish::Drain }),
            Wish::Checkpoint => json!({}),
        };
        let (path, _) = wish.paths();
        let answer = self.post(&format!("/jobs/{id}/{path}"), &body)?;
        let trigger = answer["request-id"].as_str().map(str::to_owned);
        trigger.ok_or_else(|| Error::job("The process gave no request id; is it another version?"))
    }

    /// Waits for what was asked for, and gives the place of a savepoint or the number of a checkpoint.
    pub async fn outcome(&self, id: &str, wish: Wish, trigger: &str) -> Result<String> {
        let (_, path) = wish.paths();
        let mut ticks = tokio::time::interval(POLL);
        loop {
            ticks.tick().await;
            let answer = self.get(&format!("/jobs/{id}/{path}/{trigger}"))?;
            if answer["status"]["id"] == "COMPLETED" {
                return taken(&answer["operation"]);
            }
        }
    }
}

fn taken(operation: &Value) -> Result<String> {
    if let Some(number) = operation["checkpointId"].as_u64() {
        return Ok(number.to_string());
    }
    if let Some(location) = operation["location"].as_str() {
        return Ok(location.to_owned());
    }
    let why = |name: &str| operation[name]["stack-trace"].as_str();
    Err(Error::job(match (why("failure-cause"), why("failureCause")) {
        (Some(why), _) => format!("Savepoint failed: {why}"),
        (_, Some(why)) => format!("Checkpoint failed: {why}"),
        (None, None) => "It failed, and no reason is known.".to_owned(),
    }))
}

/// A folder as another process finds it too: a path is made absolute, a URL stays.
pub fn absolute(dir: &str) -> Result<String> {
    let is_scheme = |scheme: &str| scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric());
    if dir.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) {
        return Ok(dir.to_owned());
    }
    let path = std::path::absolute(dir).map_err(|e| Error::invalid(format!("'{dir}' is no path: {e}.")))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_absolute_and_urls_stay() {
        for url in ["s3://bucket/a", "file:/a/b", "file:///a", "memory:///a"] {
            assert_eq!(absolute(url).ok().as_deref(), Some(url));
        }
        assert_eq!(absolute("/a/b").ok().as_deref(), Some("/a/b"));
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(absolute("sp").ok(), Some(here.join("sp").to_string_lossy().into_owned()));
        assert!(absolute("").is_err());
    }
}
