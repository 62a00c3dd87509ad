//! Addresses of services as they are written.

use std::net::Ipv6Addr;

use http::Uri;

use crate::snapshot::Origin;

/// A written `http://` or `https://` address, taken apart.
#[derive(Debug)]
pub(crate) struct Address {
    pub origin: Origin,
    /// Path and query; `/` where none is written.
    pub path: String,
    /// `user` or `user:password` as written, still percent-encoded.
    pub user: Option<String>,
}

/// The message that an address without one of `schemes` gets, if it has none.
pub(crate) fn check_scheme(text: &str, schemes: &[&str]) -> Result<(), String> {
    let wanted = || schemes.iter().map(|scheme| format!("`{scheme}://…`")).collect::<Vec<_>>().join(" or ");
    match text.split_once("://") {
        Some((scheme, rest)) if schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            if rest.is_empty() {
                Err("names no host".into())
            } else {
                Ok(())
            }
        }
        Some(_) => Err(format!("must begin with {}", wanted())),
        None => Err(format!("has no scheme; write {}", wanted())),
    }
}

/// Takes an address apart.
///
/// # Errors
/// What is wrong with it, without repeating it: it may hold a password.
pub(crate) fn parse(text: &str, schemes: &[&str]) -> Result<Address, String> {
    check_scheme(text, schemes)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds characters that no address has (blanks, or letters outside ASCII): percent-encode them in \
                    the path, and write the host in punycode (`xn--…`)"
            .into());
    }
    if text.contains('#') {
        return Err("has a fragment (`#…`), which is never sent; remove it".into());
    }
    let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| format!("is not an address ({error})"))?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
    let tls = uri.scheme_str() == Some("https");
    let (host, port) = host_and_port(place)?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(Address {
        origin: Origin { tls, host, port: port.unwrap_or(if tls { 443 } else { 80 }) },
        path: format!("{}{query}", uri.path()),
        user: user.map(str::to_owned),
    })
}

fn host_and_port(place: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(rest) = place.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or("has a `[` without its `]`")?;
        let address: Ipv6Addr = inside.parse().map_err(|_| "has no IPv6 address between `[` and `]`")?;
        (address.to_string(), if after.is_empty() { None } else { Some(after.strip_prefix(':').unwrap_or("")) })
    } else {
        let (host, port) = place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(
                "has no usable host name (letters, digits, `.`, `-`, `_`; an IPv6 address stands in `[ ]`)".into()
            );
        }
        (host.to_ascii_lowercase(), port)
    };
    match port.map(str::parse::<u16>) {
        None => Ok((host, None)),
        Some(Ok(port)) if port > 0 => Ok((host, Some(port))),
        Some(_) => Err("has no usable port; write a number from 1 to 65535 behind the `:`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (bool, String, u16, String) {
        let address = parse(text, &["http", "https"]).unwrap();
        (address.origin.tls, address.origin.host, address.origin.port, address.path)
    }

    #[test]
    fn addresses_are_taken_apart_as_written() {
        for (text, tls, host, port, path) in [
            ("http://a", false, "a", 80, "/"),
            ("http://a/", false, "a", 80, "/"),
            ("https://a/v1/", true, "a", 443, "/v1/"),
            ("HTTP://API.Example.COM:8080/v1", false, "api.example.com", 8080, "/v1"),
            ("http://a/x?api-version=2", false, "a", 80, "/x?api-version=2"),
            ("http://a?api-version=2", false, "a", 80, "/?api-version=2"),
            ("http://[::1]:8000/v1", false, "::1", 8000, "/v1"),
            ("http://[2001:DB8::1]", false, "2001:db8::1", 80, "/"),
            (
                "http://embedding_service.internal/v1beta/openai/",
                false,
                "embedding_service.internal",
                80,
                "/v1beta/openai/",
            ),
        ] {
            assert_eq!(parsed(text), (tls, host.to_owned(), port, path.to_owned()), "{text}");
        }
    }

    #[test]
    fn addresses_that_cannot_work_say_why_and_are_not_repeated() {
        for (text, part) in [
            ("api.example.com/v1", "has no scheme"),
            ("localhost:8000", "has no scheme"),
            ("ftp://a/v1", "must begin with"),
            ("http://", "names no host"),
            ("http:///v1", "is not an address"),
            ("http://a b/v1", "blanks"),
            ("http://例え.jp/v1", "punycode"),
            ("http://a/v1#x", "fragment"),
            ("http://a:0/", "usable port"),
            ("http://a:99999/", "usable port"),
            ("http://a:/", "usable port"),
            ("http://[::1", "is not an address"),
            ("http://[zz]/", "IPv6"),
            ("http://*/", "host name"),
        ] {
            let error = parse(text, &["http", "https"]).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
