//! Buckets of Amazon S3 and of what speaks its protocol.
//!
//! Nothing here needs a rename: files and manifests are created under their names by conditional puts
//! (`If-None-Match: *`).

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::{ClientConfigKey, ObjectStore, RetryConfig, StaticCredentialProvider};

use crate::options::S3Options;

/// How long a request is tried again while the service is away or wants less: a checkpoint that fails is cheap, one
/// that hangs delays all that follow.
const RETRIES: Duration = Duration::from_secs(15);
/// For one request with its body. The largest files of state have some 100 MB.
const REQUEST: &str = "120 s";

/// Opens a bucket; nothing is asked of it yet. An error says what is wrong with the options.
pub(super) fn bucket(name: &str, options: &S3Options) -> Result<Arc<dyn ObjectStore>, String> {
    // Whoever has chosen one for the process before may have had a reason.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retries = RetryConfig { retry_timeout: RETRIES, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retries);
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(keys) = &options.keys {
        // Not key by key: a session token of the environment belongs to other keys.
        let (key_id, secret_key, token) = (keys.access.clone(), keys.secret.clone(), keys.session.clone());
        let credential = AwsCredential { key_id, secret_key, token };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
    }
    if let Some(path_style) = options.path_style {
        builder = builder.with_virtual_hosted_style_request(!path_style);
    }
    if let Some(endpoint) = &options.endpoint {
        let url = match (options.path_style, endpoint.split_once("://")) {
            (Some(false), Some((scheme, host))) => format!("{scheme}://{name}.{host}"),
            _ => endpoint.clone(),
        };
        // One of the environment for S3 alone would win over a general one.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, url);
    }
    let of = |key| builder.get_config_value(&key);
    let endpoint = of(AmazonS3ConfigKey::S3Endpoint).or_else(|| of(AmazonS3ConfigKey::Endpoint));
    if endpoint.is_some_and(|url| url.starts_with("http://")) {
        // Who writes http:// means it.
        builder = builder.with_allow_http(true);
    }
    builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST);
    builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>).map_err(|error| error.to_string())
}
