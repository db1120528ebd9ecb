//! The key of a server.
//!
//! Owns that it is shown to nobody but the server: it prints as stars, and is taken out of texts
//! that a server sends back.

use std::fmt;

/// A bearer key. Printed as `****`.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// The key in `text`, without white space around it; nothing if that is empty or no header
    /// could hold it.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|b| (0x21..0x7f).contains(&b));
        fits.then(|| Self(text.to_owned()))
    }

    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// `text` without the key.
    pub(super) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, "****")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(****)")
    }
}
