//! Who is told of events.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{assert_problems, sound};
use crate::Occasion;

#[test]
fn a_webhook_has_a_name_an_address_a_key_and_events() {
    let key = BASE64_STANDARD.encode([7; 32]);
    let loaded = sound(&format!(
        "webhooks:\n  - {{ url: 'https://hooks.example.com/T0/token?x=1', secret: 'whsec_{key}', on: [quota] }}\n  \
         - {{ name: pager, url: 'http://user:pass%20word@pager:9000', secret: in-plain, proxy: 'http://proxy:3128' }}\n"
    ));
    let [first, second] = &loaded.snapshot.webhooks[..] else { panic!("two webhooks") };
    assert_eq!((&*first.name, first.key.expose(), &first.on[..]), ("0", &[7; 32][..], &[Occasion::Quota][..]));
    assert_eq!(
        (first.to.provider.origin.authority(), first.to.path.as_str()),
        ("hooks.example.com".into(), "/T0/token?x=1")
    );
    assert!(first.to.provider.origin.tls && first.to.provider.headers.is_empty());
    assert_eq!((&*second.name, second.key.expose(), &second.on[..]), ("pager", &b"in-plain"[..], &Occasion::ALL[..]));
    let (name, value) = &second.to.provider.headers[0];
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("authorization", "Basic dXNlcjpwYXNzIHdvcmQ="));
    assert_eq!(second.to.provider.proxy.as_ref().unwrap().origin.authority(), "proxy:3128");
    let shown = format!("{:?}", loaded.snapshot.webhooks);
    for secret in ["token", "in-plain", "pass", &key] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

#[test]
fn webhooks_that_cannot_work_are_told() {
    assert_problems(
        "webhooks:\n\
         \x20 - { name: a, url: 'http://h/x', secret: 'whsec_***', on: [] }\n\
         \x20 - { name: a, url: 'http://H:80/x', secret: b }\n\
         \x20 - { url: 'http://h:80/x', secret: c }\n",
        "gateway.yaml:2:43: webhooks[a].secret: begins with `whsec_`, but what follows is no base64; copy the secret again, whole, or write one without `whsec_`\n\
         gateway.yaml:2:60: webhooks[a].on: names no event; leave it out for all of them, or remove the webhook\n\
         gateway.yaml:3:13: webhooks[a].name: another webhook of this name is written at gateway.yaml:2:13; names must differ\n\
         gateway.yaml:4:12: webhooks[2].url: is the address of `webhooks[a]` too; write one webhook for both, with the events of both in `on`",
    );
}
