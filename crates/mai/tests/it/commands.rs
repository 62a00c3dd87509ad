//! The commands that speak to an admin port: what they ask, print and end with.

use serde_json::{Value, json};

use crate::desk::{Asked, Desk, Reply, TOKEN, error, ok};
use crate::process::{Dir, program, run};

fn not_found(_: &Asked) -> Reply {
    error(404, "not_found", "there is none of this name")
}

#[test]
fn a_new_key_is_alone_on_standard_output() {
    let desk = Desk::saying(|_| {
        (201, &[], json!({ "id": "key_1", "key": "mai-abc", "note": "search", "expires_at": null }).to_string())
    });
    let made = desk.run(&["keys", "new", "--client", "问答 a", "--note", "search", "--expires", "2999-01-01"]);
    assert_eq!((made.code, made.out.as_str()), (0, "mai-abc\n"), "{}", made.err);
    assert!(made.err.contains("only this once") && made.err.contains("keys revoke key_1"), "{}", made.err);
    assert!(!made.err.contains("mai-abc"), "{}", made.err);
    let asked = &desk.asked()[0];
    assert_eq!(asked.line, "POST /admin/v1/clients/%E9%97%AE%E7%AD%94%20a/keys");
    assert_eq!(asked.json(), json!({ "note": "search", "expires_at": "2999-01-02T00:00:00.000Z" }));
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    let made = desk.run(&["keys", "new", "--client", "a", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&made.out).unwrap()["id"], "key_1");
    assert_eq!(desk.asked()[1].json(), json!({}));
}

#[test]
fn an_end_that_is_none_is_bad_usage_and_asks_nobody() {
    let desk = Desk::saying(|_| ok("{}"));
    for (end, told) in [("soon", "write a day"), ("2001-01-01", "that time is over")] {
        let ran = desk.run(&["keys", "new", "--client", "a", "--expires", end]);
        assert!(ran.code == 2 && ran.err.contains("--expires") && ran.err.contains(told), "{} {}", ran.code, ran.err);
    }
    assert!(desk.asked().is_empty());
}

fn two_clients(asked: &Asked) -> Reply {
    let key = |id: &str| json!({ "data": [{ "id": id, "note": "", "created_at": "2001-01-01T00:00:00.000Z", "expires_at": null, "last_used_at": null, "managed_by": "admin" }] });
    match asked.line.split('?').next().unwrap() {
        "GET /admin/v1/clients" if !asked.line.contains("after") => {
            ok(json!({ "data": [{ "name": "a" }], "next": "x y" }))
        }
        "GET /admin/v1/clients" => ok(json!({ "data": [{ "name": "b" }] })),
        "GET /admin/v1/clients/a/keys" => ok(key("key_a")),
        "GET /admin/v1/clients/b/keys" => ok(key("key_b")),
        "DELETE /admin/v1/clients/b/keys/key_b" => (204, &[], String::new()),
        _ => not_found(asked),
    }
}

#[test]
fn a_key_is_revoked_by_its_id_whosever_it_is() {
    let desk = Desk::saying(two_clients);
    let ran = desk.run(&["keys", "revoke", "key_b"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, "key key_b of client b is good no more\n");
    let lines = desk.lines();
    assert_eq!(lines[1], "GET /admin/v1/clients?limit=500&after=x%20y", "a list is read to its end");
    assert_eq!(lines.last().unwrap(), "DELETE /admin/v1/clients/b/keys/key_b");
    let ran = desk.run(&["keys", "revoke", "key_b", "--client", "b"]);
    assert_eq!((ran.code, desk.lines().len()), (0, lines.len() + 1), "whose it is need not be looked for");
    let ran = desk.run(&["keys", "revoke", "key_c"]);
    assert!(ran.code == 1 && ran.err.contains("keys list"), "{}", ran.err);
}

#[test]
fn all_keys_are_listed_client_by_client() {
    let desk = Desk::saying(two_clients);
    let table = desk.run(&["keys", "list"]).out;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..3], ["client", "id", "note"]);
    assert_eq!(rows[2][..3], ["b", "key_b", "-"], "{table}");
    let told: Value = serde_json::from_str(&desk.run(&["keys", "list", "--json"]).out).unwrap();
    assert_eq!(
        (&told["data"][1]["client"], &told["data"][1]["created_at"]),
        (&json!("b"), &json!("2001-01-01T00:00:00.000Z"))
    );
}

