//! Java programs for tests: jars from Maven Central, classes from sources beside the tests.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::{target_dir, workspace};

/// The folder of the jars a `pom.xml` of the workspace names, fetched once per target folder; `name` is the
/// folder's place in it and changes with the versions.
pub fn libraries(pom: &str, name: &str) -> Result<PathBuf, String> {
    // Several tests may ask at once.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _alone = FETCHING.lock();
    let libs = target_dir().join(name);
    if libs.exists() {
        return Ok(libs);
    }
    let part = part_of(&libs);
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(workspace().join(pom))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", part.display()))
        .output()
        .map_err(|e| format!("Maven cannot be run ('mvn': {e})"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        return Err(format!("Maven could not fetch the jars of {pom}: {}", text.trim()));
    }
    take_over(&part, &libs)
}

/// Compiles a source file of the workspace against these jars, once per version of the file; returns the
/// folder of its classes.
pub fn compile(source: &str, libs: &Path) -> Result<PathBuf, String> {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _alone = COMPILING.lock();
    let path = workspace().join(source);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let classes = target_dir().join("java-classes").join(format!("{stem}-{:08x}", fingerprint(&text)));
    if classes.exists() {
        return Ok(classes);
    }
    let part = part_of(&classes);
    fs::create_dir_all(&part).map_err(|e| format!("{}: {e}", part.display()))?;
    let output = Command::new("javac")
        .args(["-Xlint:all", "-Werror", "-cp"])
        .arg(format!("{}/*", libs.display()))
        .arg("-d")
        .arg(&part)
        .arg(&path)
        .output()
        .map_err(|e| format!("Java's compiler cannot be run ('javac': {e})"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{source} does not compile: {}", text.trim()));
    }
    take_over(&part, &classes)
}

/// The words that start Java with these folders of jars or classes and a heap of this size; its logs are
/// warnings on standard error. The class and its arguments are for the caller to add.
pub fn command(class_path: &[&Path], heap: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["java".into(), format!("-Xmx{heap}").into()];
    words.extend(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(OsString::from));
    words.push("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into());
    let folders: Vec<String> = class_path.iter().map(|p| format!("{0}:{0}/*", p.display())).collect();
    words.extend(["-cp".into(), folders.join(":").into()]);
    words
}

/// FNV-1a: names a version of a file, no more.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn part_of(folder: &Path) -> PathBuf {
    folder.with_extension(format!("part-{}", std::process::id()))
}

/// Gives a finished folder its name. Other processes may do the same; whoever renames first wins.
fn take_over(part: &Path, folder: &Path) -> Result<PathBuf, String> {
    match fs::rename(part, folder) {
        Ok(()) => Ok(folder.to_owned()),
        Err(_) if folder.exists() => {
            let _ = fs::remove_dir_all(part);
            Ok(folder.to_owned())
        }
        Err(e) => Err(format!("cannot make {}: {e}", folder.display())),
    }
}
