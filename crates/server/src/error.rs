//! Errors in Flink's shape: `{"errors":["..."]}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer that is no answer.
#[derive(Debug)]
pub(crate) struct RestError {
    status: StatusCode,
    message: String,
}

impl RestError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        RestError { status, message: message.into() }
    }

    pub(crate) fn job_not_found(id: &str) -> Self {
        RestError::new(
            StatusCode::NOT_FOUND,
            format!("org.apache.flink.runtime.rest.NotFoundException: Job {id} not found"),
        )
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        RestError::new(StatusCode::NOT_FOUND, format!("org.apache.flink.runtime.rest.NotFoundException: {what}"))
    }

    pub(crate) fn bad_parameter(name: &str, value: &str) -> Self {
        RestError::new(
            StatusCode::BAD_REQUEST,
            format!(
                "Bad request, could not parse parameters: Cannot resolve path parameter ({name}) from value \"{value}\"."
            ),
        )
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "errors": [self.message] }))).into_response()
    }
}

pub(crate) type RestResult = Result<Json<serde_json::Value>, RestError>;
