//! Talking to a standalone process over its REST API.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result};

/// A standalone process that is there answers within this time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often the end of a job is asked for.
pub const POLL: Duration = Duration::from_millis(200);
/// Statements that are kept for people; a session that said more begins anew.
const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// A standalone process by its address.
pub struct Remote {
    base: String,
    agent: ureq::Agent,
    /// The statements executed so far.
    script: Mutex<String>,
}

impl Remote {
    /// `http://host:port`, or `host:port`.
    pub fn new(endpoint: &str) -> Result<Remote> {
        let url = endpoint.trim();
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let base = url.trim_end_matches('/').to_owned();
        let is_address = |uri: ureq::http::Uri| {
            let authority = uri.authority();
            let named =
                authority.is_some_and(|a| !a.host().is_empty() && (a.port_u16().is_some() || a.as_str() == a.host()));
            named && uri.scheme_str() == Some("http")
        };
        if !url.parse().is_ok_and(is_address) {
            return Err(Error::invalid(format!(
                "--endpoint takes the address of a standalone process, like http://127.0.0.1:8081, not '{endpoint}'."
            )));
        }
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        Ok(Remote { base, agent: config.timeout_global(Some(TIMEOUT)).build().into(), script: Mutex::default() })
    }

    /// A statement is about to be executed; the next job that is submitted is made of it and those before.
    pub fn said(&self, statement: &str) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        if script.len() + statement.len() > SCRIPT_BYTES_MAX {
            script.clear();
        }
        script.push_str(statement);
        script.push_str(";\n");
    }

    /// Submits a job and gives its id. What was [said](Remote::said) is kept with it.
    pub fn submit(&self, graph: &JobGraph) -> Result<String> {
        let mut body = serde_json::to_value(graph).map_err(|e| Error::internal(e.to_string()))?;
        body["script"] = json!(*self.script.lock().unwrap_or_else(PoisonError::into_inner));
        let answer = self.agent.post(format!("{}/v1/jobs", self.base)).send_json(body);
        let body = self.body(answer)?;
        body["jobid"].as_str().map(str::to_owned).ok_or_else(|| self.stranger("something else"))
    }

    /// What a path answers to a body.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.agent.post(format!("{}/v1{path}", self.base)).send_json(body);
        self.body(answer)
    }

    /// What a path answers.
    pub fn get(&self, path: &str) -> Result<Value> {
        let answer = self.agent.get(format!("{}/v1{path}", self.base)).call();
        self.body(answer)
    }

    /// What a path answers; `None` if there is nothing (404).
    pub fn get_if_there(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.agent.get(format!("{}/v1{path}", self.base)).call();
        if answer.as_ref().is_ok_and(|answer| answer.status() == 404) {
            return Ok(None);
        }
        self.body(answer).map(Some)
    }

    /// Waits for the end of a job; an error if it does not end by itself.
    pub async fn wait(&self, id: &str) -> Result<()> {
        let mut ticks = tokio::time::interval(POLL);
        loop {
            ticks.tick().await;
            let status = self.get(&format!("/jobs/{id}/status"))?;
            match status["status"].as_str() {
                Some("FINISHED") => return Ok(()),
                Some("CANCELED") => return Err(Error::job(format!("Job {id} was cancelled."))),
                Some("FAILED") => {
                    let failures = self.get(&format!("/jobs/{id}/exceptions"))?;
                    let why = failures["exceptionHistory"]["entries"][0]["stacktrace"].as_str();
                    return Err(Error::job(why.unwrap_or("no reason is known")).context("the job failed"));
                }
                _ => {}
            }
        }
    }

    fn body(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value> {
        let mut answer = answer.map_err(|e| {
            let why = match e {
                ureq::Error::Io(e) => e.to_string(),
                other => other.to_string(),
            };
            Error::job(format!("Cannot reach {}: {why}. Is `tidegate standalone` running there?", self.base))
        })?;
        let status = answer.status();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        let Ok(body) = serde_json::from_str::<Value>(&text) else {
            return Err(self.stranger(&format!("HTTP status {status} and no JSON")));
        };
        if status.is_success() {
            return Ok(body);
        }
        match body["errors"][0].as_str() {
            Some(first) => {
                let first = without_class(first);
                Err(Error::job(format!("{}: {}", self.base, first.lines().next().unwrap_or_default())))
            }
            None => Err(self.stranger(&format!("HTTP status {status}"))),
        }
    }

    fn stranger(&self, what: &str) -> Error {
        Error::job(format!("{} is no Tidegate standalone process: it answered with {what}.", self.base))
    }

    /// The full id of the job whose id begins with `prefix`.
    pub fn resolve(&self, prefix: &str) -> Result<String> {
        if prefix.is_empty() {
            return Err(Error::invalid(
                "JOB is the id of a job, or its first digits. `tidegate job list` shows the jobs.",
            ));
        }
        let jobs = self.get("/jobs")?;
        let ids = jobs["jobs"].as_array().into_iter().flatten().filter_map(|j| j["id"].as_str());
        let matching: Vec<&str> = ids.filter(|id| id.starts_with(prefix)).collect();
        match matching.as_slice() {
            [id] => Ok((*id).to_owned()),
            [] => Err(Error::job(format!(
                "There is no job {prefix} at {}. `tidegate job list` shows the jobs.",
                self.base
            ))),
            several => Err(Error::job(format!("{prefix} fits {} jobs; give more digits.", several.len()))),
        }
    }

    /// Asks a job to stop.
    pub fn cancel(&self, id: &str) -> Result<String> {
        let answer = self.agent.patch(format!("{}/v1/jobs/{id}?mode=cancel", self.base)).send_json(json!({}));
        self.body(answer)?;
        Ok(format!("Cancelling job {id}.\n"))
    }
}

/// Flink puts the class of an exception before its text.
fn without_class(text: &str) -> &str {
    match text.split_once(": ") {
        Some((class, rest)) if class.starts_with("org.apache.flink.") && class.ends_with("Exception") => rest,
        _ => text,
    }
}
