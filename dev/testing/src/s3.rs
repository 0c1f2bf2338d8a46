//! An S3 server, and buckets of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::gate::Gate;
use crate::{python, unavailable, workspace};

const SERVER: &str = "moto[s3,iam,server]==5.2.5";

/// The server of this test program; it ends with it.
struct Server {
    port: u16,
    access: String,
    secret: String,
    line: Mutex<Line>,
}

/// How it is told what to do.
struct Line {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Waited for by nobody: it ends when its standard input does.
    _process: Child,
}

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    match SERVER.get_or_init(Server::start) {
        Ok(server) => Some(server),
        Err(reason) => {
            unavailable("an S3 server", reason);
            None
        }
    }
}

impl Server {
    fn start() -> Result<Server, String> {
        let python = python::with("s3-venv", SERVER, "moto.server, boto3")?;
        let mut command = Command::new(python);
        command.arg(workspace().join("dev/testing/s3/server.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let commands = process.stdin.take().expect("piped");
        let answers = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = Line { commands, answers, _process: process };
        let said = line.answer()?;
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        let port = said["port"].as_u64().and_then(|port| u16::try_from(port).ok()).ok_or("it names no port")?;
        Ok(Server { port, access: text("access"), secret: text("secret"), line: Mutex::new(line) })
    }

    fn tell(&self, command: &str) -> Value {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(line.commands, "{command}").and_then(|()| line.commands.flush()).expect("the S3 server listens");
        line.answer().expect("the S3 server answers")
    }
}

impl Line {
    fn answer(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        self.answers.read_line(&mut text).map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|e| format!("the S3 server said '{}': {e}", text.trim()))
    }
}

/// A new bucket, with a way to the server that is this test's alone.
pub struct Bucket {
    server: &'static Server,
    /// Its name.
    pub name: String,
    /// The way to it.
    pub gate: Gate,
}

impl Bucket {
    /// Makes it; its name begins with `stem`. `None` if there can be no server, which has then been said.
    pub fn new(stem: &str) -> Option<Bucket> {
        let server = server()?;
        let name = format!("{stem}-{}", std::process::id());
        server.tell(&format!("make {name}"));
        Some(Bucket { server, name, gate: Gate::before(server.port) })
    }

    /// The URL of a place in it.
    pub fn url(&self, path: &str) -> String {
        format!("s3://{}/{path}", self.name)
    }

    /// The URL of the service.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.gate.port())
    }

    /// The access key and its secret.
    pub fn keys(&self) -> (&str, &str) {
        (&self.server.access, &self.server.secret)
    }

    /// Flink's settings for the service.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        let (access, secret) = self.keys();
        [
            ("s3.endpoint", self.endpoint()),
            ("s3.access-key", access.to_owned()),
            ("s3.secret-key", secret.to_owned()),
            ("s3.path.style.access", "true".to_owned()),
        ]
    }

    /// Every key in it, sorted.
    pub fn list(&self) -> Vec<String> {
        let keys = self.server.tell(&format!("list {}", self.name));
        keys.as_array().into_iter().flatten().filter_map(|key| key.as_str().map(str::to_owned)).collect()
    }

    /// Deletes what is at a key.
    pub fn delete(&self, key: &str) {
        self.server.tell(&format!("delete {} {key}", self.name));
    }
}
