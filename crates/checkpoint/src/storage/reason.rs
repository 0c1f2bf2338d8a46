//! What a store's error means, in words for people.

use std::error::Error as StdError;

use object_store::Error;

/// The words of those who know the cause, and what to do about it.
pub(super) fn why(error: &Error) -> String {
    let top = match error {
        // It says no more than which kind of store this is.
        Error::Generic { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    let Some((code, message)) = answer(&top) else {
        let cause = deepest(error).filter(|cause| !top.contains(cause));
        let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        return format!("{top}{cause}{}", advice(error, "", &top));
    };
    format!("the store answered {code}: {message}{}", advice(error, code, &top))
}

/// Code and message of an answer in XML.
fn answer(text: &str) -> Option<(&str, &str)> {
    let between = |from: &str, to: &str| Some(text.split_once(from)?.1.split_once(to)?.0.trim());
    let message = between("<Message>", "</Message>").unwrap_or("no more is said");
    Some((between("<Code>", "</Code>")?, message.trim_end_matches('.')))
}

fn deepest(error: &Error) -> Option<String> {
    let mut cause: &dyn StdError = error.source()?;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Some(cause.to_string())
}

fn advice(error: &Error, code: &str, text: &str) -> &'static str {
    // Lists come without the kinds that other requests have.
    let is_refused = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
        || matches!(
            code,
            "AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken"
        );
    match code {
        "NoSuchBucket" => ". Make the bucket, or name another one",
        "RequestTimeTooSkewed" => ". Set this machine's clock",
        _ if is_refused => {
            ". Check 's3.access-key' and 's3.secret-key' (or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), and what they \
             are allowed to do"
        }
        _ if text.contains("169.254.169.254") => {
            ". No keys are set, and this machine has none of its own: set 's3.access-key' and 's3.secret-key' (or \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        }
        "" if text.contains("HTTP error") => {
            ". Check 's3.endpoint' (or AWS_ENDPOINT_URL), and whether the service is there"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str, body: &'static str) -> Error {
        Error::PermissionDenied { path: path.to_owned(), source: body.into() }
    }

    #[test]
    fn an_answer_is_read_and_said_what_to_do() {
        let body = "Error performing PUT http://h/b/k in 2ms - Server returned non-2xx status code: 403 Forbidden: \
                    <?xml version=\"1.0\"?><Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you \
                    provided does not exist in our records.</Message><RequestId>7a62</RequestId></Error>";
        let said = why(&refused("k", body));
        assert!(
            said.starts_with("the store answered InvalidAccessKeyId: The AWS Access Key Id you provided"),
            "{said}"
        );
        assert!(said.contains("'s3.secret-key'") && !said.contains('<'), "{said}");
    }

    #[test]
    fn the_cause_at_the_bottom_is_said() {
        let io = std::io::Error::other("the disk is on fire");
        let said = why(&Error::Generic { store: "LocalFileSystem", source: Box::new(io) });
        assert_eq!(said, "the disk is on fire");
    }
}
