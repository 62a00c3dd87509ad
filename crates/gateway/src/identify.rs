//! From a key to the client behind it.

use std::sync::Arc;

use base::{Code, Refusal};
use config::{Client, Snapshot};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The headers in which callers show their key, in the order in which they are looked at.
const KEY_HEADERS: [HeaderName; 3] =
    [header::AUTHORIZATION, HeaderName::from_static("api-key"), HeaderName::from_static("x-api-key")];

use crate::live::Live;
use crate::live::issued_keys::Shut;

/// The client behind the request's key: one of the configuration's, else one that was issued. The address never
/// matters, nor does a key in the URL.
///
/// # Errors
/// `invalid_api_key`
pub fn caller<'a>(live: &Live, snapshot: &'a Snapshot, headers: &HeaderMap) -> Result<&'a Arc<Client>, Refusal> {
    let mut shut = None;
    for key in presented(headers) {
        let id = snapshot.keys.hasher().of_key(key);
        if let Some(client) = snapshot.client_with(&id) {
            return Ok(client);
        }
        match live.issued.client(snapshot, &id, live.steady_wall()) {
            Ok(client) => return Ok(client),
            // Of several the one that says most.
            Err(why) => shut = shut.filter(|shut| *shut != Shut::Unknown).or(Some(why)),
        }
    }
    Err(refusal(shut))
}

/// The keys that a request shows.
pub fn presented(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values =
        KEY_HEADERS.into_iter().flat_map(|name| headers.get_all(&name).iter().map(move |value| (name.clone(), value)));
    values.filter_map(|(name, value)| key(&name, value)).filter(|key| !key.is_empty())
}

fn key<'a>(name: &HeaderName, value: &'a HeaderValue) -> Option<&'a [u8]> {
    let value = value.as_bytes();
    if name == header::AUTHORIZATION { bearer(value) } else { Some(value.trim_ascii()) }
}

/// Why nobody is let in: no key was shown, or this is what is known of it.
fn refusal(shut: Option<Shut>) -> Refusal {
    let message = match shut {
        None => "no API key: send `Authorization: Bearer KEY` (or `api-key` / `x-api-key`)",
        Some(Shut::Unknown) => "the API key is unknown or revoked; ask whoever runs this gateway for one",
        Some(Shut::Expired) => "the API key has expired; ask whoever runs this gateway for a new one",
    };
    Refusal::new(Code::InvalidApiKey, message)
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
