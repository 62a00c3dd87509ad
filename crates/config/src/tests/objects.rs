//! Objects of the admin API beside files.

use std::time::Duration;

use base::{Object, ObjectKind, Secret};

use super::{files::Folder, hasher};
use crate::{Added, ConfigErrors, Files, Home, Loaded, Overrides, Source, unmask};

/// A provider, a route over it and a client for both.
const FILE: &str = "
providers:
  - { name: cloud, base_url: http://cloud/v1, api_key: sk-cloud-file }
routes:
  - { name: chat, upstreams: [{ provider: cloud, model: m }] }
clients:
  - { name: app, keys: [sk-app], routes: ['*'] }
";

fn files(text: &str) -> Files {
    let source = Source::Text { name: "gateway.yaml".into(), text: text.into() };
    Files::read(&source, Overrides::default(), &|_| None).unwrap()
}

fn object(kind: ObjectKind, name: &str, written: &str) -> Object {
    Object { kind, name: name.into(), written: Secret::new(written), revision: 3, changed: Duration::from_secs(7) }
}

fn with(text: &str, objects: &[Object]) -> Result<Loaded, ConfigErrors> {
    files(text).with(Added { objects }, &hasher())
}

#[track_caller]
fn assert_problems(objects: &[Object], expected: &str) {
    assert_eq!(with(FILE, objects).unwrap_err().to_string(), expected);
}

/// The short form, as it is posted.
const SHORT: &str = r#"{"name": "rag-embedding", "match": {"path": "/v1/embeddings", "model": "rag-embedding"}, "upstream": {"url": "http://embedding-service:8000/v1/embeddings", "timeout": 3000}, "limit": {"qps": 100, "burst": 20}}"#;

#[test]
fn a_posted_short_form_is_a_route_as_it_stands() {
    let loaded = with(FILE, &[object(ObjectKind::Route, "rag-embedding", SHORT)]).unwrap();
    let route = loaded.snapshot.route(base::Endpoint::Embeddings, "rag-embedding").unwrap();
    assert_eq!(route.timeout.attempt, Duration::from_secs(3));
    assert_eq!(&*route.upstreams[0].provider.origin.host, "embedding-service");
    assert!(loaded.snapshot.clients[0].may_use(route));
    let written = loaded.whole.written();
    let shown = written.object(ObjectKind::Route, "rag-embedding").unwrap();
    assert_eq!(shown.shown, serde_json::from_str::<serde_json::Value>(SHORT).unwrap());
    assert_eq!(shown.home, Home::Admin { revision: 3, changed: Duration::from_secs(7) });
    assert_eq!(written.object(ObjectKind::Route, "chat").unwrap().home, Home::File("gateway.yaml:5:5".into()));
}

#[test]
fn an_object_that_has_not_been_changed_since_is_not_read_again() {
    let client = |name: &str, written: &str| object(ObjectKind::Client, name, written);
    let sound = with(FILE, &[client("a", r#"{"limit": {"qps": 1}}"#), client("b", "{}")]).unwrap().sound;
    // Nobody writes this under the same revision: it shows what is read.
    let unread = client("a", "{");
    let again = |objects: &[Object]| sound.with(Added { objects }, &hasher());
    let loaded = again(std::slice::from_ref(&unread)).unwrap();
    let shown = &loaded.whole.written();
    assert_eq!(shown.object(ObjectKind::Client, "a").unwrap().shown["limit"]["qps"], 1);
    assert!(shown.object(ObjectKind::Client, "b").is_none(), "it has gone");
    for read in [
        Object { revision: 4, ..unread.clone() },
        Object { changed: Duration::from_secs(8), ..unread.clone() },
        Object { name: "c".into(), ..unread },
    ] {
        assert!(again(&[read]).is_err());
    }
}

#[test]
fn objects_name_each_other_and_what_stands_in_files() {
    let objects = [
        object(ObjectKind::Route, "more", r#"{"upstreams": [{"provider": "local"}, {"provider": "cloud"}]}"#),
        object(ObjectKind::Client, "team", r#"{"name": "team", "keys": ["sk-team"], "routes": ["more"]}"#),
        object(ObjectKind::Provider, "local", r#"{"name": "local", "base_url": "http://local/v1"}"#),
    ];
    let snapshot = with(FILE, &objects).unwrap().snapshot;
    assert_eq!(snapshot.route(base::Endpoint::Chat, "more").unwrap().upstreams.len(), 2);
    assert_eq!(&*snapshot.client(b"sk-team").unwrap().name, "team");
}

#[test]
fn a_configuration_may_be_made_of_objects_alone() {
    let objects = [
        object(ObjectKind::Route, "more", r#"{"upstreams": [{"provider": "local"}]}"#),
        object(ObjectKind::Provider, "local", r#"{"base_url": "http://local/v1"}"#),
    ];
    let snapshot = with("environment: test", &objects).unwrap().snapshot;
    assert_eq!((snapshot.providers.len(), snapshot.routes.len()), (1, 1));
}

#[test]
fn one_name_in_file_and_admin_api_is_a_problem_that_names_both() {
    assert_problems(
        &[object(ObjectKind::Client, "app", r#"{"name": "app"}"#)],
        "admin API: clients/app:1:10: clients[app].name: another client of this name is written at gateway.yaml:7:13; names must differ",
    );
    assert_problems(
        &[object(ObjectKind::Provider, "cloud", r#"{"base_url": "http://elsewhere/v1"}"#)],
        "admin API: providers/cloud:1:1: providers[cloud].name: another provider of this name is written at gateway.yaml:3:13; names must differ",
    );
}

#[test]
fn every_problem_has_its_place_in_the_objects_own_text() {
    assert_problems(
        &[
            object(ObjectKind::Route, "a", "{\"name\": \"a\",\n  \"upstreams\": [{\"provider\": \"clout\"}], \"tmeout\": 3}"),
            object(ObjectKind::Route, "b", "[1, 2"),
            object(ObjectKind::Route, "c", "[]"),
            object(ObjectKind::Route, "d", r#"{"name": "e", "upstreams": []}"#),
        ],
        "admin API: routes/a:2:30: routes[a].upstreams[0].provider: `clout` is none of the providers; did you mean `cloud`?
admin API: routes/a:2:41: routes[a].tmeout: unknown key; did you mean `timeout`?
admin API: routes/b:2:1: this is not YAML (while parsing a flow sequence, expected ',' or ']'); look for a bracket that is not closed; inside `{ }` and `[ ]`, text with `${VAR}` or any of `, : # { } [ ]` must be in quotes
admin API: routes/c:1:1: routes[c]: is a list, but must be a mapping of a route's keys
admin API: routes/d:1:10: routes[d].name: is not the name of this route, which is `d`",
    );
}

#[test]
fn variables_are_not_read_through_the_api() {
    assert_problems(
        &[object(ObjectKind::Provider, "p", r#"{"base_url": "http://p/v1", "api_keys": ["${HOME}"]}"#)],
        "admin API: providers/p:1:42: providers[p].api_keys[0]: holds a variable (`${…}`), and the gateway's environment is not read through the admin API; write the value itself, or `$${` for a literal `${`",
    );
    let literal = object(ObjectKind::Route, "r", r#"{"upstreams": [{"provider": "cloud", "model": "a$${b"}]}"#);
    let loaded = with(FILE, &[literal]).unwrap();
    let route = loaded.snapshot.route(base::Endpoint::Chat, "r").unwrap();
    assert_eq!(route.upstreams[0].model.as_deref(), Some("a${b"));
    let written = loaded.whole.written();
    assert_eq!(written.object(ObjectKind::Route, "r").unwrap().shown["upstreams"][0]["model"], "a$${b");
}

#[test]
fn a_literal_survives_from_a_file_to_the_gateway() {
    let env = |name: &str| (name == "ODD").then(|| "a${b}$$".to_owned());
    let file = r#"
providers: [{ name: p, base_url: "http://p/v1", headers: { x-a: "${ODD}", x-b: "1${ODD}", x-c: "$${c}$$" } }]
"#;
    let pieces = crate::pieces("team.yaml", file, None, &env).unwrap().pieces;
    let sent = pieces[0].config.to_string();
    // As an import reads it: with no variables at all.
    let import = format!(r#"{{"providers":[{sent}]}}"#);
    let pieces = crate::pieces("import", &import, None, &|_| None).unwrap().pieces;
    let posted = object(ObjectKind::Provider, &pieces[0].name, &pieces[0].config.to_string());
    let kept = Object { written: unmask(&posted, None).unwrap(), ..posted };
    let loaded = with("environment: test", std::slice::from_ref(&kept)).unwrap();
    let provider = &loaded.snapshot.providers[0];
    let headers: Vec<_> = provider.headers.iter().map(|(_, value)| value.to_str().unwrap()).collect();
    assert_eq!(headers, ["a${b}$$", "1a${b}$$", "${c}$$"]);
    // And where it is shown, and put as it was shown.
    let shown = loaded.whole.written().object(ObjectKind::Provider, "p").unwrap().shown.to_string();
    let again = unmask(&Object { written: Secret::new(shown), ..kept.clone() }, Some(&kept)).unwrap();
    let again = with("environment: test", &[Object { written: again, ..kept }]).unwrap();
    assert_eq!(format!("{:?}", again.snapshot.providers), format!("{:?}", loaded.snapshot.providers));
    assert_eq!(again.snapshot.providers[0].headers, provider.headers);
}

#[test]
fn json_of_any_spelling_is_read() {
    let spelled =
        "{\"name\": \"\\u4e2d\\ud83d\\ude00\\/\",\n\t\"upstreams\":[{\"provider\":\"cloud\",\"weight\":1e2}]}";
    let name = "中😀/";
    let problems = with(FILE, &[object(ObjectKind::Route, name, spelled)]).unwrap_err().to_string();
    assert!(problems.contains("`1e2` is not a whole number"), "{problems}");
    let sound = spelled.replace("1e2", "2");
    assert!(with(FILE, &[object(ObjectKind::Route, name, &sound)]).is_ok());
}

#[test]
fn a_sound_state_of_files_outlives_them() {
    let folder = Folder::new("outlives");
    let (pem, _) = super::files::certificate();
    folder.write("ca.pem", &pem);
    folder.write("gateway.yaml", "providers: [{ name: a, base_url: https://a/v1, ca: ca.pem }]");
    let read = Files::read(&Source::Path(folder.path().into()), Overrides::default(), &|_| None).unwrap();
    let sound = read.with(Added::default(), &hasher()).unwrap().sound;
    std::fs::remove_file(folder.path().join("ca.pem")).unwrap();
    folder.write("gateway.yaml", "providers: [");
    let route = object(ObjectKind::Route, "r", r#"{"upstreams": [{"provider": "a"}]}"#);
    let loaded = sound.with(Added { objects: std::slice::from_ref(&route) }, &hasher()).unwrap();
    assert_eq!((loaded.snapshot.routes.len(), loaded.snapshot.providers[0].ca.is_some()), (1, true));
    assert!(loaded.files.contains(&folder.path().join("ca.pem")), "it is watched all the same");
}

#[test]
fn an_object_names_files_by_their_whole_path() {
    assert_problems(
        &[object(ObjectKind::Provider, "p", r#"{"base_url": "https://p/v1", "ca": "ca.pem"}"#)],
        "admin API: providers/p:1:36: providers[p].ca: must begin with `/`: what comes through the admin API stands in no folder",
    );
}

#[test]
fn an_object_that_names_a_file_tells_nothing_of_the_disk() {
    let folder = Folder::new("probe");
    folder.write("no-pem", "text");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let told = |key: &str, path: &str| {
        let provider = format!(r#"{{"base_url": "https://p/v1", "{key}": "{path}"}}"#);
        let tokenizer = format!(r#"{{"upstreams": [{{"provider": "cloud", "{key}": "{path}"}}]}}"#);
        let object = if key == "ca" {
            object(ObjectKind::Provider, "p", &provider)
        } else {
            object(ObjectKind::Route, "r", &tokenizer)
        };
        let problem = with(FILE, &[object]).unwrap_err().problems.remove(0);
        assert!(problem.cause.is_some(), "{problem}");
        problem.text
    };
    for key in ["ca", "tokenizer"] {
        for path in [path("none"), path("no-pem"), folder.path().display().to_string(), "/dev/null".to_owned()] {
            assert_eq!(told(key, &path), "this file cannot be used; the gateway's log says why", "{key}: {path}");
        }
    }
}

const PROVIDER: &str = r#"{"name":"p","base_url":"http://p/v1","api_keys":["sk-one","sk-two"],"headers":{"x-key":"hdr"},"proxy":"http://u:pw@proxy:3128"}"#;

fn unmasked(before: Option<&str>, written: &str) -> Result<String, String> {
    let of = |text: &str| object(ObjectKind::Provider, "p", text);
    unmask(&of(written), before.map(of).as_ref()).map(|secret| secret.expose().to_owned()).map_err(|problems| {
        problems.iter().map(|problem| format!("{}: {}", problem.path, problem.text)).collect::<Vec<_>>().join("\n")
    })
}

#[test]
fn what_is_put_as_it_was_shown_is_what_it_was() {
    let loaded = with(FILE, &[object(ObjectKind::Provider, "p", PROVIDER)]).unwrap();
    let shown = loaded.whole.written().object(ObjectKind::Provider, "p").unwrap().shown.to_string();
    assert!(!shown.contains("sk-") && !shown.contains("pw") && !shown.contains("hdr"), "{shown}");
    assert_eq!(unmasked(Some(PROVIDER), &shown).unwrap(), PROVIDER);
}

#[test]
fn a_mask_stands_for_the_secret_of_its_place() {
    let put = r#"{"name":"p","base_url":"http://p/v2","api_keys":["[secret]","sk-new","sk-more"],"proxy":"http://[secret]@PROXY:3128/"}"#;
    assert_eq!(
        unmasked(Some(PROVIDER), put).unwrap(),
        r#"{"name":"p","base_url":"http://p/v2","api_keys":["sk-one","sk-new","sk-more"],"proxy":"http://u:pw@PROXY:3128/"}"#
    );
    assert_eq!(unmasked(None, PROVIDER).unwrap(), PROVIDER);
}

#[test]
fn a_mask_without_a_secret_is_a_problem() {
    let none = "`[secret]` stands for a secret that stood here before, and none did; write it out";
    for (before, put, path) in [
        (None, r#"{"api_key":"[secret]"}"#, "providers[p].api_key"),
        (Some(PROVIDER), r#"{"api_key":"[secret]"}"#, "providers[p].api_key"),
        (Some(PROVIDER), r#"{"api_keys":["[secret]"]}"#, "providers[p].api_keys[0]"),
        (Some(PROVIDER), r#"{"headers":{"x-other":"[secret]"}}"#, "providers[p].headers.x-other"),
        (Some(PROVIDER), r#"{"base_url":"http://p/v1?[secret]"}"#, "providers[p].base_url"),
    ] {
        assert_eq!(unmasked(before, put), Err(format!("{path}: {none}")), "{put}");
    }
}

const ELSEWHERE: &str = "write the key itself: a key that is kept is not sent to another address";

#[test]
fn a_secret_that_is_kept_is_not_sent_to_another_address() {
    let before = |rest: &str| {
        format!(
            r#"{{"name":"p","base_url":"https://p/v1?key=q","proxy":"http://u:pw@proxy:3128","ca":"/etc/ca.pem",{rest}}}"#
        )
    };
    let ways = [
        ("https://p/", "http://p/"),
        ("https://p/", "https://evil/"),
        ("https://p/", "https://p:8443/"),
        ("@proxy:3128", "@evil:3128"),
        ("@proxy:3128", "@proxy:3129"),
        (r#""proxy":"http://u:pw@proxy:3128","#, ""),
        ("/etc/ca.pem", "/tmp/ca.pem"),
        (r#""ca":"/etc/ca.pem","#, ""),
    ];
    for (secret, path) in [
        (r#""api_key":"sk-one""#, "api_key"),
        (r#""api_keys":["sk-two","sk-one"]"#, "api_keys[1]"),
        (r#""headers":{"x-key":"sk-one"}"#, "headers.x-key"),
        (r#""health":{"path":"/models?sk-one"}"#, "health.path"),
    ] {
        for (way, other) in ways {
            let put = before(&secret.replace("sk-one", "[secret]")).replace(way, other);
            let expected = Err(format!("providers[p].{path}: {ELSEWHERE}"));
            assert_eq!(unmasked(Some(&before(secret)), &put), expected, "{put}");
            let written_out = before(&secret.replace("sk-one", "sk-new")).replace(way, other);
            assert!(unmasked(Some(&before(secret)), &written_out).is_ok(), "{written_out}");
        }
        let put = before(&secret.replace("sk-one", "[secret]")).replace("https://p/v1", "HTTPS://P:443/v2");
        assert!(unmasked(Some(&before(secret)), &put).is_ok(), "it is the same address, whatever is below it");
    }
    let put = before(r#""api_key":"sk-new""#).replace("https://p/v1?key=q", "https://evil/v1?[secret]");
    let refused = unmasked(Some(&before(r#""api_key":"sk-one""#)), &put);
    assert_eq!(refused, Err(format!("providers[p].base_url: {ELSEWHERE}")));
}

#[test]
fn a_proxys_credentials_that_are_kept_stay_with_the_proxy() {
    let put = PROVIDER.replace("u:pw", "[secret]");
    assert!(unmasked(Some(PROVIDER), &put.replace("http://p/", "http://other/")).is_ok(), "it is the same proxy");
    for other in ["evil:3128", "proxy:80"] {
        let put = put.replace("proxy:3128", other).replace("sk-one", "a").replace("sk-two", "b").replace("hdr", "c");
        assert_eq!(unmasked(Some(PROVIDER), &put), Err(format!("providers[p].proxy: {ELSEWHERE}")));
    }
}

#[test]
fn an_endpoints_credentials_that_are_kept_stay_with_its_address() {
    let of = |written: &str| object(ObjectKind::Route, "r", written);
    let before = of(r#"{"upstream":{"url":"https://u/v1?token=t"}}"#);
    let put = |written: &str| unmask(&of(written), Some(&before)).map(|kept| kept.expose().to_owned());
    assert!(put(r#"{"upstream":{"url":"https://u/v2?[secret]"}}"#).unwrap().contains("https://u/v2?token=t"));
    for written in ["http://u/v1?[secret]", "https://evil/v1?[secret]", "https://u:1/v1?[secret]"] {
        let problems = put(&format!(r#"{{"upstream":{{"url":"{written}"}}}}"#)).unwrap_err();
        assert_eq!((&*problems[0].path, &*problems[0].text), ("routes[r].upstream.url", ELSEWHERE));
    }
}
