//! What the engine or the way to it says, as an error that tells whose turn it is.
//!
//! Owns the reading of messages: engines put what matters into English text.

use bollard::errors::Error;

use crate::SandboxError;

/// Whether an answer with this status came.
pub(super) fn is_status(error: &Error, status: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == status)
}

/// The error of a call on the engine.
pub(super) fn of_call(what: &str, error: Error) -> SandboxError {
    let what = what.to_owned();
    match error {
        Error::DockerResponseServerError { message, .. } if is_full(&message) => {
            SandboxError::EngineFull { why: message }
        }
        Error::DockerResponseServerError { status_code, message } => {
            SandboxError::EngineRefused { what, status: status_code, why: message }
        }
        Error::DockerStreamError { error } if is_full(&error) => {
            SandboxError::EngineFull { why: error }
        }
        Error::DockerStreamError { error } => {
            // It began with "200 OK".
            SandboxError::EngineRefused { what, status: 500, why: error }
        }
        Error::JsonDataError { .. } | Error::JsonSerdeError { .. } => SandboxError::EngineRefused {
            what,
            status: 500,
            why: format!("an answer that cannot be read: {error}"),
        },
        other => SandboxError::EngineGone { what, why: root(&other) },
    }
}

/// The error of a call on a container of ours, which nobody else has a right to remove.
pub(super) fn of_container(what: &str, error: Error) -> SandboxError {
    if is_status(&error, 404) {
        let why = "its container is not there any more".to_owned();
        return SandboxError::EngineGone { what: what.to_owned(), why };
    }
    of_call(what, error)
}

/// The error of a call that needs `image`.
pub(super) fn of_image(image: &str, what: &str, error: Error) -> SandboxError {
    let (status, why) = match &error {
        Error::DockerResponseServerError { status_code, message } => (*status_code, message),
        Error::DockerStreamError { error } => (200, error),
        _ => return of_call(what, error),
    };
    let image = image.to_owned();
    let low = why.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| low.contains(word));
    if status == 429 || says(&["toomanyrequests", "too many requests", "rate limit"]) {
        return SandboxError::RateLimited { image, why: why.clone(), wait: retry_after(&low) };
    }
    // Asking for a repository that does not exist is "denied" on some registries.
    if status == 401 || status == 403 || says(&["denied", "unauthorized", "authentication"]) {
        return SandboxError::ImageDenied { image, why: why.clone() };
    }
    let missing = ["no such image", "image not known", "manifest unknown", "name unknown"];
    // An engine without one of its own programs says "not found" too.
    if says(&missing) || says(&["not found"]) && !says(&["executable", "binary"]) {
        return SandboxError::ImageMissing { image };
    }
    of_call(what, error)
}

fn is_full(message: &str) -> bool {
    message.to_lowercase().contains("no space left on device")
}

/// Seconds after the words `retry-after`, if a message has them.
fn retry_after(low: &str) -> Option<u64> {
    let rest = low.split("retry-after").nth(1)?.trim_start_matches([':', '=', ' ', '"']);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number: u64 = rest[..digits].parse().ok()?;
    Some(if rest[digits..].starts_with("ms") { number.div_ceil(1000) } else { number })
}

/// The first cause of an error: what lies between is the client's business.
pub(super) fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulled(message: &str) -> SandboxError {
        of_image("x", "pulling", Error::DockerStreamError { error: message.to_owned() })
    }

    #[test]
    fn a_failed_pull_says_why() {
        use SandboxError as E;
        assert!(matches!(pulled("manifest unknown: manifest unknown"), E::ImageMissing { .. }));
        assert!(matches!(
            pulled(
                "pull access denied for x, repository does not exist or may require 'docker login'"
            ),
            E::ImageDenied { .. }
        ));
        assert!(matches!(
            pulled("toomanyrequests: retry-after: 1500ms, allowed: 44000/minute"),
            E::RateLimited { wait: Some(2), .. }
        ));
        assert!(matches!(
            pulled("toomanyrequests: You have reached your pull rate limit."),
            E::RateLimited { wait: None, .. }
        ));
        assert!(matches!(pulled("write /x: no space left on device"), E::EngineFull { .. }));
        assert!(matches!(pulled("dial tcp: i/o timeout"), E::EngineRefused { .. }));
    }

    #[test]
    fn a_broken_connection_is_not_an_answer() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = of_call("x", Error::IOError { err: broken });
        assert!(matches!(&error, SandboxError::EngineGone { .. }));
        assert!(error.is_worth_retrying());
    }
}
