//! The command line: exit codes, output forms, what beats what.

use std::net::{SocketAddr, TcpListener};

use serde_json::Value;
use testkit::get;

use crate::process::{ADMIN, Dir, Gateway, KEY, Program, chat, program, reload, run, soon, until, upstream, usual};

/// A port that is free now.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn help_teaches_and_wrong_usage_is_2() {
    let help = run(program().arg("--help"));
    assert_eq!(help.code, 0);
    for word in ["serve", "check", "schema", "explain", "mock", "Exit codes"] {
        assert!(help.out.contains(word), "{word}: {}", help.out);
    }
    let serve = run(program().args(["serve", "--help"]));
    assert!(serve.out.contains("MAI_CONFIG") && serve.out.contains("0.0.0.0:8080"), "{}", serve.out);
    for wrong in [&["serve", "--prot", "1"][..], &["sevre"], &["serve", "--workers", "0"], &["explain"]] {
        let ran = run(program().args(wrong));
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
        assert!(ran.out.is_empty() && ran.err.contains("--help"), "{wrong:?}: {}", ran.err);
    }
}

#[test]
fn a_mistake_is_told_in_few_lines_with_what_is_missing_and_where_more_stands() {
    let missing = "error: the following required arguments were not provided:\n";
    for (words, told) in [
        ("keys new", format!("{missing}  --client <NAME>  The client, by name; it may be one of a file\nSee `mai-gateway keys new --help`.\n")),
        ("keys revoke", format!("{missing}  <ID>  The key's id\nSee `mai-gateway keys revoke --help`.\n")),
        ("calibrate x --rout y", "error: unexpected argument '--rout' found\n  tip: a similar argument exists: '--route'\nSee `mai-gateway calibrate --help`.\n".to_owned()),
        ("requests list --limit 0", "error: invalid value '0' for '--limit <N>': 0 is not in 1..=500\nSee `mai-gateway requests list --help`.\n".to_owned()),
        ("drills start a/b --for 1m", format!("{missing}  --latency <TIME> or --status <CODE> or --reset\nSee `mai-gateway drills start --help`.\n")),
        ("calibrate --route r", format!("{missing}  <FILE>  Labelled pairs, one JSON object a line; `-` for standard input\nSee `mai-gateway calibrate --help`.\n")),
        ("sevre", "error: unrecognized subcommand 'sevre'\n  tip: a similar subcommand exists: 'serve'\nSee `mai-gateway --help`.\n".to_owned()),
    ] {
        let mut program = program();
        // What the environment gives is no part of the mistake.
        program.args(words.split(' ')).env("MAI_ADMIN_TOKEN", ADMIN).env("MAI_KEY", KEY);
        let ran = run(&mut program);
        assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (2, told.as_str(), ""), "{words}");
    }
}

#[test]
fn without_a_command_it_shows_its_help() {
    let ran = run(&mut program());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("First steps"), "{}", ran.err);
}

#[test]
fn the_schema_is_json() {
    let ran = run(program().arg("schema"));
    assert_eq!(ran.code, 0);
    let schema: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(schema["properties"]["routes"].is_object());
}

#[test]
fn a_check_names_file_line_and_column_of_every_problem() {
    let dir = Dir::new();
    let sound = dir.write("sound.yaml", usual("http://127.0.0.1:1"));
    let ran = run(program().args(["check", "--config"]).arg(&sound));
    assert_eq!((ran.code, ran.out.as_str()), (0, "sound: 1 provider, 3 routes, 1 client\n"), "{}", ran.err);

    let broken = usual("http://127.0.0.1:1").replace("provider: up, model: m", "provider: pu, modle: m");
    let broken = dir.write("broken.yaml", broken);
    let ran = run(program().args(["check", "--config"]).arg(&broken));
    assert_eq!(ran.code, 1);
    assert!(ran.out.lines().count() >= 2, "{}", ran.out);
    for line in ran.out.lines() {
        let rest = line.strip_prefix(&format!("{}:", broken.display())).expect(line);
        let (place, text) = rest.split_once(": ").expect(line);
        let (number, column) = place.split_once(':').expect(line);
        assert_eq!(number, "9", "{line}");
        assert!(column.parse::<u32>().is_ok() && text.contains("routes[chat]"), "{line}");
    }
    assert!(ran.out.contains("model"), "the nearest name is told: {}", ran.out);
}

#[test]
fn the_configuration_is_found_by_flag_then_environment() {
    let dir = Dir::new();
    let sound = dir.write("sound.yaml", usual("http://127.0.0.1:1"));
    let broken = dir.write("broken.yaml", "routes: 7\n");
    assert_eq!(run(program().arg("check").env("MAI_CONFIG", &sound)).code, 0);
    assert_eq!(run(program().arg("check").env("MAI_CONFIG", &broken)).code, 1);
    assert_eq!(run(program().args(["check", "-c"]).arg(&sound).env("MAI_CONFIG", &broken)).code, 0);
    let nowhere = run(program().arg("check").env("MAI_CONFIG", dir.path("nowhere.yaml")));
    assert!(
        nowhere.code == 1 && nowhere.out.contains("nowhere.yaml: the file is not there; check its path"),
        "{}",
        nowhere.out
    );
    // A variable that is set to nothing counts as not set.
    let unset = run(program().arg("check").env("MAI_CONFIG", ""));
    assert!(unset.code == 1 && unset.err.contains("no configuration"), "{}{}", unset.out, unset.err);
}

