//! From a key to the client behind it.

use std::sync::Arc;

use base::{Clock, Code, Refusal};
use config::{Client, Snapshot};
use http::{HeaderMap, HeaderName, header};

/// The headers in which callers show their key, in the order in which they are looked at.
const KEY_HEADERS: [HeaderName; 3] =
    [header::AUTHORIZATION, HeaderName::from_static("api-key"), HeaderName::from_static("x-api-key")];

/// The client behind the request's key. The address never matters, nor does a key in the URL.
///
/// # Errors
/// `invalid_api_key`.
pub fn caller<'a>(snapshot: &'a Snapshot, headers: &HeaderMap) -> Result<&'a Arc<Client>, Refusal> {
    let mut shown = false;
    for name in &KEY_HEADERS {
        for value in headers.get_all(name) {
            let value = value.as_bytes();
            let key = if name == header::AUTHORIZATION { bearer(value) } else { Some(value.trim_ascii()) };
            let Some(key) = key.filter(|key| !key.is_empty()) else { continue };
            shown = true;
            if let Some(client) = snapshot.client(key, || Clock.wall()) {
                return Ok(client);
            }
        }
    }
    let message = if shown {
        "the API key is unknown or revoked; ask whoever runs this gateway for one"
    } else {
        "no API key: send `Authorization: Bearer KEY` (or `api-key` / `x-api-key`)"
    };
    Err(Refusal::new(Code::InvalidApiKey, message))
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_read_without_regard_to_case() {
        assert_eq!(bearer(b"Bearer k1"), Some(b"k1".as_slice()));
        assert_eq!(bearer(b"bearer  k1 "), Some(b"k1".as_slice()));
        assert_eq!(bearer(b"Basic k1"), None);
        assert_eq!(bearer(b"k1"), None);
    }
}
