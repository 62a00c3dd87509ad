//! No problem, warning or debug output ever repeats a secret.

use super::load_text;
use crate::{Source, load};

const SECRETS: [&str; 6] = ["sk-provider", "sk-client", "adm-token", "proxy-pw", "hook-secret", "hdr-secret"];

fn assert_silent(printed: &str) {
    for secret in SECRETS {
        assert!(!printed.contains(secret), "{secret} in:\n{printed}");
    }
}

#[test]
fn problems_do_not_repeat_secrets() {
    for text in [
        "providers: [{ name: a, base_url: http://a, api_key: 'sk-provider\n two' }]",
        "providers: [{ name: a, base_url: http://a, api_key: { sk-provider: 1 } }]",
        "providers: [{ name: a, base_url: http://a, api_keys: sk-provider }]",
        "providers: [{ name: a, base_url: http://a, api_keys: [sk-provider, sk-provider] }]",
        "providers: [{ name: a, base_url: 'http://u:sk-provider@a' }]",
        "providers: [{ name: a, base_url: 'http://u:sk-provider@a b' }]",
        "providers: [{ name: a, base_url: 'ftp://u:sk-provider@a' }]",
        "providers: [{ name: a, base_url: http://a, proxy: 'socks5://u:proxy-pw@p' }]",
        "providers: [{ name: a, base_url: http://a, proxy: 'http://u:proxy-pw@p:99999' }]",
        "providers: [{ name: a, base_url: http://a, headers: { authorization: hdr-secret, x-a: [hdr-secret] } }]",
        "clients: [{ name: a, keys: [sk-client, sk-client, 'sk-client x'] }]",
        "clients: [{ name: a, keys: 'sk-client' }]",
        "admin: { tokens: [{ name: a, token: adm-token-of-both }, { name: b, token: adm-token-of-both }] }",
        "webhooks: [{ url: 'x', secret: [hook-secret] }]",
        "state: { redis: 'http://:proxy-pw@r' }",
        "database: 'mysql://u:proxy-pw@r'",
        "providers:\n  - name: a\n    api_key: sk-provider: oops\n",
        "providers:\n  - name: a\n    api_key: 'sk-provider\n",
        "providers:\n  - name: a\n    api_key: \"\\qsk-provider\"\n",
        "providers:\n  - name: a\n    api_key: *sk-provider\n",
        "providers:\n  - name: a\n    api_key: !sk-provider x\n",
        "api_key: a\napi_key: sk-provider\n",
    ] {
        let errors = load_text(text, &[]).expect_err(text);
        assert_silent(&errors.to_string());
        assert_silent(&format!("{errors:?}"));
    }
}

#[test]
fn a_snapshot_can_be_debugged_without_secrets() {
    let text = "
admin: { tokens: [{ name: a, role: admin, token: adm-token-of-root }] }
providers:
  - { name: a, base_url: http://a, api_key: sk-provider, headers: { x-key: hdr-secret }, proxy: 'http://u:proxy-pw@p:3128' }
  - { name: b, protocol: azure-openai, base_url: 'http://b', api_key: sk-provider }
clients: [{ name: c, keys: [sk-client], routes: ['*'] }]
webhooks: [{ url: 'https://h', secret: hook-secret }]
";
    let loaded = load_text(text, &[]).unwrap();
    assert_silent(&format!("{loaded:?}"));
    let proxy = loaded.snapshot.providers[0].proxy.as_ref().unwrap();
    assert_eq!(proxy.authorization.as_ref().unwrap().to_str().unwrap(), "Basic dTpwcm94eS1wdw==");
}

#[test]
fn a_bad_admin_token_of_the_environment_is_not_repeated() {
    let env = |name: &str| (name == "MAI_ADMIN_TOKEN").then(|| "adm-token with blanks".to_owned());
    let source = Source::Text { name: "x".into(), text: "environment: a".into() };
    let errors = load(&source, &env, &super::hasher()).unwrap_err().to_string();
    assert_eq!(errors, "environment or flags: MAI_ADMIN_TOKEN: holds characters that nobody can send in a header");
}

#[test]
fn keys_tokens_and_credentials_are_secrets_and_hashes_and_words_are_not() {
    let text = r#"
admin:
  tokens:
    - { name: ops, role: operator, token: adm-in-plain-text }
    - { name: hashed, role: viewer, token: "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" }
providers:
  - name: a
    protocol: openai
    base_url: "http://a/v1"
    api_keys: [sk-one, sk-two]
    headers: { x-team: rag, x-token: "a-long-credential" }
    proxy: "http://a:b@proxy:3128"
routes: [{ name: chat, match: { path: /v1/chat/completions }, upstreams: [{ provider: a, model: m }] }]
clients: [{ name: app, keys: [sk-app], routes: ["*"] }]
telemetry: { otlp: "http://c:4318", headers: { authorization: "Bearer c", x-tenant: rag } }
webhooks: [{ url: "https://hooks.example.com/T000/B000/a-token", secret: hook-secret }, { url: "http://u:p@h/in", secret: other }]
"#;
    let snapshot = load_text(text, &[]).unwrap().snapshot;
    let of_the_provider = ["sk-one", "sk-two", "a-long-credential", "Basic YTpi"];
    assert_eq!(snapshot.providers[0].secrets().collect::<Vec<_>>(), of_the_provider);
    let of_the_rest = ["adm-in-plain-text", "Bearer c", "/T000/B000/a-token", "hook-secret", "Basic dTpw", "other"];
    let mut all = [&of_the_provider[..], &of_the_rest[..]].concat();
    all.sort_unstable();
    let mut found: Vec<&str> = snapshot.secrets().collect();
    found.sort_unstable();
    assert_eq!(found, all);
}