#[test]
fn an_empty_or_broken_file_keeps_it_from_starting() {
    let dir = Dir::new();
    for text in ["", "# nothing\n", "---\n", "routes: [", "providers: [{name: a}]\n"] {
        let file = dir.write("gateway.yaml", text);
        for command in ["check", "serve"] {
            let mut program = program();
            program.arg(command).arg("--config").arg(&file).env("MAI_LISTEN", "127.0.0.1:0");
            let ran = run(program.env("MAI_ADMIN_LISTEN", "127.0.0.1:0").env("MAI_DATA_DIR", dir.path("data")));
            assert_eq!(ran.code, 1, "{command} {text:?}: {}{}", ran.out, ran.err);
            assert!(format!("{}{}", ran.out, ran.err).contains("gateway.yaml"), "{}{}", ran.out, ran.err);
        }
    }
}

#[test]
fn explain_tells_a_request_s_way_and_its_refusals() {
    let dir = Dir::new();
    let config = dir.write("gateway.yaml", usual("http://127.0.0.1:1"));
    let explain = |body: &str, more: &[&str]| {
        let request = dir.write("request.json", body);
        let mut program = program();
        program.args(["explain", "--client", "app", "--request"]).arg(request).arg("--config").arg(&config);
        run(program.args(more))
    };
    let body = r#"{"model":"chat","messages":[{"role":"user","content":"Hi"}]}"#;
    let table = explain(body, &[]);
    assert_eq!(table.code, 0, "{}", table.err);
    assert!(table.out.contains("route") && table.out.contains("up/m"), "{}", table.out);
    let story: Value = serde_json::from_str(&explain(body, &["--json"]).out).unwrap();
    assert_eq!(story["route"], "chat");
    assert_eq!(story["upstreams"][0]["upstream"], "up/m");
    assert_eq!(story["upstreams"][0]["price"], Value::Null, "nobody knows what `m` costs");

    for (body, code, status) in [
        (r#"{"model":"nobody","messages":[{"role":"user","content":"Hi"}]}"#, "model_not_found", 404),
        (r#"{"model":"chat","messages":7}"#, "invalid_request", 400),
    ] {
        let refused = explain(body, &["--json"]);
        assert_eq!(refused.code, 0, "a refusal is part of the story: {}", refused.err);
        let story: Value = serde_json::from_str(&refused.out).unwrap();
        assert_eq!(story["refused"]["code"], code, "{story}");
        assert_eq!(story["refused"]["status"], status, "{story}");
        assert!(explain(body, &[]).out.contains(code));
    }
    let broken = explain("{", &["--json", "--path", "/v1/chat/completions"]);
    assert_eq!(serde_json::from_str::<Value>(&broken.out).unwrap()["refused"]["code"], "invalid_json");

    let broken = explain("{", &[]);
    assert!(
        broken.code == 1 && broken.err.contains("not valid JSON") && !broken.err.contains("--path"),
        "{}",
        broken.err
    );
    let silent = explain("{}", &[]);
    assert!(silent.code == 1 && silent.err.contains("--path"), "{}", silent.err);

    let nobody = run(program().args(["explain", "--client", "x", "--request", "-", "--config"]).arg(&config));
    assert!(nobody.code == 1 && !nobody.err.is_empty());
    let missing = run(program().args(["explain", "--client", "app", "--request", "none", "--config"]).arg(&config));
    assert!(missing.code == 1 && missing.err.contains("none"));
    let unknown = explain(body, &["--path", "/v1/nothing"]);
    assert!(unknown.code == 1 && unknown.err.contains("/v1/nothing"));
}

#[tokio::test]
async fn the_mock_prints_its_port_and_stops_cleanly() {
    let mut mock = Program::start(program().args(["mock", "--port", "0"]));
    let mut addr = None;
    until("the mock listens", || {
        let text = mock.err.text();
        addr = text.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<SocketAddr>().ok());
        addr.is_some()
    })
    .await;
    let stream = tokio::net::TcpStream::connect(addr.unwrap()).await.unwrap();
    let answer = soon("an answer", testkit::Caller::on(stream).ask(&testkit::chat("m").user("Hi"))).await;
    assert_eq!(answer.status, 200);
    mock.signal("TERM");
    assert_eq!(mock.exit().await, Some(0));

    let dir = Dir::new();
    let scenario = dir.write("scenario.yaml", "rules: [{ reply: { stauts: 503 } }]\n");
    let ran = run(program().args(["mock", "--port", "0", "--scenario"]).arg(scenario));
    assert!(ran.code == 1 && ran.err.contains("stauts"), "{}", ran.err);

    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().port().to_string();
    let ran = run(program().args(["mock", "--port", &taken]));
    assert!(ran.code == 1 && ran.err.contains("another port with --port"), "{}", ran.err);
}

#[test]
fn a_port_in_use_is_1_and_says_what_to_do() {
    let dir = Dir::new();
    let config = dir.write("gateway.yaml", usual("http://127.0.0.1:1"));
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    for (data, admin, key) in [(taken.as_str(), "127.0.0.1:0", "`listen`"), ("127.0.0.1:0", &taken, "`admin.listen`")] {
        let mut program = program();
        program.arg("serve").arg("--config").arg(&config).args(["--listen", data, "--admin-listen", admin]);
        let ran = run(program.env("MAI_DATA_DIR", dir.path("data")));
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(&taken) && ran.err.contains(key) && ran.err.contains("free"), "{}", ran.err);
    }
    // An address that no machine has.
    let mut elsewhere = program();
    elsewhere.arg("serve").arg("--config").arg(&config).args(["--listen", "192.0.2.1:0"]);
    let ran = run(elsewhere.env("MAI_DATA_DIR", dir.path("data")));
    assert!(ran.code == 1 && ran.err.contains("an address of this machine"), "{}", ran.err);
    for (flag, value) in [("--listen", "8080"), ("--admin-listen", "localhost"), ("--log-level", "loud")] {
        let mut program = program();
        program.arg("serve").arg("--config").arg(&config).args([flag, value]);
        let ran = run(program.env("MAI_DATA_DIR", dir.path("data")));
        assert!(
            ran.code == 1 && ran.err.contains(&format!("environment or flags: {flag} or MAI_")),
            "{flag}: {}",
            ran.err
        );
    }
}

