//! No configuration at all: it serves what it finds, and says once how.

use testkit::{embeddings, get, rerank};

use crate::process::{Dir, Gateway, program, reload, until};

#[tokio::test]
async fn in_an_empty_folder_it_serves_and_says_once_how_to_call_it() {
    let dir = Dir::new();
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]).current_dir(dir.path("."));
    let gateway = Gateway::start(dir, command.env("MAI_CONFIG", "")).await;
    until("the banner", || gateway.process.err.has("Key and token are made anew")).await;
    let said = gateway.process.err.text();
    assert_eq!(said.matches("client key").count(), 1);
    assert!(gateway.process.out.text().is_empty(), "the banner is not on stdout");
    let word = |before: &str| {
        let rest = said.split(before).nth(1).unwrap();
        rest.trim_start().split(|c: char| c.is_whitespace() || c == ')').next().unwrap().to_owned()
    };
    let (key, token) = (word("client key"), word("(token"));
    assert!(said.contains(&format!("http://127.0.0.1:{}/v1/chat/completions", gateway.data.port())), "{said}");

    // The call that the banner shows, to the letter.
    let body = said.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let shown = testkit::chat("chat").body(body.to_owned()).key(&key);
    let answer = gateway.ask(&shown).await;
    assert_eq!(answer.status, 200);
    assert!(answer.events().is_done() && !answer.said().is_empty(), "{}", answer.text());

    assert_eq!(gateway.ask(&embeddings("embedding", "Hi").key(&key)).await.status, 200);
    let ranked = gateway.ask(&rerank("rerank", "tea", ["coffee", "green tea"]).key(&key)).await;
    assert_eq!(ranked.json()["results"][0]["index"], 1, "{}", ranked.text());
    assert_eq!(gateway.ask(&get("/v1/models").key(&key)).await.json()["data"].as_array().unwrap().len(), 3);
    assert_eq!(gateway.ask_admin(&reload(&token)).await.status, 200);
    assert_eq!(gateway.ask(&shown).await.status, 200, "a reload keeps key and upstreams");

    // Nobody can change it, and what can be done is said.
    for path in ["routes/chat", "clients/default/keys/written_1"] {
        let told = gateway.ask_admin(&get(&format!("/admin/v1/{path}")).method("DELETE").key(&token)).await;
        assert_eq!((told.status, told.code().as_deref()), (409, Some("managed_by_file")));
        let said = told.text();
        assert!(said.contains("is part of the built-in configuration, which cannot be changed"), "{said}");
        assert!(said.contains("`--config`; `mai-gateway export`") && !said.contains("there"), "{said}");
    }
}

#[tokio::test]
async fn a_provider_s_usual_variables_are_found_and_their_key_is_not_shown() {
    let up = crate::process::upstream("").await;
    let dir = Dir::new();
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]).current_dir(dir.path("."));
    command.env("OPENAI_API_KEY", "sk-of-environment").env("OPENAI_BASE_URL", format!("{}/v1", up.url()));
    let gateway = Gateway::start(dir, command.env("MAI_ADMIN_TOKEN", "adm-of-environment")).await;
    until("the banner", || gateway.process.err.has("Key and token are made anew")).await;
    let said = gateway.process.err.text();
    assert!(said.contains("OPENAI_API_KEY") && !said.contains("sk-of-environment"), "{said}");
    assert!(!said.contains("adm-of-environment"), "{said}");
    let key = said.split("client key").nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(gateway.ask(&testkit::chat("chat").user("Hi").key(key)).await.status, 200);
    assert_eq!(up.log().calls()[0].request.header("authorization"), Some("Bearer sk-of-environment"));
    assert_eq!(gateway.ask(&rerank("rerank", "a", ["b"]).key(key)).await.status, 200, "the mock fills the rest");
    assert_eq!(gateway.ask_admin(&reload("adm-of-environment")).await.status, 200);
}
