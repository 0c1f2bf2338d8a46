//! From what users write to a store and a path in it.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::manifest::FileRef;
use crate::options::S3Options;
use crate::storage::{StorageError, resolve};

const LOCAL_PREFIX: &str = "file:";

/// A folder or file in a store.
#[derive(Clone, Debug)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The path in it.
    pub path: Path,
    /// What comes before the path in what users read: `file:/`, `memory:/`, `s3://bucket`.
    pub prefix: String,
}

impl Place {
    /// As users write it: `file:/a/b`.
    pub fn url(&self, path: &Path) -> String {
        format!("{}/{path}", self.prefix)
    }

    /// True if it is reached over a network.
    pub fn is_remote(&self) -> bool {
        self.prefix.contains("://")
    }

    /// True if both are in one store.
    pub fn is_same_store(&self, other: &Place) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// Where a file that a manifest in this folder names lies on this machine; `None` if it lies elsewhere.
    pub fn local_path(&self, file: &FileRef) -> Option<std::path::PathBuf> {
        let is_local = self.prefix == LOCAL_PREFIX;
        is_local.then(|| LocalFileSystem::new().path_to_filesystem(&resolve(&self.path, file)).ok()).flatten()
    }

    /// A place below this one.
    pub fn below(&self, name: &str) -> Place {
        Place { path: self.path.clone().join(name), ..self.clone() }
    }
}

/// The stores of a process: one for local files, one in memory, one for each bucket.
#[derive(Debug)]
pub struct Stores {
    local: Arc<dyn ObjectStore>,
    memory: Arc<dyn ObjectStore>,
    /// By name and access: jobs may reach one by different keys.
    #[cfg(feature = "s3")]
    buckets: std::sync::Mutex<std::collections::BTreeMap<(String, S3Options), Arc<dyn ObjectStore>>>,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores::new()
    }
}

impl Stores {
    /// Opens nothing yet.
    pub fn new() -> Stores {
        // What is acknowledged has reached the disk; folders go when their last file does.
        let local = LocalFileSystem::new().with_fsync(true).with_automatic_cleanup(true);
        Stores {
            local: Arc::new(local),
            memory: Arc::new(InMemory::new()),
            #[cfg(feature = "s3")]
            buckets: std::sync::Mutex::default(),
        }
    }

    /// Finds a place: a path, `file:///a/b`, `file:/a/b`, `memory:///a`, `s3://bucket/a`, which is reached as `s3` says.
    pub fn open(&self, url: &str, s3: &S3Options) -> Result<Place, StorageError> {
        let bad = |reason: String| StorageError::Location { url: url.to_owned(), reason };
        let (scheme, rest) = match url.split_once(':') {
            Some((scheme, rest)) if scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                (scheme.to_ascii_lowercase(), rest)
            }
            _ => ("file".to_owned(), url),
        };
        match scheme.as_str() {
            "file" => {
                let absolute = std::path::absolute(local_path(rest)).map_err(|error| bad(error.to_string()))?;
                let path = Path::from_absolute_path(&absolute).map_err(|error| bad(error.to_string()))?;
                Ok(Place { store: self.local.clone(), path, prefix: LOCAL_PREFIX.to_owned() })
            }
            "memory" => {
                let path = Path::parse(rest.trim_matches('/')).map_err(|error| bad(error.to_string()))?;
                Ok(Place { store: self.memory.clone(), path, prefix: "memory:".to_owned() })
            }
            "s3" | "s3a" => self.bucket(url, rest, s3),
            other => Err(bad(format!("scheme '{other}' is not supported. Use file:, memory: or s3:"))),
        }
    }

    #[cfg(not(feature = "s3"))]
    #[allow(clippy::unused_self, reason = "the other build keeps its buckets here")]
    fn bucket(&self, url: &str, _: &str, _: &S3Options) -> Result<Place, StorageError> {
        let reason = "this build has no S3. Build it with the cargo feature 's3'".to_owned();
        Err(StorageError::Location { url: url.to_owned(), reason })
    }

    #[cfg(feature = "s3")]
    fn bucket(&self, url: &str, rest: &str, options: &S3Options) -> Result<Place, StorageError> {
        let bad = |reason: String| StorageError::Location { url: url.to_owned(), reason };
        let (name, path) = rest.trim_start_matches('/').split_once('/').unwrap_or((rest.trim_start_matches('/'), ""));
        if name.is_empty() {
            return Err(bad("it names no bucket".to_owned()));
        }
        let path = Path::parse(path.trim_matches('/')).map_err(|error| bad(error.to_string()))?;
        let mut buckets = self.buckets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = (name.to_owned(), options.clone());
        let store = match buckets.get(&key) {
            Some(store) => store.clone(),
            None => {
                let store = super::s3::bucket(name, options).map_err(bad)?;
                buckets.insert(key, store.clone());
                store
            }
        };
        Ok(Place { store, path, prefix: format!("s3://{name}") })
    }
}

/// `///a/b` and `/a/b` are one path; `//host/a` is kept, and is none here.
fn local_path(rest: &str) -> &str {
    rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest)
}
