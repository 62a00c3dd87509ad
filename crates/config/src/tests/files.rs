//! Files, folders, and what they name.

use std::path::{Path, PathBuf};

use super::hasher;
use crate::{ConfigErrors, Loaded, Overrides, Source, load, load_with, summary};

/// A folder of its own for one test, removed at its end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mai-config-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn load(&self) -> Result<Loaded, ConfigErrors> {
        load(&Source::Path(self.0.clone()), &|_| None, &hasher())
    }

    /// Problems with this folder's own path left out.
    fn problems(&self) -> String {
        let errors = self.load().expect_err("must not be sound").to_string();
        errors.replace(&format!("{}/", self.0.display()), "").replace(&self.0.display().to_string(), "FOLDER")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_folder_is_merged_in_the_order_of_names() {
    let folder = Folder::new("merge");
    folder.write(
        "10-providers.yaml",
        "providers: [{ name: a, base_url: http://a/v1 }]\nrecords: { keep: 1d }\nenvironment: x\n",
    );
    folder.write(
        "20-more.yml",
        "providers: [{ name: b, base_url: http://b/v1 }]\nrecords: { content: true }\nenvironment: x\n",
    );
    folder.write(
        "30-route.json",
        r#"{ "name": "r", "match": { "path": "/v1/embeddings" }, "upstream": { "url": "http://e/v1/embeddings" } }"#,
    );
    folder.write("notes.txt", "not ours");
    folder.write(".hidden.yaml", "not: ours");
    let loaded = folder.load().unwrap();
    assert_eq!(summary(&loaded.snapshot), "sound: 3 providers, 1 route, 0 clients");
    let names: Vec<&str> = loaded.snapshot.providers.iter().map(|provider| &*provider.name).collect();
    assert_eq!(names, ["a", "b", "r"]);
    assert_eq!(loaded.files.len(), 4, "three files and the folder: {:?}", loaded.files);
}

#[test]
fn a_file_of_a_folder_that_cannot_be_reached_is_not_left_out() {
    let folder = Folder::new("unreachable");
    folder.write("a.yaml", "providers: [{ name: p, base_url: http://a }]");
    std::fs::create_dir(folder.path().join("folder.yaml")).unwrap();
    let link = |to: &str| std::os::unix::fs::symlink(to, folder.path().join("b.yaml")).unwrap();
    for (to, why) in [
        ("nowhere", "is a link that leads nowhere; mend it or remove it"),
        ("/dev/null", "cannot be read: it is not a regular file; put one, or a link to one, in its place"),
    ] {
        link(to);
        assert_eq!(folder.problems(), format!("b.yaml: the file {why}"));
        let watched = folder.load().unwrap_err().files;
        assert!(watched.contains(&folder.path().join("b.yaml")), "it is looked for: {watched:?}");
        std::fs::remove_file(folder.path().join("b.yaml")).unwrap();
    }
    assert!(folder.load().is_ok(), "a folder of such a name is none of them");
}

#[test]
fn contradictions_between_files_name_both_places() {
    let folder = Folder::new("contradiction");
    folder.write("a.yaml", "environment: one\nproviders: [{ name: p, base_url: http://a }]\nlimit: 5\n");
    folder.write("b.yaml", "environment: two\nlimit: { qps: 1 }\n");
    assert_eq!(
        folder.problems(),
        "b.yaml:1:14: environment: is also written at a.yaml:1:14, with another value; keep one\n\
         b.yaml:2:8: limit: is also written at a.yaml:3:8, with another value; keep one"
    );
    folder.write("a.yaml", "providers: [{ name: p, base_url: http://a }]\n");
    folder.write("b.yaml", "providers:\n- { name: p, base_url: http://a }\n");
    assert_eq!(
        folder.problems(),
        "b.yaml:2:11: providers[p].name: another provider of this name is written at a.yaml:1:21; names must differ"
    );
}

#[test]
fn every_bad_file_of_a_folder_is_told() {
    let folder = Folder::new("bad");
    folder.write("a.yaml", "");
    folder.write("b.yaml", "x: [\n");
    std::fs::write(folder.path().join("c.yaml"), b"a: 1\nb: \xff\n").unwrap();
    let problems = folder.problems();
    let starts: Vec<&str> = problems.lines().map(|line| line.split(" is ").next().unwrap()).collect();
    assert_eq!(starts, ["a.yaml: the file", "b.yaml:2:1: this", "c.yaml:2: the file"]);
}

#[test]
fn a_folder_of_links_as_kubernetes_mounts_it_is_read_once() {
    let folder = Folder::new("kubernetes");
    folder.write("..2026_11_29/gateway.yaml", "providers: [{ name: a, base_url: http://a }]");
    std::os::unix::fs::symlink("..2026_11_29", folder.path().join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/gateway.yaml", folder.path().join("gateway.yaml")).unwrap();
    assert_eq!(summary(&folder.load().unwrap().snapshot), "sound: 1 provider, 0 routes, 0 clients");
}

#[test]
fn what_cannot_be_read_says_so() {
    let folder = Folder::new("unreadable");
    assert_eq!(folder.problems(), "FOLDER: the folder holds no *.yaml, *.yml or *.json file");
    let missing = folder.path().join("none.yaml");
    let errors = load(&Source::Path(missing.clone()), &|_| None, &hasher()).unwrap_err().to_string();
    assert_eq!(errors, format!("{}: the file is not there; check its path", missing.display()));
    let errors = load(&Source::Path("/dev/zero".into()), &|_| None, &hasher()).unwrap_err().to_string();
    assert_eq!(
        errors,
        "/dev/zero: the file cannot be read: it is not a regular file; put one, or a link to one, in its place"
    );
}

#[test]
fn named_files_are_relative_to_the_file_that_names_them() {
    let folder = Folder::new("named");
    let (cert, key) = certificate();
    folder.write("pem/cert.pem", &cert);
    folder.write("pem/key.pem", &key);
    folder.write("prices.json", r#"{"models": []}"#);
    folder.write(
        "gateway.yaml",
        "tls: { cert: pem/cert.pem, key: pem/key.pem }\nprices: prices.json\nproviders: [{ name: a, base_url: https://a, ca: pem/cert.pem }]\n",
    );
    let loaded = folder.load().unwrap();
    assert!(loaded.snapshot.general.tls.is_some() && loaded.snapshot.providers[0].ca.is_some());
    for file in ["gateway.yaml", "pem/cert.pem", "pem/key.pem", "prices.json"] {
        assert!(loaded.files.contains(&folder.path().join(file)), "{file} is not watched: {:?}", loaded.files);
    }
}

#[test]
fn named_files_that_cannot_serve_are_problems_of_their_keys() {
    let folder = Folder::new("unfit");
    let (cert, _) = certificate();
    folder.write("cert.pem", &cert);
    folder.write(
        "gateway.yaml",
        "tls: { cert: none.pem, key: cert.pem }\nproviders: [{ name: a, base_url: https://a, ca: gateway.yaml }]\n",
    );
    assert_eq!(
        folder.problems(),
        "gateway.yaml:1:14: tls.cert: the file `none.pem` is not there; check its path\n\
         gateway.yaml:1:29: tls.key: the file holds no PEM private key (`-----BEGIN PRIVATE KEY-----`)\n\
         gateway.yaml:2:49: providers[a].ca: the file holds no PEM certificate (`-----BEGIN CERTIFICATE-----`)"
    );
}

#[test]
fn a_flag_beats_the_environment_and_both_beat_the_file() {
    let source =
        Source::Text { name: "x".into(), text: "listen: 127.0.0.1:1\ndata_dir: file\nlog_level: warn\n".into() };
    let env = |name: &str| match name {
        "MAI_LISTEN" => Some("127.0.0.1:2".to_owned()),
        "MAI_DATA_DIR" => Some("env".to_owned()),
        "MAI_LOG_LEVEL" => Some(String::new()),
        "MAI_ADMIN_TOKEN" => Some("adm-of-environment".to_owned()),
        _ => None,
    };
    let flags = Overrides { listen: Some("127.0.0.1:3".into()), ..Overrides::default() };
    let general = load_with(&source, flags, &env, &hasher()).unwrap().snapshot.general;
    assert_eq!(general.listen.port(), 3);
    assert_eq!(general.data_dir, PathBuf::from("env"));
    assert_eq!(general.log_level, "warn");
    assert_eq!(general.admin_listen.to_string(), "127.0.0.1:8081");
    assert_eq!(general.admin_tokens.len(), 1);
    assert!(general.admin_tokens[0].id == hasher().of_key(b"adm-of-environment"));
}

#[test]
fn a_bad_override_names_its_variable() {
    let source = Source::Text { name: "x".into(), text: "environment: a".into() };
    let flags = Overrides { admin_listen: Some("9090".into()), log_level: Some("loud".into()), ..Overrides::default() };
    assert_eq!(
        load_with(&source, flags, &|_| None, &hasher()).unwrap_err().to_string(),
        "environment or flags: --admin-listen or MAI_ADMIN_LISTEN: is not an address to listen on; write one such as `0.0.0.0:8080`\n\
         environment or flags: --log-level or MAI_LOG_LEVEL: must be `error`, `warn`, `info`, `debug` or `trace`"
    );
}
