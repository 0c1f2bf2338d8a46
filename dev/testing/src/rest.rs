//! A client of Flink's REST API, as far as tests ask.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// The server on a port of this machine.
pub struct Rest {
    base: String,
    agent: ureq::Agent,
}

/// A vertex of the running job.
#[derive(Clone, Debug)]
pub struct Vertex {
    /// 32 hex digits.
    pub id: String,
    /// Names of its operators, joined by ` -> `.
    pub name: String,
}

impl Rest {
    /// The server at this port.
    pub fn at(port: u16) -> Rest {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build();
        Rest { base: format!("http://127.0.0.1:{port}"), agent: config.into() }
    }

    /// The JSON at a path; `None` if there is no answer or an error.
    pub fn get(&self, path: &str) -> Option<Value> {
        let mut answer = self.agent.get(format!("{}{path}", self.base)).call().ok()?;
        answer.body_mut().read_json().ok()
    }

    /// The id of the first job that runs.
    pub fn running_job(&self) -> Option<String> {
        let jobs = self.get("/jobs")?;
        let running = jobs["jobs"].as_array()?.iter().find(|job| job["status"] == "RUNNING")?;
        running["id"].as_str().map(str::to_owned)
    }

    /// The vertices of a job.
    pub fn vertices(&self, job: &str) -> Option<Vec<Vertex>> {
        let answer = self.get(&format!("/jobs/{job}"))?;
        let vertex =
            |v: &Value| Some(Vertex { id: v["id"].as_str()?.to_owned(), name: v["name"].as_str()?.to_owned() });
        answer["vertices"].as_array()?.iter().map(vertex).collect()
    }

    /// All metrics of all subtasks of a job, by `<subtask>.<name>`, over all its vertices. Where two
    /// vertices have a metric of one name (task metrics), the first wins.
    pub fn metrics(&self, job: &str) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for vertex in self.vertices(job).unwrap_or_default() {
            for (name, value) in self.vertex_metrics(job, &vertex.id).unwrap_or_default() {
                all.entry(name).or_insert(value);
            }
        }
        all
    }

    /// All metrics of a vertex.
    pub fn vertex_metrics(&self, job: &str, vertex: &str) -> Option<Vec<(String, String)>> {
        let path = format!("/jobs/{job}/vertices/{vertex}/metrics");
        let ids = self.get(&path)?;
        let ids: Vec<&str> = ids.as_array()?.iter().filter_map(|m| m["id"].as_str()).collect();
        let values = self.get(&format!("{path}?get={}", encode(&ids.join(","))))?;
        let pair = |m: &Value| Some((m["id"].as_str()?.to_owned(), m["value"].as_str()?.to_owned()));
        values.as_array()?.iter().map(pair).collect()
    }

    /// `/watermarks` of a vertex: id and value in milliseconds.
    pub fn watermarks(&self, job: &str, vertex: &str) -> Option<Vec<(String, i64)>> {
        let answer = self.get(&format!("/jobs/{job}/vertices/{vertex}/watermarks"))?;
        let pair = |m: &Value| Some((m["id"].as_str()?.to_owned(), m["value"].as_str()?.parse().ok()?));
        answer.as_array()?.iter().map(pair).collect()
    }
}

/// Percent-encodes what must not stand in a query.
fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
