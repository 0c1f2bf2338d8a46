//! How to reach `s3://`: Flink's `s3.*` keys.

use std::fmt;

use tidegate_api::config::Configuration;
use tidegate_api::error::{Error, Result};

use crate::options::keys;

/// Access to Amazon S3, or to what speaks its protocol. What is not set comes from the environment (`AWS_*`).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct S3Options {
    /// The URL of the service.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The keys: both or none.
    pub keys: Option<S3Keys>,
    /// Whether a bucket is named in the path of a URL, and not in its host.
    pub path_style: Option<bool>,
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct S3Keys {
    /// Which key.
    pub access: String,
    /// What proves it.
    pub secret: String,
    /// Goes with keys that are valid for a while only.
    pub session: Option<String>,
}

impl fmt::Debug for S3Keys {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("S3Keys")
    }
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let S3Options { endpoint, region, keys, path_style } = self;
        let mut shown = f.debug_struct("S3Options");
        shown.field("endpoint", endpoint).field("region", region).field("keys", keys);
        shown.field("path_style", path_style).finish()
    }
}

impl S3Options {
    pub(super) fn from_config(config: &Configuration) -> Result<S3Options> {
        let session = keys::S3_SESSION_TOKEN.text(config);
        let keys = match (keys::S3_ACCESS_KEY.text(config), keys::S3_SECRET_KEY.text(config)) {
            (None, None) => None,
            (Some(access), Some(secret)) => Some(S3Keys { access, secret, session }),
            (access, _) => {
                let (set, missing) = (&keys::S3_ACCESS_KEY.0, &keys::S3_SECRET_KEY.0);
                let (set, missing) = if access.is_some() { (set, missing) } else { (missing, set) };
                return Err(Error::invalid(format!("Key '{set}' is set and '{missing}' is not: set both or none.")));
            }
        };
        Ok(S3Options {
            endpoint: keys::S3_ENDPOINT
                .text(config)
                .map(|url| if url.contains("://") { url } else { format!("https://{url}") }),
            region: keys::S3_REGION.text(config),
            keys,
            path_style: match keys::S3_PATH_STYLE.text(config) {
                None => None,
                Some(_) => Some(keys::S3_PATH_STYLE.bool(config, true)?),
            },
        })
    }
}
