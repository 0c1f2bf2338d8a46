//! A store that dies: its n-th operation fails before or after it took effect, and all later ones fail.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// How an operation dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// Nothing happened, and the process is gone.
    Before,
    /// It happened, and the process is gone.
    After,
    /// Nothing happened; only this operation fails.
    FailsOnce,
    /// It happened and says it did not; only this operation fails.
    LiesOnce,
}

#[derive(Debug)]
pub(super) struct Dying {
    inner: Arc<InMemory>,
    at: usize,
    death: Death,
    operations: AtomicUsize,
}

impl Dying {
    pub(super) fn new(inner: Arc<InMemory>, at: usize, death: Death) -> Dying {
        Dying { inner, at, death, operations: AtomicUsize::new(0) }
    }

    pub(super) fn operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    /// Whether the operation takes effect, and whether it succeeds.
    fn fate(&self) -> (bool, bool) {
        let number = self.operations.fetch_add(1, Ordering::SeqCst);
        let once = matches!(self.death, Death::FailsOnce | Death::LiesOnce);
        match number.cmp(&self.at) {
            std::cmp::Ordering::Less => (true, true),
            std::cmp::Ordering::Equal => (matches!(self.death, Death::After | Death::LiesOnce), false),
            std::cmp::Ordering::Greater => (once, once),
        }
    }
}

fn dead<T>() -> Result<T> {
    Err(Error::Generic { store: "dying", source: "the process is gone".into() })
}

impl fmt::Display for Dying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dying")
    }
}

#[async_trait]
impl ObjectStore for Dying {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (happens, succeeds) = self.fate();
        let result = if happens { self.inner.put_opts(location, payload, opts).await } else { dead() };
        if succeeds { result } else { dead() }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        dead()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.fate().1 { self.inner.get_opts(location, options).await } else { dead() }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, fate) = (self.inner.clone(), self.fate());
        let one = move |location: Result<Path>| {
            let inner = inner.clone();
            async move {
                let location = location?;
                if fate.0 {
                    let single = futures::stream::iter([Ok(location.clone())]).boxed();
                    let _ = inner.delete_stream(single).collect::<Vec<_>>().await;
                }
                if fate.1 { Ok(location) } else { dead() }
            }
        };
        locations.then(one).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.fate().1 { self.inner.list(prefix) } else { futures::stream::iter([dead()]).boxed() }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        if self.fate().1 { self.inner.list_with_delimiter(prefix).await } else { dead() }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (happens, succeeds) = self.fate();
        let result = if happens { self.inner.copy_opts(from, to, options).await } else { dead() };
        if succeeds { result } else { dead() }
    }
}
