//! Budgets and prices, from text to terms.

use std::path::Path;

use base::Usage;
use rules::quota::Per;

use super::{assert_problems, sound, warnings};
use crate::Upstream;

fn with_quota(quota: &str) -> String {
    format!("clients:\n  - {{ name: c, quota: {quota} }}\n")
}

#[test]
fn what_is_written_is_what_holds() {
    let text =
        with_quota("{ tokens: 5000, cost: 12.5, currency: CNY, per: day, timezone: Asia/Shanghai, warn: [0.9, 0.5] }");
    let loaded = sound(&text);
    let terms = loaded.snapshot.clients[0].quota.clone().unwrap();
    assert_eq!((terms.tokens, terms.cost, &*terms.currency), (Some(5000), Some(12_500_000_000), "CNY"));
    assert_eq!((terms.per, &terms.warn[..]), (Per::Day, &[0.5, 0.9][..]));
    assert_eq!(terms.zone.shown(0), "1970-01-01T08:00:00+08:00");
    let loaded = sound(&with_quota("{ tokens: 5 }"));
    let terms = loaded.snapshot.clients[0].quota.clone().unwrap();
    assert_eq!((terms.cost, terms.per, &terms.warn[..]), (None, Per::Month, &[0.8, 0.95][..]));
    assert!(loaded.warnings.is_empty() && loaded.snapshot.not_in_force.is_empty());
}

#[test]
fn a_zone_that_is_none_is_a_problem() {
    assert_problems(
        &with_quota("{ tokens: 5, timezone: Asia/Peking }"),
        "gateway.yaml:2:46: clients[c].quota.timezone: `Asia/Peking` is no time zone; write one such as `Asia/Shanghai` or `UTC`",
    );
}

#[test]
fn the_database_is_a_file_in_the_folder_for_data() {
    let file = |text: &str| sound(text).snapshot.general.database.clone();
    assert_eq!(file("data_dir: /data"), Path::new("/data/gateway.db"));
    assert_eq!(file("data_dir: /data\ndatabase: sqlite://usage/own.db"), Path::new("/data/usage/own.db"));
    assert_eq!(file("data_dir: /data\ndatabase: sqlite:///elsewhere/own.db"), Path::new("/elsewhere/own.db"));
    let loaded = sound("data_dir: /data\ndatabase: postgres://db/usage");
    assert_eq!(loaded.snapshot.general.database, Path::new("/data/gateway.db"));
    assert_eq!(loaded.snapshot.not_in_force, ["database: postgres"]);
    assert!(loaded.warnings[0].to_string().contains("it comes with shared state"), "{:?}", loaded.warnings);
}

#[test]
fn the_database_is_no_other_file_of_the_folder_for_data() {
    let told = |database: &str| {
        let loaded = super::load_text(&format!("data_dir: /data\ndatabase: {database}"), &[]);
        loaded.err().map(|problems| problems.to_string()).unwrap_or_default()
    };
    for own in ["objects.db", "requests.db", "contents.db", "cache.db", "kb-versions.db", "secrets.key"] {
        for written in
            ["sqlite://NAME", "sqlite://./NAME", "sqlite:///data/a/../NAME", "sqlite://NAME-wal", "sqlite://NAME.new"]
        {
            let told = told(&written.replace("NAME", own));
            assert!(
                told.contains(&format!("`{own}` in `data_dir` holds something else")),
                "{written} of {own}: {told}"
            );
        }
    }
    for other in
        ["sqlite://usage/cache.db", "sqlite:///elsewhere/cache.db", "sqlite://mycache.db", "sqlite://cache.dbs"]
    {
        assert_eq!(told(other), "");
    }
}

/// What a call costs at the one upstream of a route, in billionths.
fn cost(provider: &str, upstream: &str, usage: Usage) -> Option<u64> {
    let path = if usage.units > 0 { "/v1/rerank" } else { "/v1/chat/completions" };
    let text = format!(
        "providers: [{{ name: p, {provider} }}]\nroutes: [{{ name: r, match: {{ path: {path} }}, upstreams: [{{ provider: p, {upstream} }}] }}]\n"
    );
    let loaded = sound(&text);
    let upstream: &Upstream = &loaded.snapshot.routes[0].upstreams[0];
    upstream.price.as_ref().and_then(|price| price.of(usage)).map(|cost| cost.nanos)
}

fn million() -> Usage {
    Usage { prompt: 1_000_000, ..Usage::default() }
}

#[test]
fn models_of_known_providers_have_list_prices() {
    let openai = "base_url: https://api.openai.com/v1";
    assert_eq!(cost(openai, "model: gpt-4o-mini", million()), Some(150_000_000));
    let cached = Usage { cached: 1_000_000, ..million() };
    assert_eq!(cost(openai, "model: gpt-4o-mini", cached), Some(75_000_000));
    assert_eq!(cost(openai, "model: gpt-4o-mini-2024-07-18", million()), None, "a dated one may cost something else");
    assert_eq!(cost(openai, "model: deepseek-chat", million()), None, "they do not sell that one");
    let cohere = "protocol: cohere, base_url: https://api.cohere.com";
    let two_units = Usage { units: 2, ..million() };
    assert_eq!(cost(cohere, "model: rerank-v3.5", two_units), Some(4_000_000));
}

