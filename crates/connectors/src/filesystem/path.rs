//! The `path` option: a file, a directory or a pattern, and the files it names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use regex::Regex;
use tidegate_api::{Error, Result};

/// The value of `path`.
#[derive(Clone, Debug)]
pub(super) struct TablePath {
    text: String,
    path: PathBuf,
}

impl TablePath {
    /// A local path or `file:` URI; `None` for another scheme.
    pub(super) fn parse(text: &str) -> Option<TablePath> {
        let local = match text.split_once(':') {
            Some(("file", rest)) => {
                let rest = rest.strip_prefix("//").unwrap_or(rest);
                rest.strip_prefix("localhost").unwrap_or(rest)
            }
            Some((scheme, rest)) if rest.starts_with("//") && !scheme.contains('/') => return None,
            _ => text,
        };
        Some(TablePath { text: text.to_owned(), path: PathBuf::from(local) })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it names files by pattern. A file whose very name has such characters is that file.
    pub(super) fn is_glob(&self) -> bool {
        self.text.contains(['*', '?']) && !self.path.exists()
    }

    /// All files, sorted by path: recursively, without what starts with `.` or `_`.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let found = if self.is_glob() { self.glob(&mut files) } else { self.plain(&mut files) };
        found.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                Error::job(format!("File does not exist: '{}'. Check the option 'path'.", self.text))
            }
            _ => Error::job(format!("Cannot list the files of '{}': {e}.", self.text)),
        })?;
        files.sort();
        Ok(files)
    }

    fn plain(&self, files: &mut Vec<PathBuf>) -> io::Result<()> {
        let kind = fs::metadata(&self.path)?;
        if kind.is_dir() {
            return walk(&self.path, files);
        }
        files.push(self.path.clone());
        Ok(())
    }

    /// Walks from the last directory that is not a pattern.
    fn glob(&self, files: &mut Vec<PathBuf>) -> io::Result<()> {
        let text = self.path.to_string_lossy();
        let pattern_at = text.find(['*', '?']).unwrap_or(text.len());
        let base = match text[..pattern_at].rfind('/') {
            Some(0) => "/",
            Some(slash) => &text[..slash],
            None => ".",
        };
        let pattern = glob_pattern(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut all = Vec::new();
        walk(Path::new(base), &mut all)?;
        let prefix = if base == "." && !text.starts_with("./") { "./" } else { "" };
        let matches = |path: &PathBuf| {
            let text = path.to_string_lossy();
            pattern.is_match(text.strip_prefix(prefix).unwrap_or(&text))
        };
        all.retain(|path| matches(path));
        if all.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        files.append(&mut all);
        Ok(())
    }
}

/// `*` and `?` within one name, `**` across names; a directory that matches gives its files.
fn glob_pattern(glob: &str) -> Option<Regex> {
    let mut pattern = String::from("^");
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        let (piece, len) = match c {
            '*' if rest.starts_with("**/") => ("(?:.*/)?".to_owned(), 3),
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            c => (regex::escape(&c.to_string()), c.len_utf8()),
        };
        pattern.push_str(&piece);
        rest = &rest[len..];
    }
    pattern.push_str("(?:/.*)?$");
    Regex::new(&pattern).ok()
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        // Follows symbolic links; one that points nowhere is no file.
        match fs::metadata(entry.path()) {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), files)?,
            Ok(_) => files.push(entry.path()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_and_globs() {
        let local = |text: &str| TablePath::parse(text).map(|p| p.path);
        assert_eq!(local("file:///a/b"), Some("/a/b".into()));
        assert_eq!(local("file:/a"), Some("/a".into()));
        assert_eq!(local("/a:b"), Some("/a:b".into()));
        assert_eq!(local("s3://bucket/a"), None);
        let matches = |glob: &str, path: &str| glob_pattern(glob).is_some_and(|g| g.is_match(path));
        assert!(matches("/d/*.json", "/d/a.json"));
        assert!(!matches("/d/*.json", "/d/e/a.json"));
        assert!(matches("/d/2026-*", "/d/2026-10/a.json"));
        assert!(matches("/d/**/a.json", "/d/x/y/a.json"));
        assert!(!matches("/d/a.json?", "/d/a.json"));
    }
}
