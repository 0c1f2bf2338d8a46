//! ApiVersions: what this broker can do.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::state::{Client, State};
use crate::wire::apis::SERVED;

/// The feature that decides how transactions end (KIP-890).
const TRANSACTION_VERSION: &str = "transaction.version";
/// Features came with this version, which also brought the name of the client's software.
const FEATURES_SINCE: i16 = 3;
/// Clients of older versions take a lowest level of 0 for an error, so such features are left out for
/// them (KIP-1022).
const LEVEL_ZERO_SINCE: i16 = 4;

pub(crate) async fn handle(
    state: &State,
    request: ApiVersionsRequest,
    version: i16,
    _client: &Client,
) -> ApiVersionsResponse {
    let named = is_software(&request.client_software_name) && is_software(&request.client_software_version);
    if version >= FEATURES_SINCE && !named {
        return ApiVersionsResponse::default().with_error_code(ResponseError::InvalidRequest.code());
    }
    let response = ApiVersionsResponse::default().with_api_keys(served());
    if version < FEATURES_SINCE {
        return response;
    }
    let name = StrBytes::from_static_str(TRANSACTION_VERSION);
    let level = state.options.transaction_version;
    let supported = SupportedFeatureKey::default().with_name(name.clone()).with_min_version(0).with_max_version(level);
    let finalized =
        FinalizedFeatureKey::default().with_name(name).with_min_version_level(level).with_max_version_level(level);
    response
        .with_supported_features(if version >= LEVEL_ZERO_SINCE { vec![supported] } else { Vec::new() })
        .with_finalized_features_epoch(0)
        .with_finalized_features(vec![finalized])
}

/// The answer to a version that is not served: version 0 of it, from which a client learns which are.
pub(crate) fn unsupported() -> ApiVersionsResponse {
    ApiVersionsResponse::default().with_error_code(ResponseError::UnsupportedVersion.code()).with_api_keys(served())
}

fn served() -> Vec<ApiVersion> {
    SERVED
        .iter()
        .map(|api| {
            // librdkafka compresses only if it is told of Produce 0, so Kafka says so though it serves 3
            // and later (KAFKA-18659).
            let low = if api.key == ApiKey::Produce { 0 } else { api.low };
            ApiVersion::default().with_api_key(api.key as i16).with_min_version(low).with_max_version(api.high)
        })
        .collect()
}

/// Kafka's rule for the name and version of a client's software: letters, digits, dots and dashes, the
/// latter two not at the ends (KIP-511).
fn is_software(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    outer(text.chars().next()) && outer(text.chars().last()) && text.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kip_511() {
        for good in ["apache-kafka-java", "4.3.1", "a", "librdkafka"] {
            assert!(is_software(good), "{good}");
        }
        for bad in ["", "-a", "a.", "a b", "a_b", "ä"] {
            assert!(!is_software(bad), "{bad}");
        }
    }
}