#[test]
fn behind_an_unknown_host_a_model_has_the_price_that_all_agree_on_and_an_own_server_none() {
    let own = "base_url: http://proxy:8000/v1";
    assert_eq!(cost(own, "model: gpt-4o-mini", million()), Some(150_000_000));
    assert_eq!(cost(own, "model: qwen2.5-7b-of-ours", million()), None);
    assert_eq!(cost("protocol: ollama, base_url: http://gpu:11434", "model: gpt-4o-mini", million()), None);
}

#[test]
fn an_upstreams_own_prices_go_before_the_list() {
    let openai = "base_url: https://api.openai.com/v1";
    let upstream = |prices: &str| format!("model: gpt-4o-mini, prices: {prices}");
    let written = Usage { completion: 1_000_000, ..million() };
    assert_eq!(cost(openai, &upstream("{ prompt: 1 }"), written), Some(1_600_000_000), "the rest as the list says");
    assert_eq!(cost(openai, &upstream("{ prompt: 0, completion: 0 }"), written), Some(0), "zero is a price");
    assert_eq!(cost(openai, &upstream("{ prompt: 7, currency: CNY }"), written), None, "not of another currency");
    let cached = Usage { cached: 1_000_000, ..million() };
    assert_eq!(cost(openai, &upstream("{ prompt: 1 }"), cached), Some(1_000_000_000));
    assert_eq!(
        cost("base_url: http://a/v1", "model: m, prices: { search_unit: 0.5 }", Usage { units: 1, ..million() }),
        Some(500_000_000)
    );
}

/// Loads a configuration whose `prices` file holds this.
fn with_file(name: &str, list: &str) -> Result<crate::Loaded, crate::ConfigErrors> {
    let folder = std::env::temp_dir().join(format!("mai-prices-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("prices.yaml"), list).unwrap();
    let text = "prices: prices.yaml\nproviders: [{ name: p, base_url: http://a/v1 }, { name: q, base_url: http://b/v1 }]\nroutes:\n  - { name: r, upstreams: [{ provider: p, model: m }, { provider: q, model: m }, { provider: q, model: gpt-4o }] }\n";
    std::fs::write(folder.join("gateway.yaml"), text).unwrap();
    let loaded = crate::load(&crate::Source::Path(folder.join("gateway.yaml")), &|_| None, &super::hasher());
    let _ = std::fs::remove_dir_all(folder);
    loaded
}

#[test]
fn a_file_of_prices_goes_before_the_built_in_list() {
    let list = "
currency: CNY
as_of: 2026-11-01
models:
  - { id: m, input_per_mtok: 2, output_per_mtok: null, mode: chat }
  - { id: m, provider: q, input_per_mtok: 3, currency: USD }
  - { id: gpt-4o, input_per_mtok: 20, price_tiers: [{ input_tokens_over: 100, input_per_mtok: 30 }] }
";
    let loaded = with_file("list", list).unwrap();
    assert_eq!(&*loaded.snapshot.currency, "CNY");
    let costs: Vec<_> = loaded.snapshot.routes[0]
        .upstreams
        .iter()
        .map(|upstream| {
            let cost = upstream.price.as_ref().unwrap().of(million()).unwrap();
            (cost.nanos, cost.currency.to_string())
        })
        .collect();
    let expected = [(2_000_000_000, "CNY"), (3_000_000_000, "USD"), (30_000_000_000, "CNY")];
    assert_eq!(costs, expected.map(|(nanos, currency)| (nanos, currency.to_owned())));
}

#[test]
fn every_mistake_in_a_file_of_prices_has_its_place() {
    let list = "models:\n  - { id: m, input_per_mtk: 2 }\n  - { input_per_mtok: 2 }\n  - { id: n, output_per_mtok: -1 }\n  - text\n";
    let told = with_file("mistakes", list).unwrap_err().to_string();
    for line in [
        "prices.yaml:2:14: models[0].input_per_mtk: is nothing that a price list says; did you mean `input_per_mtok`?",
        "prices.yaml:3:5: models[1].id: is missing; write the model's name",
        "prices.yaml:4:31: models[2].output_per_mtok: is no price; write a number of at least 0, or null where it is not known",
        "prices.yaml:5:5: models[3]: is text, but must be a mapping",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(with_file("not-yaml", "[").is_err());
}

#[test]
fn whoever_bounds_money_is_told_of_upstreams_that_cost_nothing_to_it() {
    let text = "providers: [{ name: p, base_url: http://a/v1 }]
routes:
  - name: r
    upstreams: [{ provider: p, model: ours }, { provider: p, model: dear, prices: { prompt: 1, currency: CNY } }, { provider: p, model: known, prices: { prompt: 1 } }]
clients:
  - { name: c, routes: [r], quota: { cost: 5 } }
  - { name: d, routes: [r], quota: { cost: 5 } }
";
    assert_eq!(
        warnings(text),
        "gateway.yaml:3:11: routes[r].name: `p/ours` has no known price: what it answers does not count against `quota.cost` of client `c`; write `prices` for it\n\
         gateway.yaml:3:11: routes[r].name: `p/dear` is priced in CNY, and not in USD: what it answers does not count against `quota.cost` of client `c`; write `prices` for it"
    );
    assert_eq!(warnings(&text.replace("cost: 5", "tokens: 5")), "");
}