#[test]
fn keys_that_stand_in_clients_are_told_apart_from_issued_ones_and_revoked_by_no_number() {
    let both = |asked: &Asked| -> Reply {
        let key = json!({ "id": "written_1", "note": "", "created_at": null, "managed_by": "file" });
        match asked.line.split('?').next().unwrap() {
            "GET /admin/v1/clients" => ok(json!({ "data": [{ "name": "a" }, { "name": "b" }] })),
            _ => ok(json!({ "data": [key] })),
        }
    };
    let desk = Desk::saying(both);
    let table = desk.run(&["keys", "list"]).out;
    assert!(table.contains("a       written_1  in the client's own `keys`"), "{table}");
    let ran = desk.run(&["keys", "revoke", "written_1"]);
    assert!(ran.code == 1 && ran.err.starts_with("the clients a, b each have a key written_1"), "{}", ran.err);
    assert!(desk.lines().iter().all(|line| !line.starts_with("DELETE")), "{:?}", desk.lines());
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_what_to_do() {
    let desk = Desk::saying(|_| ok("{}"));
    let dir = Dir::new();
    let (there, none) = (dir.write("there", "mine"), dir.path("none/file"));
    let [there, none, folder] = [&there, &none, &dir.path("")].map(|path| path.to_str().unwrap().to_owned());
    let nowhere = format!("{none}: its folder is not there; make it, or name a file elsewhere\n");
    for (words, told) in [
        (vec!["routes", "put", &none], format!("{none}: is not there; check its path\n")),
        (vec!["import", &folder], format!("{folder}: is a folder; name a file in it\n")),
        (vec!["keys", "list", "--token-file", &none], format!("--token-file {none}: is not there; check its path\n")),
        (
            vec!["explain", "-c", &none, "--client", "a", "--request", &none],
            format!("{none}: the file is not there; check its path\n"),
        ),
        (vec!["mock", "--scenario", &none], format!("{none}: is not there; check its path\n")),
        (vec!["calibrate", &none, "--route", "r"], format!("{none}: is not there; check its path\n")),
        (
            vec!["calibrate", "--from-requests", "--write-pairs", &there],
            format!("{there}: is there already, and nothing is written over; name another file, or move it away\n"),
        ),
        (vec!["calibrate", &there, "--route", "r", "--svg", &none], nowhere),
    ] {
        let mut command = program();
        command.args(&words).env("MAI_ADMIN_TOKEN", TOKEN);
        let ran = run(&mut command);
        assert_eq!((ran.code, ran.err), (1, told), "{words:?}");
    }
    assert!(desk.asked().is_empty());
    assert_eq!(std::fs::read_to_string(there).unwrap(), "mine");
}

/// A route `chat` that was made through the admin API.
fn one_route(asked: &Asked) -> Reply {
    let chat = |qps: u32| json!({ "name": "chat", "managed_by": "admin", "revision": 3, "config": { "name": "chat", "limit": { "qps": qps }, "headers": "[secret]" } });
    match asked.line.as_str() {
        "GET /admin/v1/routes/chat" => (200, &["ETag: \"3\""], chat(5).to_string()),
        "PUT /admin/v1/routes/chat?dry_run=true" => {
            let warnings = json!([{ "path": "routes[chat].limit", "message": "is high" }]);
            ok(json!({ "would": "replace", "object": chat(50), "warnings": warnings }))
        }
        "PUT /admin/v1/routes/chat" => ok(chat(50)),
        "PUT /admin/v1/routes/new?dry_run=true" => {
            ok(json!({ "would": "create", "object": { "name": "new", "config": { "name": "new" } }, "warnings": [] }))
        }
        "PUT /admin/v1/routes/new" => (201, &[], json!({ "name": "new" }).to_string()),
        "DELETE /admin/v1/routes/chat" => (204, &[], String::new()),
        _ => not_found(asked),
    }
}

#[test]
fn a_route_is_put_with_a_look_at_what_changes_and_only_if_nobody_else_has_changed_it() {
    let desk = Desk::saying(one_route);
    let dir = Dir::new();
    let file = dir.write("chat.yaml", "name: chat\nlimit: { qps: 50 }\nheaders: ${HEADERS}\n");
    let file = file.to_str().unwrap();
    let put = |more: &[&str]| {
        let mut command = program();
        command.args(["routes", "put", file, "--admin", &desk.url()]).args(more);
        run(command.env("MAI_ADMIN_TOKEN", TOKEN).env("HEADERS", "s3cret"))
    };
    let dry = put(&["--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.err);
    assert!(dry.out.contains("limit:\n-  qps: 5\n+  qps: 50\n"), "{}", dry.out);
    assert!(dry.out.contains("nothing was changed") && !dry.out.contains("s3cret"), "{}", dry.out);
    assert_eq!(dry.err, "note: routes[chat].limit: is high\n");
    assert_eq!(desk.lines().len(), 2, "nothing is written");
    let done = put(&[]);
    assert!(done.code == 0 && done.out.contains("routes/chat replaced"), "{} {}", done.out, done.err);
    let written = desk.asked().pop().unwrap();
    assert_eq!((written.line.as_str(), written.header("if-match")), ("PUT /admin/v1/routes/chat", Some("\"3\"")));
    assert_eq!(written.json(), json!({ "name": "chat", "limit": { "qps": 50 }, "headers": "s3cret" }));
}

#[test]
fn a_route_that_is_put_as_it_was_is_told_to_be_unchanged() {
    let same = |asked: &Asked| -> Reply {
        match asked.line.as_str() {
            "PUT /admin/v1/routes/chat?dry_run=true" => {
                ok(json!({ "would": "nothing", "object": { "config": {} }, "warnings": [] }))
            }
            "PUT /admin/v1/routes/chat" => (200, &["ETag: \"3\""], json!({ "name": "chat" }).to_string()),
            _ => one_route(asked),
        }
    };
    let desk = Desk::saying(same);
    let dir = Dir::new();
    let file = dir.write("chat.yaml", "name: chat\nlimit: { qps: 5 }\n");
    let ran = desk.run(&["routes", "put", file.to_str().unwrap()]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "routes/chat: nothing changes\nroutes/chat unchanged\n"),
        "{}",
        ran.err
    );
    let (ran, _) = edit(&desk, "sed -i '$a # a remark'");
    assert!(ran.out.ends_with("routes/chat unchanged\n"), "{} {}", ran.out, ran.err);
}

/// Runs `routes edit chat` with this editor, and what is left in the folder of temporary files.
fn edit(desk: &Desk, editor: &str) -> (crate::process::Ran, Vec<String>) {
    let dir = Dir::new();
    let folder = dir.path("tmp");
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = program();
    command.args(["routes", "edit", "chat", "--admin", &desk.url()]).env("MAI_ADMIN_TOKEN", TOKEN);
    let ran = run(command.env("EDITOR", editor).env("TMPDIR", &folder).env("PATH", "/usr/bin:/bin"));
    let left = std::fs::read_dir(&folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    (ran, left.collect())
}

#[test]
fn a_route_goes_through_the_editor_and_back() {
    let desk = Desk::saying(one_route);
    let (ran, left) = edit(&desk, "sed -i 's/qps: 5/qps: 50/'");
    assert!(ran.code == 0 && ran.out.contains("-  qps: 5\n+  qps: 50\n"), "{} {}", ran.out, ran.err);
    assert!(ran.out.ends_with("routes/chat replaced\n") && left.is_empty(), "{} {left:?}", ran.out);
    let written = desk.asked().pop().unwrap();
    assert_eq!((written.line.as_str(), written.header("if-match")), ("PUT /admin/v1/routes/chat", Some("\"3\"")));
    assert_eq!(written.json(), json!({ "name": "chat", "limit": { "qps": 50 }, "headers": "[secret]" }));
    let count = desk.lines().len();
    let (ran, left) = edit(&desk, "true");
    assert!(ran.code == 0 && ran.out.contains("nothing was changed") && left.is_empty(), "{} {}", ran.out, ran.err);
    assert_eq!(desk.lines().len(), count + 1, "it is looked at alone");
}

#[test]
fn ctrl_c_in_an_editor_is_the_editors() {
    for signal in ["INT", "QUIT"] {
        let (ran, left) = edit(&Desk::saying(one_route), &format!("kill -{signal} $PPID; sed -i 's/qps: 5/qps: 50/'"));
        assert!(ran.code == 0 && ran.out.ends_with("routes/chat replaced\n"), "{signal}: {} {}", ran.out, ran.err);
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_text_that_cannot_be_put_is_kept_and_its_place_is_told() {
    let refuses = |asked: &Asked| match asked.line.as_str() {
        "PUT /admin/v1/routes/chat?dry_run=true" => error(412, "precondition_failed", "it has been changed since"),
        _ => one_route(asked),
    };
    for (editor, told) in [
        ("sed -i 's/qps: 5/qps: 50/'", "changed since"),
        ("sed -i 's/name: chat/name: other/'", "an edit keeps the name `chat`"),
        ("sed -i 's/qps: 5/qps: [5/'", "not YAML"),
        ("false", "the editor (`false`) ended with"),
    ] {
        let (ran, left) = edit(&Desk::saying(refuses), editor);
        assert!(ran.code == 1 && ran.err.contains(told), "{editor}: {}", ran.err);
        assert!(
            ran.err.contains("your text is kept in ") && ran.err.contains("mai-gateway routes put "),
            "{}",
            ran.err
        );
        assert_eq!(left.len(), 1, "{editor}");
        assert!(left[0].contains("name: "), "{left:?}");
    }
}

#[test]
fn an_editor_that_leaves_no_file_changes_nothing_and_keeps_nobody_waiting() {
    for editor in ["rm", "f() { rm \"$1\"; mkfifo \"$1\"; }; f", "f() { rm \"$1\"; mkdir \"$1\"; }; f"] {
        let desk = Desk::saying(one_route);
        let dir = Dir::new();
        let mut command = program();
        command.args(["routes", "edit", "chat", "--admin", &desk.url()]).env("MAI_ADMIN_TOKEN", TOKEN);
        let ran = run(command.env("EDITOR", editor).env("TMPDIR", dir.path("")).env("PATH", "/usr/bin:/bin"));
        assert!(ran.code == 1 && ran.err.contains("has left no file at "), "{editor}: {}", ran.err);
        assert!(!ran.err.contains("is kept in"), "{}", ran.err);
        assert_eq!(desk.lines().len(), 1, "it is looked at alone");
    }
}

#[test]
fn what_stands_in_a_file_is_opened_in_no_editor() {
    let of_file = |_: &Asked| ok(json!({ "name": "chat", "managed_by": "file", "file": "g.yaml:7:5", "config": {} }));
    let desk = Desk::saying(of_file);
    let (ran, left) = edit(&desk, "false");
    assert!(ran.code == 1 && ran.err.contains("routes/chat is written at g.yaml:7:5; change it there"), "{}", ran.err);
    assert!(left.is_empty());
    let built_in = |_: &Asked| ok(json!({ "name": "chat", "managed_by": "file", "file": config::BUILT_IN }));
    let (ran, _) = edit(&Desk::saying(built_in), "false");
    assert!(ran.code == 1 && ran.err.contains("serve with a configuration of your own (`--config`"), "{}", ran.err);
}

#[test]
fn of_several_routes_all_are_tried_before_the_first_is_written() {
    let desk = Desk::saying(one_route);
    let dir = Dir::new();
    let both = dir.write("both.yaml", "routes:\n- name: new\n- name: chat\n");
    let ran = desk.run(&["routes", "put", both.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("routes/new created\nroutes/chat replaced"), "{}", ran.out);
    let put = desk.asked().into_iter().find(|asked| asked.line == "PUT /admin/v1/routes/new").unwrap();
    assert_eq!(put.header("if-none-match"), Some("*"));
    let bad = dir.write("bad.yaml", "[{ name: lost }, { name: chat }, { name: gone }]");
    let count = desk.lines().len();
    let ran = desk.run(&["routes", "put", bad.to_str().unwrap()]);
    assert!(ran.code == 1 && ran.err.matches("answers 404").count() == 2, "each mistake is told: {}", ran.err);
    assert!(ran.err.ends_with("goes together with `mai-gateway routes import`\n"), "{}", ran.err);
    assert!(desk.lines()[count..].iter().all(|line| !line.starts_with("PUT") || line.ends_with("dry_run=true")));
}

#[test]
fn a_file_that_cannot_be_put_is_told_with_its_place_and_asks_nobody() {
    let desk = Desk::saying(one_route);
    let dir = Dir::new();
    let file = dir.write("chat.yaml", "name: chat\nupstream: { url: \"${NONE}\" }\n");
    let ran = desk.run(&["routes", "put", file.to_str().unwrap()]);
    assert!(
        ran.code == 1 && ran.err.contains("chat.yaml:2:18: upstream.url: the variable NONE is not set"),
        "{}",
        ran.err
    );
    let file = dir.write("all.yaml", "routes: [{ name: a }]\nproviders: [{ name: b }]\n");
    let ran = desk.run(&["routes", "put", file.to_str().unwrap()]);
    assert!(ran.code == 1 && ran.err.contains("mai-gateway import"), "{}", ran.err);
    let ran = desk.run(&["routes", "put", "no-such-file"]);
    assert!(ran.code == 1 && ran.err.contains("no-such-file"), "{}", ran.err);
    assert!(desk.asked().is_empty());
}

#[test]
fn a_refusal_names_the_options_of_the_command_and_not_those_of_the_admin_api() {
    let taken = "there is a route `a` already; `replace=true` replaces it";
    let desk = Desk::saying(move |_| error(409, "already_exists", taken));
    let dir = Dir::new();
    let file = dir.write("all.yaml", "routes: [{ name: a }]\n");
    let ran = desk.run(&["import", file.to_str().unwrap()]);
    assert!(ran.code == 1 && ran.err.contains("already; `--replace` replaces it"), "{}", ran.err);
    let desk = Desk::saying(|_| {
        let told =
            json!({ "error": { "code": "invalid_request", "param": "group_by", "message": "`group_by` has `x`" } });
        (400, &[], told.to_string())
    });
    let ran = desk.run(&["usage", "--by", "x"]);
    assert!(ran.code == 1 && ran.err.ends_with("answers 400: `--by` has `x`\n"), "{}", ran.err);
    for (told, words) in [
        ("there is no client `a`", "there is no client `a`; see `mai-gateway clients list`\n"),
        ("the client `a` has no key `k`", "the client `a` has no key `k`; see `mai-gateway keys list`\n"),
        (
            "no route has an upstream `a/b`; GET /admin/v1/breakers lists those that there are",
            "; `mai-gateway breakers list` shows those that there are\n",
        ),
    ] {
        let ran = Desk::saying(move |_| error(404, "not_found", told)).run(&["keys", "list", "--client", "a"]);
        assert!(ran.code == 1 && ran.err.ends_with(words), "{}", ran.err);
    }
    let desk = Desk::saying(|_| error(401, "invalid_token", "send `Authorization: Bearer TOKEN`"));
    let ran = desk.run(&["routes", "list"]);
    assert!(ran.err.contains("does not know this admin token") && ran.err.contains("--token-file"), "{}", ran.err);
    assert!(!ran.err.contains("Bearer"), "{}", ran.err);
}

#[test]
fn a_time_that_is_none_is_told_with_every_form_before_anybody_is_asked() {
    let desk = Desk::saying(|_| error(500, "internal_error", "nobody is to be asked"));
    for (command, option) in [("requests list", "--since"), ("requests list", "--until"), ("audit", "--since")] {
        let words: Vec<&str> = command.split(' ').chain([option, "yesterday"]).collect();
        let ran = desk.run(&words);
        assert_eq!(ran.code, 2, "{}", ran.err);
        for form in [option, "2h", "2026-11-30", "2026-11-30T12:00:00Z"] {
            assert!(ran.err.contains(form), "{form}: {}", ran.err);
        }
    }
    assert!(desk.asked().is_empty());
}

#[test]
fn a_refusal_names_every_problem_and_ends_with_one() {
    let desk = Desk::saying(|_| {
        let problems = json!([
            { "path": "routes[a].limit.qps", "message": "is 0, but must be more", "place": "admin API: routes/a:1:44" },
            { "path": "routes[b]", "message": "is not there", "place": "gateway.yaml:7:5" },
            "third",
        ]);
        let error = json!({ "message": "this is not sound", "type": "x", "param": null, "code": "invalid_config", "problems": problems });
        (422, &[], json!({ "error": error }).to_string())
    });
    let ran = desk.run(&["routes", "delete", "a"]);
    assert_eq!(ran.code, 1);
    let url = desk.url();
    assert_eq!(
        ran.err,
        format!(
            "{url} answers 422: this is not sound\n  routes[a].limit.qps: is 0, but must be more\n  gateway.yaml:7:5: routes[b]: is not there\n  third\n"
        )
    );
    assert_eq!(ran.out, "");
}

#[test]
fn what_is_wrong_says_what_to_do() {
    for (reply, told) in [
        (error(403, "role_not_allowed", "this token's role may not do that"), "use a token of a higher role"),
        (error(404, "not_found", "no such path here; the model endpoints are /v1/embeddings"), "that is the data port"),
        (error(404, "not_found", "no such path on the admin port"), "older than this program"),
        (error(412, "precondition_failed", "it was changed"), "look again"),
        ((429, &["Retry-After: 7"][..], error(429, "too_many_attempts", "too many").2), "try again in 7 s"),
        (
            (302, &["Location: https://gateway.example/"], String::new()),
            "name the address itself (https://gateway.example/)",
        ),
        ((200, &[], "<html>".to_owned()), "no JSON"),
        ((502, &[], "<html>".to_owned()), "not as a gateway does"),
    ] {
        let desk = Desk::saying(move |_| reply.clone());
        let ran = desk.run(&["drills", "list"]);
        assert!(ran.code == 1 && ran.err.contains(told), "{told}: {}", ran.err);
        assert_eq!(desk.asked().len(), 1, "no redirect is followed");
    }
    for (flag, word, known) in [("--outcome", "upstream_timout", "upstream_timeout"), ("--cache", "hitt", "hit")] {
        let ran = run(program().args(["requests", "list", flag, word, "--token", "t"]));
        assert!(ran.code == 2 && ran.err.contains(&format!("'{known}'")), "{}", ran.err);
    }
    for word in ["6xx", "0xx", "99", "600", "+42", "5XX", "5xxx", "teapot", ""] {
        let ran = run(program().args(["requests", "list", &format!("--status={word}"), "--token", "t"]));
        assert!(ran.code == 2 && ran.err.contains("such as 429, or a class from 1xx to 5xx"), "{word}: {}", ran.err);
    }
    let ran = run(program().args(["audit", "--admin", "gateway:8081", "--token", "t"]));
    assert!(ran.code == 2 && ran.err.contains("http://HOST:PORT"), "{}", ran.err);
    let ran = run(program().args(["audit", "--admin", "http://127.0.0.1:9", "--token", "t"]));
    assert!(ran.code == 1 && ran.err.contains("is it running"), "{}", ran.err);
}

#[test]
fn the_token_comes_from_a_file_and_stands_in_no_help() {
    let desk = Desk::saying(|_| ok(json!({ "data": [] })));
    let dir = Dir::new();
    let file = dir.write("token", "tok-in-file\n");
    let ran = desk.run(&["breakers", "list", "--token-file", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(desk.asked()[0].header("authorization"), Some("Bearer tok-in-file"));
    let empty = dir.write("empty", "\n");
    let ran = desk.run(&["breakers", "list", "--token-file", empty.to_str().unwrap()]);
    assert!(ran.code == 1 && ran.err.contains("empty"), "{}", ran.err);
    let help = desk.run(&["keys", "new", "--help"]);
    assert!(help.out.contains("MAI_ADMIN_TOKEN") && !help.out.contains(TOKEN), "{}", help.out);
    assert!(help.out.contains("KEY=$("), "{}", help.out);
}

#[test]
fn a_purge_without_any_bound_is_said_aloud() {
    let desk = Desk::saying(|asked| {
        ok(if asked.line.contains('?') { json!({ "purged": 1, "dry_run": true }) } else { json!({ "purged": 12 }) })
    });
    let ran = desk.run(&["cache", "purge"]);
    assert!(ran.code == 2 && ran.err.contains("--all"), "{}", ran.err);
    assert!(desk.asked().is_empty());
    assert_eq!(desk.run(&["cache", "purge", "--all"]).out, "12 entries purged\n");
    assert_eq!((desk.lines(), desk.asked()[0].json()), (vec!["POST /admin/v1/cache/purge".to_owned()], json!({})));
    let dry = desk.run(&["cache", "purge", "--route", "chat", "--client", "a", "--kind", "answer", "--dry-run"]);
    assert_eq!(dry.out, "1 entry would be purged; nothing was\n", "{}", dry.err);
    assert_eq!(desk.lines()[1], "POST /admin/v1/cache/purge?dry_run=true");
    assert_eq!(desk.asked()[1].json(), json!({ "route": "chat", "client": "a", "kind": "answer" }));
}

#[test]
fn levers_ask_for_what_was_said() {
    let desk = Desk::saying(|asked| match asked.line.as_str() {
        "POST /admin/v1/drills" => (201, &[], json!({ "id": "d1", "until": "2999-01-01T00:00:00.000Z" }).to_string()),
        _ => ok(json!({ "data": [{ "route": "chat", "held_until": "2999-01-01T00:00:00.000Z" }, { "route": "b" }] })),
    });
    let held = desk.run(&["breakers", "open", "cloud/m:7b", "--for", "30m"]);
    assert_eq!(held.out, "cloud/m:7b takes no calls on chat, b until 2999-01-01T00:00:00.000Z\n", "{}", held.err);
    let closed = desk.run(&["breakers", "close", "cloud/m:7b", "--route", "chat"]);
    assert_eq!(closed.out, "cloud/m:7b takes calls on chat, b\n");
    let started = desk.run(&["drills", "start", "cloud/m", "--latency", "2s", "--percent", "50", "--for", "5m"]);
    assert!(started.out.contains("drills stop d1"), "{} {}", started.out, started.err);
    let stopped = desk.run(&["drills", "stop", "d1"]);
    assert_eq!(stopped.code, 0);
    let asked = desk.asked();
    assert_eq!(asked[0].line, "POST /admin/v1/breakers/cloud%2Fm%3A7b/open");
    assert_eq!(asked[0].json(), json!({ "for": "30m" }));
    assert_eq!(asked[1].json(), json!({ "route": "chat" }));
    assert_eq!(asked[2].json(), json!({ "latency": "2s", "upstream": "cloud/m", "for": "5m", "percent": 50.0 }));
    assert_eq!(asked[3].line, "DELETE /admin/v1/drills/d1");
    for wrong in [
        &["drills", "start", "cloud/m", "--for", "5m"][..],
        &["drills", "start", "cloud/m", "--status", "200", "--for", "5m"],
        &["drills", "start", "cloud/m", "--status", "503", "--percent", "0", "--for", "5m"],
        &["breakers", "open", "cloud/m", "--for", "soon"],
    ] {
        assert_eq!(desk.run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn requests_are_looked_for_and_one_is_told() {
    let desk = Desk::saying(|asked| match asked.line.as_str() {
        "GET /admin/v1/requests/r%2F1" => ok(json!({ "request_id": "r/1", "status": 200, "outcome": "ok", "ms": 3 })),
        "GET /admin/v1/requests/r%2F1/content" => {
            ok(json!({ "prompt": "Hi\u{1b}[2J", "answer": "Ho", "truncated": false }))
        }
        _ => ok(
            json!({ "data": [{ "request_id": "r1", "client": "a", "status": 503, "attempts": [{}, {}] }], "next": "n1" }),
        ),
    });
    let list =
        desk.run(&["requests", "list", "--client", "a", "--cache", "shadow", "--since", "2026-11-30", "--limit", "1"]);
    assert!(list.out.contains("r1") && list.err.contains("--after n1"), "{} {}", list.out, list.err);
    assert_eq!(desk.lines()[0], "GET /admin/v1/requests?client=a&cache=shadow&since=2026-11-30&limit=1");
    let story = desk.run(&["requests", "show", "r/1", "--content"]);
    assert!(story.out.contains("request r/1") && story.out.contains("ended: 200 ok"), "{}", story.out);
    assert!(story.out.contains("answer:\nHo") && !story.out.contains('\u{1b}'), "{}", story.out);
    let json = desk.run(&["requests", "show", "r/1", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["ms"], 3);
    let audit = desk.run(&["audit", "--object", "routes/chat", "--since", "2h"]);
    assert_eq!(audit.code, 0, "{}", audit.err);
    let line = desk.lines().into_iter().find(|line| line.contains("audit")).unwrap();
    assert!(
        line.starts_with("GET /admin/v1/audit?object=routes%2Fchat&since=20") && line.contains("Z&limit=20"),
        "{line}"
    );
}

#[test]
fn an_import_takes_what_it_can_and_names_the_rest() {
    let desk = Desk::saying(|_| {
        ok(json!({ "created": ["routes/a"], "replaced": ["clients/b"], "unchanged": ["clients/c"], "warnings": [] }))
    });
    let dir = Dir::new();
    let file = dir.write("all.yaml", "data_dir: x\nclients: [{ name: b }]\nroutes: [{ name: a }]\n");
    let file = file.to_str().unwrap();
    let ran = desk.run(&["import", file, "--replace"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "routes/a created\nclients/b replaced\nclients/c left unchanged\n"),
        "{}",
        ran.err
    );
    assert_eq!(ran.err, "left out: data_dir\n");
    assert_eq!(desk.asked()[0].line, "POST /admin/v1/import?replace=true");
    assert_eq!(desk.asked()[0].json(), json!({ "routes": [{ "name": "a" }], "clients": [{ "name": "b" }] }));
    let ran = desk.run(&["routes", "import", file, "--dry-run"]);
    assert!(
        ran.out.contains("routes/a would be created") && ran.err.contains("left out: data_dir, clients"),
        "{}",
        ran.err
    );
    assert_eq!(desk.asked()[1].json(), json!({ "routes": [{ "name": "a" }] }));
    let ran = desk.run(&["providers", "import", file]);
    assert!(ran.code == 1 && ran.err.contains("no providers"), "{}", ran.err);
}

#[test]
fn an_export_is_printed_as_it_comes_or_one_kind_of_it() {
    let desk = Desk::saying(|_| ok("providers:\n- name: p\nroutes:\n- name: r\n"));
    assert_eq!(desk.run(&["export", "--key-hashes"]).out, "providers:\n- name: p\nroutes:\n- name: r\n");
    assert_eq!(desk.lines(), ["GET /admin/v1/export?key_hashes=true"]);
    assert_eq!(desk.run(&["routes", "export"]).out, "routes:\n- name: r\n");
}

/// A search of three pages, of which the first was cut before anything was found.
fn cut(asked: &Asked) -> Reply {
    let one = |id: &str| json!({ "request_id": id, "status": 503 });
    ok(match asked.line.rsplit_once("after=").map(|(_, after)| after) {
        None => json!({ "data": [], "next": "p 1" }),
        Some("p%201") => json!({ "data": [one("r3"), one("r2")], "next": "p2" }),
        Some("p2") => json!({ "data": [one("r1")] }),
        Some(other) => panic!("{other}"),
    })
}

#[test]
fn a_search_that_was_cut_is_gone_on_with_to_the_limit_or_the_end() {
    let desk = Desk::saying(cut);
    let list = desk.run(&["requests", "list", "--status", "503", "--limit", "5"]);
    assert_eq!((list.code, list.err.as_str(), list.out.lines().count()), (0, "", 4), "{}", list.out);
    assert_eq!(
        desk.lines(),
        [
            "GET /admin/v1/requests?status=503&limit=5",
            "GET /admin/v1/requests?status=503&limit=5&after=p%201",
            "GET /admin/v1/requests?status=503&limit=3&after=p2"
        ]
    );
    let json = desk.run(&["requests", "list", "--json"]);
    let told: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((told["data"].as_array().unwrap().len(), &told["next"]), (3, &Value::Null), "{told}");
    let limited = desk.run(&["requests", "list", "--limit", "2"]);
    assert!(limited.out.contains("r2") && !limited.out.contains("r1"), "{}", limited.out);
    assert!(limited.err.contains("there are more: --after p2"), "{}", limited.err);
}

#[test]
fn a_search_without_end_stops_and_says_so() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let desk = Desk::saying(move |_| {
        ok(json!({ "data": [], "next": format!("n{}", count.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) }))
    });
    let list = desk.run(&["requests", "list", "--patience", "1s"]);
    assert_eq!((list.code, list.out.as_str()), (0, "no request is like that, as far as was looked\n"), "{}", list.err);
    assert!(list.err.contains("not everything was looked through within 1 s: go on with --after n"), "{}", list.err);
    // A gateway that gives the same page for ever is not asked for ever.
    let desk = Desk::saying(|_| ok(json!({ "data": [], "next": "n" })));
    let list = desk.run(&["requests", "list", "--json"]);
    assert_eq!((list.code, desk.lines().len()), (0, 2), "{}", list.err);
    assert!(list.err.contains("--after n"), "{}", list.err);
    assert_eq!(serde_json::from_str::<Value>(&list.out).unwrap()["next"], "n", "{}", list.out);
}
