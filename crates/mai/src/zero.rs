//! Zero configuration: the gateway serves what it finds, and says once how to call it.

use std::net::SocketAddr;
use std::time::Duration;

use config::{Snapshot, Source};
use mock::{Mock, Scenario};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A provider that is found by its key in the environment.
struct Known {
    variable: &'static str,
    name: &'static str,
    protocol: &'static str,
    base_url: &'static str,
    /// A variable that moves the base URL.
    moved: Option<&'static str>,
    chat: Option<&'static str>,
    embedding: Option<&'static str>,
    rerank: Option<&'static str>,
}

/// The usual variables, in the order in which they are preferred. Base URLs and models are those of
/// the providers' own documentation.
const KNOWN: &[Known] = &[
    Known {
        variable: "OPENAI_API_KEY",
        name: "openai",
        protocol: "openai",
        base_url: "https://api.openai.com/v1",
        moved: Some("OPENAI_BASE_URL"),
        chat: Some("gpt-4o-mini"),
        embedding: Some("text-embedding-3-small"),
        rerank: None,
    },
    Known {
        variable: "DASHSCOPE_API_KEY",
        name: "dashscope",
        protocol: "openai",
        base_url: "https://dashscope.aliyuncs.com/compatible-mode/v1",
        moved: Some("DASHSCOPE_BASE_URL"),
        chat: Some("qwen-plus"),
        embedding: Some("text-embedding-v4"),
        rerank: None,
    },
    Known {
        variable: "DEEPSEEK_API_KEY",
        name: "deepseek",
        protocol: "openai",
        base_url: "https://api.deepseek.com/v1",
        moved: Some("DEEPSEEK_BASE_URL"),
        chat: Some("deepseek-v4-flash"),
        embedding: None,
        rerank: None,
    },
    Known {
        variable: "SILICONFLOW_API_KEY",
        name: "siliconflow",
        protocol: "openai",
        base_url: "https://api.siliconflow.cn/v1",
        moved: Some("SILICONFLOW_BASE_URL"),
        chat: Some("Qwen/Qwen3-8B"),
        embedding: Some("BAAI/bge-m3"),
        rerank: Some("BAAI/bge-reranker-v2-m3"),
    },
    Known {
        variable: "COHERE_API_KEY",
        name: "cohere",
        protocol: "cohere",
        base_url: "https://api.cohere.com",
        moved: None,
        chat: None,
        embedding: Some("embed-v4.0"),
        rerank: Some("rerank-v3.5"),
    },
    Known {
        variable: "JINA_API_KEY",
        name: "jina",
        protocol: "jina",
        base_url: "https://api.jina.ai/v1",
        moved: None,
        chat: None,
        embedding: Some("jina-embeddings-v3"),
        rerank: Some("jina-reranker-v2-base-multilingual"),
    },
    Known {
        variable: "VOYAGE_API_KEY",
        name: "voyage",
        protocol: "voyage",
        base_url: "https://api.voyageai.com/v1",
        moved: None,
        chat: None,
        embedding: Some("voyage-4"),
        rerank: Some("rerank-2.5"),
    },
];

/// What zero configuration came to.
pub struct Found {
    /// The configuration that was made.
    pub source: Source,
    /// What is printed.
    pub banner: Banner,
    /// The built-in mock, where it serves anything.
    pub mock: Option<mock::Running>,
}

/// Routes whose models the banner names at most.
const MOST_MODELS: usize = 20;

/// How to call the gateway, printed once.
pub struct Banner {
    client_key: String,
    admin_token: String,
    found: Vec<String>,
}

