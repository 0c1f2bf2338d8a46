//! Talking to a standalone process over its REST API.

use serde_json::{Value, json};
use tidegate_api::graph::JobGraph;
use tidegate_api::{Error, Result};

use crate::args::JobCommand;

/// A standalone process by its address.
pub struct Remote {
    base: String,
    agent: ureq::Agent,
}

impl Remote {
    /// `http://host:port`, or `host:port`.
    pub fn new(endpoint: &str) -> Remote {
        let base = endpoint.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent = config.timeout_global(Some(std::time::Duration::from_secs(30))).build().into();
        Remote { base, agent }
    }

    /// Submits a job and gives its id.
    pub fn submit(&self, graph: &JobGraph) -> Result<String> {
        let answer = self.agent.post(format!("{}/v1/jobs", self.base)).send_json(graph);
        let body = self.body(answer)?;
        body["jobid"].as_str().map(str::to_owned).ok_or_else(|| self.strange(&body))
    }

    fn get(&self, path: &str) -> Result<Value> {
        let answer = self.agent.get(format!("{}/v1{path}", self.base)).call();
        self.body(answer)
    }

    fn body(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value> {
        let mut answer = answer.map_err(|e| {
            Error::job(format!("Cannot reach {}: {e}. Is `tidegate standalone` running there?", self.base))
        })?;
        let status = answer.status();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(body);
        }
        let first = body["errors"][0].as_str().map_or(text, str::to_owned);
        Err(Error::job(format!("{} answered {status}: {}", self.base, first.lines().next().unwrap_or_default())))
    }

    fn strange(&self, body: &Value) -> Error {
        Error::job(format!("{} answered something unexpected: {body}", self.base))
    }

    /// The full id of the job whose id begins with `prefix`.
    fn resolve(&self, prefix: &str) -> Result<String> {
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
}

/// `tidegate job ...`.
pub fn job(command: &JobCommand) -> Result<()> {
    match command {
        JobCommand::List(at) => list(&Remote::new(&at.endpoint)),
        JobCommand::Describe(one) => {
            let remote = Remote::new(&one.at.endpoint);
            let id = remote.resolve(&one.job)?;
            describe(&remote, &id)
        }
        JobCommand::Cancel(one) => {
            let remote = Remote::new(&one.at.endpoint);
            let id = remote.resolve(&one.job)?;
            let answer = remote.agent.patch(format!("{}/v1/jobs/{id}?mode=cancel", remote.base)).send_json(json!({}));
            remote.body(answer)?;
            println!("Cancelling job {id}.");
            Ok(())
        }
    }
}

fn list(remote: &Remote) -> Result<()> {
    let overview = remote.get("/jobs/overview")?;
    let jobs = overview["jobs"].as_array().cloned().unwrap_or_default();
    if jobs.is_empty() {
        println!("No jobs.");
        return Ok(());
    }
    println!("{:<32}  {:<10}  {:>10}  NAME", "ID", "STATE", "RUNS FOR");
    for job in jobs {
        let text = |key: &str| job[key].as_str().unwrap_or_default().to_owned();
        let seconds = job["duration"].as_i64().unwrap_or(0) / 1000;
        println!("{:<32}  {:<10}  {:>9}s  {}", text("jid"), text("state"), seconds, text("name"));
    }
    Ok(())
}

fn describe(remote: &Remote, id: &str) -> Result<()> {
    let job = remote.get(&format!("/jobs/{id}"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    println!("{}  {}  {}", text(&job["jid"]), text(&job["state"]), text(&job["name"]));
    for vertex in job["vertices"].as_array().into_iter().flatten() {
        let vid = text(&vertex["id"]);
        println!("\n  {}  {} (x{})", text(&vertex["status"]), text(&vertex["name"]), vertex["parallelism"]);
        println!("    in {} rows, out {} rows", vertex["metrics"]["read-records"], vertex["metrics"]["write-records"]);
        for mark in remote.get(&format!("/jobs/{id}/vertices/{vid}/watermarks"))?.as_array().into_iter().flatten() {
            println!("    {}: {}", text(&mark["id"]), watermark_text(&text(&mark["value"])));
        }
    }
    let failures = remote.get(&format!("/jobs/{id}/exceptions"))?;
    for entry in failures["exceptionHistory"]["entries"].as_array().into_iter().flatten() {
        println!("\n  failed: {}", text(&entry["stacktrace"]));
    }
    Ok(())
}

/// A watermark in words: `2026-10-01 10:00:07.000`, or that there is none.
pub fn watermark_text(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(i64::MIN) => "no watermark yet".into(),
        Ok(i64::MAX) => "end of input".into(),
        Ok(ms) => tidegate_api::text::format_timestamp_sql(i128::from(ms) * 1_000_000, 3),
        Err(_) => value.to_owned(),
    }
}
