//! House rules as a check: crate edges, file sizes, dead files, words.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::step;

/// Layers of the design, lowest first. A crate may depend only on crates of lower layers.
const LAYERS: &[&[&str]] = &[
    &["tidegate-time"],
    &["tidegate-window", "tidegate-state", "tidegate-pattern"],
    &["tidegate-api"],
    &["tidegate-checkpoint"],
    &["tidegate-runtime", "tidegate-sql", "tidegate-datastream", "tidegate-connectors", "tidegate-broker"],
    &["tidegate-server"],
    &["tidegate-cli"],
];

/// Heavy dependencies and the one crate that may use each.
const OWNERS: &[(&str, &str)] = &[
    ("rdkafka", "tidegate-connectors"),
    ("axum", "tidegate-server"),
    ("clap", "tidegate-cli"),
    ("reedline", "tidegate-cli"),
    ("crossterm", "tidegate-cli"),
    ("kafka-protocol", "tidegate-broker"),
    ("object_store", "tidegate-checkpoint"),
    ("reqwest", "tidegate-checkpoint"),
    ("rustls", "tidegate-checkpoint"),
    ("sonic-rs", "tidegate-connectors"),
];

const LINES_MAX: usize = 800;

/// Words that say where or how the project was written instead of what it is.
const WORDS: &[&str] = &["FIXME", "XXX:", "/home/", "/root/"];

/// Runs all rules and lists every violation.
pub fn tidy() -> Result<(), String> {
    eprintln!("xtask: tidy");
    let mut problems = crate_edges()?;
    let files = tracked_files()?;
    for file in &files {
        check_file(file, &mut problems);
    }
    dead_files(&files, &mut problems);
    if problems.is_empty() {
        return Ok(());
    }
    for problem in &problems {
        eprintln!("  {problem}");
    }
    Err(format!("tidy: {} problems", problems.len()))
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|crates| crates.contains(&name))
}

fn crate_edges() -> Result<Vec<String>, String> {
    let text = step::output(step::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            let is_dev = dependency["kind"].as_str() == Some("dev");
            problems.extend(edge_problem(name, to, is_dev));
        }
    }
    Ok(problems)
}

fn edge_problem(name: &str, to: &str, is_dev: bool) -> Option<String> {
    if let Some((_, owner)) = OWNERS.iter().find(|(dependency, _)| *dependency == to)
        && *owner != name
        && layer(name).is_some()
        && !is_dev
    {
        return Some(format!("{name} depends on {to}, which belongs to {owner} alone"));
    }
    let (from_layer, to_layer) = (layer(name), layer(to));
    match (from_layer, to_layer) {
        (None, None) if to.starts_with("tidegate-") && to != "tidegate-testing" => {
            Some(format!("{to} is not in the layers of the design"))
        }
        (Some(_), None) if to == "tidegate-testing" && !is_dev => {
            Some(format!("{name} may use tidegate-testing in tests only"))
        }
        (Some(from), Some(to_layer)) if to_layer >= from && !is_dev => {
            Some(format!("{name} (layer {from}) must not depend on {to} (layer {to_layer})"))
        }
        _ => None,
    }
}

fn tracked_files() -> Result<Vec<PathBuf>, String> {
    let mut git = std::process::Command::new("git");
    // CI's checkout may belong to another user, which git refuses unless told.
    git.current_dir(step::root()).args([
        "-c",
        "safe.directory=*",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let text = step::output(&mut git)?;
    Ok(text.lines().map(|l| step::root().join(l)).filter(|p| p.is_file()).collect())
}

fn check_file(path: &Path, problems: &mut Vec<String>) {
    let shown = path.strip_prefix(step::root()).unwrap_or(path).display().to_string();
    let Ok(text) = fs::read_to_string(path) else { return };
    let is_rust = path.extension().is_some_and(|e| e == "rs");
    let lines = text.lines().count();
    if is_rust && lines > LINES_MAX {
        problems.push(format!("{shown}: {lines} lines, at most {LINES_MAX}"));
    }
    let is_prose = path.extension().is_some_and(|e| e == "rs" || e == "md" || e == "toml" || e == "py");
    if is_prose && !shown.ends_with("xtask/src/tidy.rs") {
        for word in WORDS.iter().filter(|w| text.contains(**w)) {
            problems.push(format!("{shown}: contains '{word}'"));
        }
    }
    let in_library = shown.starts_with("crates/") && shown.contains("/src/") && is_rust;
    if in_library && !text.trim_start().starts_with("//!") && is_module_root(path) {
        problems.push(format!("{shown}: a module's head says what it is for (`//!`)"));
    }
}

fn is_module_root(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n == "lib.rs" || n == "mod.rs" || n == "main.rs")
}

/// A Rust file under `src` that no `mod` names is compiled by nobody.
fn dead_files(files: &[PathBuf], problems: &mut Vec<String>) {
    let mut named: BTreeSet<(PathBuf, String)> = BTreeSet::new();
    let sources: Vec<&PathBuf> = files
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rs") && p.components().any(|c| c.as_os_str() == "src"))
        .collect();
    for path in &sources {
        let Ok(text) = fs::read_to_string(path) else { continue };
        for line in text.lines() {
            if let Some(name) = declared_module(line) {
                named.insert((module_folder(path), name));
            }
        }
    }
    for path in sources {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        if matches!(stem, "lib" | "main") || path.components().any(|c| c.as_os_str() == "bin") {
            continue;
        }
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        let (folder, name) = if stem == "mod" {
            let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            (folder.parent().map(PathBuf::from).unwrap_or_default(), name)
        } else {
            (folder, stem.to_owned())
        };
        if !named.contains(&(folder, name)) {
            problems.push(format!("{}: no `mod` names this file", path.display()));
        }
    }
}

fn declared_module(line: &str) -> Option<String> {
    let line = line.trim();
    let rest = line.strip_suffix(';')?;
    let (_, name) = rest.split_once("mod ")?;
    let visible = rest.starts_with("mod ") || rest.starts_with("pub");
    (visible && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then(|| name.to_owned())
}

fn module_folder(path: &Path) -> PathBuf {
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if matches!(stem, "lib" | "main" | "mod") { folder } else { folder.join(stem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_only_lead_down() {
        assert!(edge_problem("tidegate-runtime", "tidegate-sql", false).is_some());
        assert!(edge_problem("tidegate-api", "tidegate-runtime", false).is_some());
        assert!(edge_problem("tidegate-server", "tidegate-runtime", false).is_none());
        assert!(edge_problem("tidegate-runtime", "rdkafka", false).is_some());
        assert!(edge_problem("tidegate-sql", "tidegate-testing", false).is_some());
        assert!(edge_problem("tidegate-sql", "tidegate-testing", true).is_none());
    }

    #[test]
    fn modules_are_recognised() {
        assert_eq!(declared_module("pub(crate) mod valve;"), Some("valve".into()));
        assert_eq!(declared_module("mod tests {"), None);
        assert_eq!(declared_module("use a::mod_b;"), None);
    }
}