/// Looks around and makes a configuration of it. Client key and admin token are made of `random`, which
/// must come from the system: dice can be told from what they threw, such as the ids of requests.
///
/// # Errors
/// A sentence when not even the mock can be started.
pub async fn find(env: &dyn Fn(&str) -> Option<String>, random: [u128; 2]) -> Result<Found, String> {
    let [client_key, admin_token] = random;
    let mut offers = keyed(env);
    if let Some(ollama) = ollama().await {
        offers.push(ollama);
    }
    let lacking: Vec<&str> = [("chat", Role::Chat), ("embedding", Role::Embedding), ("rerank", Role::Rerank)]
        .into_iter()
        .filter(|(_, role)| !offers.iter().any(|offer| offer.model(*role).is_some()))
        .map(|(name, _)| name)
        .collect();
    let mut mock = None;
    if !lacking.is_empty() {
        let running = Mock::start(SocketAddr::from(([127, 0, 0, 1], 0)), Scenario::default())
            .await
            .map_err(|error| format!("the built-in mock cannot listen: {error}"))?;
        let note = if offers.is_empty() {
            "nothing; the built-in mock answers (set OPENAI_API_KEY or start Ollama for real models)".to_owned()
        } else {
            format!("nothing for {}; the built-in mock answers", lacking.join(" and "))
        };
        offers.push(built_in(&running, note));
        mock = Some(running);
    }
    let client_key = format!("mai-{client_key:032x}");
    let admin_token = format!("adm-{admin_token:032x}");
    let text = configuration(&offers, &client_key, &admin_token, env);
    let found = offers.iter().map(|offer| offer.note.clone()).collect();
    Ok(Found {
        source: Source::Text { name: config::BUILT_IN.to_owned(), text: text.to_string() },
        banner: Banner { client_key, admin_token, found },
        mock,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Chat,
    Embedding,
    Rerank,
}

/// A provider that is there, with a model for each role that it can fill.
struct Offer {
    provider: Value,
    name: String,
    models: [Option<String>; 3],
    note: String,
    stand_in: bool,
}

impl Offer {
    fn model(&self, role: Role) -> Option<&str> {
        self.models.get(role as usize).and_then(Option::as_deref)
    }
}

fn keyed(env: &dyn Fn(&str) -> Option<String>) -> Vec<Offer> {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    KNOWN
        .iter()
        .filter(|known| set(known.variable).is_some())
        .map(|known| {
            let base_url = known.moved.and_then(set).unwrap_or_else(|| known.base_url.to_owned());
            Offer {
                provider: json!({
                    "name": known.name,
                    "protocol": known.protocol,
                    "base_url": base_url,
                    "api_key": format!("${{{}}}", known.variable),
                }),
                name: known.name.to_owned(),
                models: [known.chat, known.embedding, known.rerank].map(|model| model.map(str::to_owned)),
                note: format!("{} (key in {})", known.name, known.variable),
                stand_in: false,
            }
        })
        .collect()
}

fn built_in(running: &mock::Running, note: String) -> Offer {
    Offer {
        provider: json!({ "name": "mock", "protocol": "openai", "base_url": format!("{}/v1", running.url()) }),
        name: "mock".to_owned(),
        models: ["mock-chat", "mock-embedding", "mock-rerank"].map(|model| Some(model.to_owned())),
        note,
        stand_in: true,
    }
}

fn configuration(offers: &[Offer], client_key: &str, admin_token: &str, env: &dyn Fn(&str) -> Option<String>) -> Value {
    let route = |name: &str, path: &str, role: Role| {
        let real = offers.iter().any(|offer| !offer.stand_in && offer.model(role).is_some());
        let candidates = offers.iter().filter(|offer| !(real && offer.stand_in));
        let mut upstreams: Vec<Value> = candidates
            .filter_map(|offer| offer.model(role).map(|model| (offer, model)))
            .enumerate()
            .map(|(tier, (offer, model))| json!({ "provider": offer.name, "model": model, "tier": tier }))
            .collect();
        if role == Role::Embedding {
            // Models of different vector spaces must not stand in for each other.
            upstreams.truncate(1);
        }
        json!({ "name": name, "match": { "path": path }, "upstreams": upstreams })
    };
    let mut made = json!({
        "providers": offers.iter().map(|offer| offer.provider.clone()).collect::<Vec<_>>(),
        "routes": [
            route("chat", "/v1/chat/completions", Role::Chat),
            route("embedding", "/v1/embeddings", Role::Embedding),
            route("rerank", "/v1/rerank", Role::Rerank),
        ],
        "clients": [{ "name": "default", "keys": [client_key], "routes": ["*"] }],
        "admin": { "tokens": [{ "name": "zero-configuration", "role": "admin", "token": admin_token }] },
    });
    let unset = env("MAI_DATA_DIR").is_none_or(|dir| dir.is_empty());
    if unset && !usual_data_dir_is_writable() {
        made["data_dir"] = json!("./mai-data");
    }
    made
}

fn usual_data_dir_is_writable() -> bool {
    // Permission bits do not say it for this user: only a file does.
    let folder = std::path::Path::new("/var/lib/mai-gateway");
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    let is_written = std::fs::create_dir_all(folder).is_ok() && std::fs::write(&probe, "").is_ok();
    is_written && std::fs::remove_file(&probe).is_ok()
}

/// An Ollama on its usual port, with the first model of each kind that it has.
async fn ollama() -> Option<Offer> {
    let tags = tokio::time::timeout(Duration::from_millis(500), ollama_tags()).await.ok()??;
    let names: Vec<&str> =
        tags.get("models")?.as_array()?.iter().filter_map(|model| model.get("name")?.as_str()).collect();
    let embeds = |name: &&&str| ["embed", "bge", "e5", "minilm"].iter().any(|word| name.contains(word));
    let embedding = names.iter().find(embeds).map(|name| (*name).to_owned());
    let chat = names.iter().find(|name| !embeds(name)).map(|name| (*name).to_owned());
    if chat.is_none() && embedding.is_none() {
        return None;
    }
    Some(Offer {
        provider: json!({ "name": "ollama", "protocol": "ollama", "base_url": "http://127.0.0.1:11434" }),
        name: "ollama".to_owned(),
        models: [chat, embedding, None],
        note: "Ollama on port 11434".to_owned(),
        stand_in: false,
    })
}

/// Ollama's list of models: `GET /api/tags`. HTTP/1.0 keeps the answer plain.
async fn ollama_tags() -> Option<Value> {
    const MOST: u64 = 1 << 20;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", 11434)).await.ok()?;
    stream.write_all(b"GET /api/tags HTTP/1.0\r\nhost: 127.0.0.1:11434\r\n\r\n").await.ok()?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await.ok()?;
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    serde_json::from_slice(answer.get(body + 4..)?).ok()
}

impl Banner {
    /// The text, with the ports as they were opened, and every model that is served: what the admin API has made is
    /// there from the start.
    #[must_use]
    pub fn text(&self, (data, admin): (SocketAddr, SocketAddr), snapshot: &Snapshot) -> String {
        let port = data.port();
        let mut models: Vec<&str> = Vec::new();
        for route in snapshot.routes.iter().take(MOST_MODELS) {
            // One name may have a route on each endpoint.
            if !models.contains(&route.model.as_str()) {
                models.push(&route.model);
            }
        }
        let models = match snapshot.routes.len().saturating_sub(MOST_MODELS) {
            0 => models.join(", "),
            more => format!("{}, and those of {more} more routes", models.join(", ")),
        };
        let found = self.found.join("\n                ");
        format!(
            r#"
MAI Gateway serves without a configuration.

  found         {found}
  base URL      http://127.0.0.1:{port}/v1
  client key    {key}
  models        {models}
  admin         http://{admin}  (token {token})
  data folder   {folder}

Try it:
  curl -N http://127.0.0.1:{port}/v1/chat/completions -H "Authorization: Bearer {key}" \
       -H "Content-Type: application/json" \
       -d '{{"model":"chat","stream":true,"messages":[{{"role":"user","content":"Hello"}}]}}'

Key and token are made anew at every start; write a configuration to keep them (mai-gateway schema, examples/).
"#,
            key = self.client_key,
            token = self.admin_token,
            folder = snapshot.general.data_dir.display(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{KeyHasher, Object, ObjectKind, Secret};
    use config::{Added, Files, Overrides};

    fn ports() -> (SocketAddr, SocketAddr) {
        (([0, 0, 0, 0], 8080).into(), ([127, 0, 0, 1], 8081).into())
    }

    #[tokio::test]
    async fn what_the_admin_api_has_made_is_told_too_and_the_rest_has_no_place_in_a_file() {
        let found = find(&|_| None, [1, 2]).await.unwrap();
        let files = Files::read(&found.source, Overrides::default(), &|_| None).unwrap();
        let made = |name: String| Object {
            kind: ObjectKind::Route,
            name: name.into(),
            written: Secret::new(r#"{"upstreams": [{"provider": "mock", "model": "m"}]}"#),
            revision: 1,
            changed: Duration::ZERO,
        };
        for (count, told) in [
            (1, "chat, embedding, rerank, made-0\n".to_owned()),
            (99, format!("made-{}, and those of {} more routes\n", MOST_MODELS - 4, 102 - MOST_MODELS)),
        ] {
            let objects: Vec<Object> = (0..count).map(|at| made(format!("made-{at}"))).collect();
            let loaded = files.with(Added { objects: &objects }, &KeyHasher::new(&[0; 64])).unwrap();
            let text = found.banner.text(ports(), &loaded.snapshot);
            assert!(text.contains(&told), "{text}");
            let written = loaded.whole.written();
            let home = &written.object(ObjectKind::Route, "chat").unwrap().home;
            assert_eq!(*home, config::Home::File("the built-in configuration".to_owned()));
        }
    }

    #[tokio::test]
    async fn with_nothing_around_the_mock_serves_everything() {
        let found = find(&|_| None, [1, 2]).await.unwrap();
        let loaded = config::load(&found.source, &|_| None, &KeyHasher::new(&[0; 64])).unwrap();
        assert_eq!(loaded.snapshot.routes.len(), 3);
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let text = found.banner.text(ports(), &loaded.snapshot);
        assert!(text.contains("\n  models        chat, embedding, rerank\n"), "{text}");
        assert!(text.contains("mai-") && text.contains("/v1/chat/completions"));
        assert!(text.contains("found         nothing; the built-in mock answers"), "{text}");
        let folder = loaded.snapshot.general.data_dir.display();
        assert!(text.contains(&format!("\n  data folder   {folder}\n")), "{text}");
    }

    #[tokio::test]
    async fn a_provider_key_is_found_and_the_mock_fills_the_rest() {
        let env = |name: &str| (name == "DEEPSEEK_API_KEY").then(|| "sk-d".to_owned());
        let found = find(&env, [1, 2]).await.unwrap();
        let loaded = config::load(&found.source, &env, &KeyHasher::new(&[0; 64])).unwrap();
        let labels = |at: usize| -> Vec<String> {
            loaded.snapshot.routes[at].upstreams.iter().map(|upstream| upstream.label.to_string()).collect()
        };
        assert_eq!(labels(0), ["deepseek/deepseek-v4-flash"]);
        assert_eq!(labels(2), ["mock/mock-rerank"]);
        let text = found.banner.text(ports(), &loaded.snapshot);
        assert!(text.contains("nothing for embedding and rerank; the built-in mock answers"), "{text}");
    }
}
