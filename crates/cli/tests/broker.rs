//! `tidegate broker`: what it says at its start, how it ends, and what keeps it from starting.

#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use common::tidegate;

const LIMIT: Duration = Duration::from_secs(60);

/// A broker's process; killed when the test ends, however it ends.
struct BrokerProcess {
    process: Child,
    stderr: BufReader<ChildStderr>,
    /// The line it says at its start.
    greeting: String,
}

impl BrokerProcess {
    fn start(arguments: &[&str]) -> BrokerProcess {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["broker", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
        let mut greeting = String::new();
        stderr.read_line(&mut greeting).expect("a line");
        BrokerProcess { process, stderr, greeting }
    }

    fn address(&self) -> SocketAddr {
        let after = self.greeting.split_once("for development on ").expect("it says where it listens").1;
        after.split_once(',').expect("the address ends").0.parse().expect("an address")
    }

    /// Ends it by a signal: its exit code and what it said since the start.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("text");
        (self.process.wait().expect("it ends").code(), rest)
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn path(folder: &Path) -> &str {
    folder.to_str().expect("a path of text")
}

#[test]
fn says_where_it_is_and_ends_with_its_signal() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let broker = BrokerProcess::start(&[]);
        let address = broker.address();
        assert!(address.ip().is_loopback());
        assert!(TcpStream::connect(address).is_ok());
        for words in ["temporary", "--data", "'properties.bootstrap.servers'", "real cluster"] {
            assert!(broker.greeting.contains(words), "no '{words}' in: {}", broker.greeting);
        }
        assert_eq!(broker.end(signal), (Some(code), String::new()));
        assert!(TcpStream::connect(address).is_err());
    }
}

#[test]
fn keeps_its_folder_to_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let broker = BrokerProcess::start(&["--data", path(folder.path())]);
    assert!(broker.greeting.contains(path(folder.path())), "{}", broker.greeting);
    let second = tidegate(&["broker", "--port", "0", "--data", path(folder.path())], LIMIT);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(second.stderr.contains("Another broker uses the data folder"), "{}", second.stderr);
    let port = broker.address().port().to_string();
    let second = tidegate(&["broker", "--port", &port], LIMIT);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(second.stderr.contains(&format!("Cannot listen on 127.0.0.1:{port}")), "{}", second.stderr);
    // Without its lock the folder is free, also after a violent end.
    drop(broker);
    assert_eq!(BrokerProcess::start(&["--data", path(folder.path())]).end("-INT").0, Some(130));
}

#[test]
fn leaves_what_is_not_its_own_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("thesis.txt");
    std::fs::write(&file, "mine").expect("a file");
    let refused = tidegate(&["broker", "--port", "0", "--data", path(folder.path())], LIMIT);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("is not empty and holds no broker's data"), "{}", refused.stderr);
    let refused = tidegate(&["broker", "--port", "0", "--data", path(&file)], LIMIT);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("thesis.txt"), "{}", refused.stderr);
}

#[test]
fn warns_where_others_can_reach_it() {
    let mut broker = BrokerProcess::start(&["--listen", "0.0.0.0"]);
    let mut warning = String::new();
    broker.stderr.read_line(&mut warning).expect("a line");
    assert!(warning.starts_with("warning: ") && warning.contains("no TLS and no authentication"), "{warning}");
}

#[test]
fn its_help_says_what_it_is_not() {
    let help = tidegate(&["broker", "--help"], LIMIT);
    assert_eq!(help.code, Some(0));
    for words in ["development", "no TLS", "no authentication", "properties.bootstrap.servers"] {
        assert!(help.stdout.contains(words), "no '{words}' in: {}", help.stdout);
    }
}
