//! `tidegate demo` as a process: the lab's numbers, the balance of the live demo, its script and its end.

#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // A test of real processes waits in real time.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::tidegate;

const LIMIT: Duration = Duration::from_secs(60);
const SCRIPT: &str = include_str!("../../../examples/demo/delays.sql");

#[test]
fn the_lab_ends_with_flinks_numbers() {
    let ran = tidegate(&["demo", "lab", "--fast"], LIMIT);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(!ran.stdout.contains('\u{1b}'), "colours in a pipe");
    let row = |window: &str| {
        let line = ran.stdout.lines().find(|l| l.starts_with(&format!("  [{window})")));
        let line = line.unwrap_or_else(|| panic!("no row {window}:\n{}", ran.stdout));
        line.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    // Truth, then delays 0 s, 5 s and 10 s: what Flink gives for the same events.
    assert_eq!(row("10:00:00, 10:00:10"), ["10", "9", "10", "10"]);
    assert_eq!(row("10:00:10, 10:00:20"), ["10", "9", "9", "10"]);
    assert_eq!(row("10:00:20, 10:00:30"), ["10", "9", "10", "10"]);
    assert_eq!(row("10:00:30, 10:00:40"), ["10", "10", "10", "10"]);
    assert_eq!(row("10:00:50, 10:01:00"), ["1", "open", "open", "open"]);
    for said in ["Delay 0 s lost 3 clicks.", "Delay 5 s lost 1 click.", "Delay 10 s lost nothing."] {
        assert!(ran.stdout.contains(said), "{said}:\n{}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches("Out of order").count(), 4);
}

/// The sums at the end: sent, counted, lost and open, for each delay.
fn balances(output: &str) -> Vec<[u64; 4]> {
    let lines = output.lines().skip_while(|l| !l.contains("sent = counted + lost + open")).skip(1).take(3);
    let numbers =
        |line: &str| -> Vec<u64> { line[8..].split(&['=', '+']).map(|n| n.trim().parse().unwrap()).collect() };
    lines.map(|line| numbers(line).try_into().unwrap()).collect()
}

#[test]
fn the_live_demo_loses_no_click_unsaid_and_ends_by_itself() {
    let ran = tidegate(&["demo", "--seconds", "8", "--rate", "200", "--seed", "3"], LIMIT);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let balances = balances(&ran.stdout);
    assert_eq!(balances.len(), 3, "{}", ran.stdout);
    for [sent, counted, lost, open] in &balances {
        assert!(*sent >= 1_500, "{}", ran.stdout);
        assert_eq!(*sent, counted + lost + open, "{}", ran.stdout);
    }
    let lost = [0, 1, 2].map(|i: usize| balances[i][2]);
    assert!(lost[0] > lost[1] && lost[2] == 0, "{lost:?}\n{}", ran.stdout);
    assert!(ran.stdout.contains("  delay 0 s  closes "), "{}", ran.stdout);
}

#[test]
fn the_script_is_the_one_of_the_examples() {
    let ran = tidegate(&["demo", "--script"], LIMIT);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), SCRIPT));
    let ran = tidegate(&["demo", "--script", "--bootstrap", "kafka:1234"], LIMIT);
    assert_eq!(ran.stdout, SCRIPT.replace("localhost:9092", "kafka:1234"));
}

#[test]
fn ctrl_c_ends_it_with_a_summary() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["demo", "--plain"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(" closes ")), "no window closes");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(rest.iter().any(|line| line.contains("sent = counted + lost + open")), "{rest:?}");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let piped = format!("{{ {} demo --plain; echo $? >&2; }} | head -n 1", env!("CARGO_BIN_EXE_tidegate"));
    let ran = Command::new("sh").args(["-c", &piped]).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "141\n");
}

#[test]
fn wrong_numbers_are_refused() {
    for wrong in [["--disorder", "61"], ["--disorder", "-1"], ["--rate", "0"], ["--partitions", "0"]] {
        let ran = tidegate(&["demo", wrong[0], wrong[1]], LIMIT);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{wrong:?}");
    }
}