#[tokio::test]
async fn a_flag_beats_the_environment_which_beats_the_file() {
    let up = upstream("").await;
    let dir = Dir::new();
    let (in_file, in_env, in_flag) = (free(), free(), free());
    let admin = free();
    let text = usual(&up.url()).replacen("admin:", &format!("listen: {in_file}\nadmin:\n  listen: {in_file}"), 1);
    let text = text.replacen(&format!("  listen: {in_file}"), &format!("  listen: {admin}"), 1);
    dir.write("gateway.yaml", text);
    let serve = |configure: &dyn Fn(&mut std::process::Command)| {
        let mut program = program();
        program.arg("serve").env("MAI_CONFIG", dir.path("gateway.yaml")).env("MAI_DATA_DIR", dir.path("data"));
        configure(&mut program);
        program
    };
    let by_file = Gateway::start(Dir::new(), &mut serve(&|_| {})).await;
    assert_eq!((by_file.data, by_file.admin), (in_file, admin));
    drop(by_file);

    let by_env = Gateway::start(
        Dir::new(),
        &mut serve(&|program| {
            program
                .env("MAI_LISTEN", in_env.to_string())
                .env("MAI_ADMIN_TOKEN", "adm-of-environment")
                .env("MAI_ADMIN_LISTEN", "");
        }),
    )
    .await;
    assert_eq!((by_env.data, by_env.admin), (in_env, admin));
    assert_eq!(by_env.ask_admin(&reload("adm-of-environment")).await.status, 200);
    assert_eq!(by_env.ask_admin(&reload(ADMIN)).await.status, 200, "the file's tokens stay");
    drop(by_env);

    let by_flag = Gateway::start(
        Dir::new(),
        &mut serve(&|program| {
            program.env("MAI_LISTEN", in_env.to_string()).env("MAI_LOG_LEVEL", "error");
            program.args(["--listen", &in_flag.to_string(), "--log-level", "info"]);
        }),
    )
    .await;
    assert_eq!(by_flag.data, in_flag);
    assert_eq!(by_flag.ask(&chat()).await.status, 200);
    drop(by_flag);

    // By the environment alone the log is silent.
    let quiet = Program::start(&mut serve(&|program| {
        program.env("MAI_LOG_LEVEL", "error");
    }));
    until("it serves", || std::net::TcpStream::connect(in_file).is_ok()).await;
    let stream = tokio::net::TcpStream::connect(in_file).await.unwrap();
    assert_eq!(soon("ready", testkit::Caller::on(stream).ask(&get("/v1/models").key(KEY))).await.status, 200);
    assert_eq!(quiet.err.text(), "");
}

#[tokio::test]
async fn a_gateway_whose_admin_api_nobody_may_use_says_so() {
    let config = usual("http://127.0.0.1:1");
    let without = config.split_once("providers:").map(|(_, rest)| format!("providers:{rest}")).unwrap();
    for (config, says_so) in [(config, false), (without, true)] {
        let gateway = Gateway::serve(&config).await;
        assert_eq!(gateway.process.err.has("nobody may use the admin API"), says_so, "{}", gateway.process.err.text());
    }
}
