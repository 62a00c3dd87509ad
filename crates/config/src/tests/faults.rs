//! Every kind of fault says where it is, what it is about, and what to do.

use super::{assert_problems, problems, warnings};

/// Two providers to hang routes on.
const PROVIDERS: &str = "providers:
  - { name: cloud, base_url: http://a/v1 }
  - { name: cohere, protocol: cohere, base_url: http://c }
";

fn with_providers(rest: &str) -> String {
    format!("{PROVIDERS}{rest}")
}

#[test]
fn an_empty_file_is_no_wish_for_the_defaults() {
    for text in ["", "\n\n", "# nothing yet\n", "\u{feff}"] {
        assert_problems(text, "gateway.yaml: the file is empty; write at least one provider and one route");
    }
    assert_problems("null", "gateway.yaml:1:1: the file holds nothing; write at least one provider and one route");
    assert_problems(
        "[]",
        "gateway.yaml:1:1: the file holds a list, but must be a mapping of keys such as `providers:`",
    );
}

#[test]
fn what_is_not_yaml_says_where_and_what_usually_helps() {
    assert_problems(
        "providers:\n  - name: cloud\n   base_url: x\n",
        "gateway.yaml:3:4: this is not YAML (while parsing a block collection, did not find expected '-' indicator); \
         look at the indentation; text with `: ` or ` #` in it must be in quotes",
    );
    assert_problems(
        "listen: {a: ${X}}\n",
        "gateway.yaml:1:14: this is not YAML (while parsing a flow mapping, did not find expected ',' or '}'); \
         look for a bracket that is not closed; inside `{ }` and `[ ]`, text with `${VAR}` or any of `, : # { } [ ]` \
         must be in quotes",
    );
    assert_problems(
        "a: 1\n---\nb: 2\n",
        "gateway.yaml:2:1: a second document begins here (`---`); put it into a file of its own",
    );
    assert_problems("a: !!int 3\n", "gateway.yaml:1:4: tags (`!…`) are not understood here; leave the tag out");
    assert_problems(
        "name: {{ tpl }}\n",
        "gateway.yaml:1:8: a key must be text, not a list or mapping; text that begins with `{` or `[` must be in quotes",
    );
}

#[test]
fn keys_written_twice_name_both_places() {
    assert_problems(
        "max_body: 1MiB\nproviders:\n  - name: a\n    base_url: http://x\n    name: b\nmax_body: 2MiB\n",
        "gateway.yaml:5:5: providers[a].name: is written twice (first at gateway.yaml:3:5); keep one\n\
         gateway.yaml:6:1: max_body: is written twice (first at gateway.yaml:1:1); keep one",
    );
}

#[test]
fn unknown_keys_are_answered_with_the_nearest_known_one() {
    assert_problems(
        "enviroment: x\nData-Dir: y\nupstreams: []\n",
        "gateway.yaml:1:1: enviroment: unknown key; did you mean `environment`?\n\
         gateway.yaml:2:1: Data-Dir: unknown key; did you mean `data_dir`?\n\
         gateway.yaml:3:1: upstreams: unknown key here; it belongs to `routes[]`",
    );
    assert_problems(
        "tls: { cert: Cargo.toml, frobnicate: 1 }",
        "gateway.yaml:1:6: tls.key: is missing; write the path of a file\n\
         gateway.yaml:1:14: tls.cert: the file holds no PEM certificate (`-----BEGIN CERTIFICATE-----`)\n\
         gateway.yaml:1:26: tls.frobnicate: unknown key; the keys here are `cert`, `key`",
    );
}

#[test]
fn values_of_the_wrong_form_say_what_to_write() {
    assert_problems(
        "environment: 5\nmax_body: 10M\nlog_level: trcae\nlisten: localhost:8080\nshutdown_grace: 30 sec\n\
         providers: 7\nroutes: {}\nclients:\nrecords: { content: 'true', mask: x }\nresolver: { refresh: 0 }\n",
        "gateway.yaml:1:14: environment: `5` is a number to YAML; put it into quotes to make it text\n\
         gateway.yaml:2:11: max_body: `10M` is not a size from 1KiB to 1GiB, such as `10MiB`, or a bare number of bytes\n\
         gateway.yaml:3:12: log_level: `trcae` is none of `error`, `warn`, `info`, `debug`, `trace`; did you mean `trace`?\n\
         gateway.yaml:4:9: listen: `localhost:8080` is not an address to listen on, such as `0.0.0.0:8080`\n\
         gateway.yaml:5:17: shutdown_grace: `30 sec` is not a duration: `250ms`, `3s`, `5m`, `2h`, `7d`, or a bare number \
         of milliseconds\n\
         gateway.yaml:6:12: providers: is a number, but must be a list of mappings\n\
         gateway.yaml:7:9: routes: is a mapping, but must be a list of mappings\n\
         gateway.yaml:8:8: clients: has no value; write a list of mappings, or remove the key\n\
         gateway.yaml:9:21: records.content: stands in quotes, which makes it text; remove them\n\
         gateway.yaml:9:35: records.mask: is text, but must be a list of texts: write it in `[ ]`\n\
         gateway.yaml:10:22: resolver.refresh: `0` is not a duration above zero: `250ms`, `3s`, `5m`, `2h`, `7d`, or a bare number \
         of milliseconds",
    );
}

#[test]
fn a_time_that_is_too_long_is_called_so() {
    assert_problems(
        "shutdown_grace: 36500d\nresolver: { refresh: 4000d }\n",
        "gateway.yaml:1:17: shutdown_grace: `36500d` is too long: write ten years (`3650d`) at most\n\
         gateway.yaml:2:22: resolver.refresh: `4000d` is too long: write ten years (`3650d`) at most",
    );
}

#[test]
fn texts_of_requests_that_are_not_kept_cannot_be_kept() {
    assert_problems(
        "records: { keep: 0s, content: true }\n",
        "gateway.yaml:1:31: records.content: cannot be kept with `records.keep: 0s`, which keeps no request",
    );
}

#[test]
fn numbers_out_of_range_say_the_range() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: r\n    upstreams: [{ provider: cloud, tier: -1, weight: 1.5 }]\n    limit: { qps: 0, burst: '5' }\n",
        ),
        "gateway.yaml:6:42: routes[r].upstreams[0].tier: `-1` is not a whole number from 0 to 1000\n\
         gateway.yaml:6:54: routes[r].upstreams[0].weight: `1.5` is not a whole number from 0 to 1000000\n\
         gateway.yaml:7:19: routes[r].limit.qps: `0` is not a number above 0 and up to 1000000000\n\
         gateway.yaml:7:29: routes[r].limit.burst: stands in quotes, which makes it text; remove them",
    );
}

#[test]
fn what_is_missing_is_named() {
    assert_problems(
        "providers: [{ protocol: openai }]\nroutes: [{ match: { path: /v1/chat/completions } }]\nclients: [{}]\n\
         webhooks: [{ on: [quota] }]\n",
        "gateway.yaml:1:13: providers[0].name: is missing; write a name\n\
         gateway.yaml:1:13: providers[0].base_url: is missing; write an address such as `https://…`\n\
         gateway.yaml:2:10: routes[0].name: is missing; write a name\n\
         gateway.yaml:3:11: clients[0].name: is missing; write a name\n\
         gateway.yaml:4:12: webhooks[0].url: is missing; write an address such as `https://…`\n\
         gateway.yaml:4:12: webhooks[0].secret: is missing; write text, such as `\"${VARIABLE}\"`",
    );
}

#[test]
fn names_must_fit_into_headers_and_paths() {
    let long = "x".repeat(129);
    assert_problems(
        &format!(
            "providers:\n  - {{ name: {long}, base_url: http://a }}\n  - {{ name: ' a', base_url: http://a }}\n  - {{ name: \"a\\nb\", base_url: http://a }}\n  - {{ name: '', base_url: http://a }}\n"
        ),
        &format!(
            "gateway.yaml:2:13: providers[{}…].name: is a name of 129 bytes; 128 is the most\n\
             gateway.yaml:3:13: providers[ a].name: is a name with blanks around it; remove them\n\
             gateway.yaml:4:13: providers[a\\u{{a}}b].name: is a name that holds U+000A, a control character; leave it out\n\
             gateway.yaml:5:13: providers[3].name: is empty; write a name",
            "x".repeat(128)
        ),
    );
}

#[test]
fn names_must_differ() {
    assert_problems(
        "providers: [{ name: a, base_url: http://a }, { name: a, base_url: http://b }]\n\
         clients: [{ name: c }, { name: c }]\n",
        "gateway.yaml:1:54: providers[a].name: another provider of this name is written at gateway.yaml:1:21; names must differ\n\
         gateway.yaml:2:32: clients[c].name: another client of this name is written at gateway.yaml:2:19; names must differ",
    );
}

#[test]
fn unknown_protocols_name_the_known_ones() {
    assert_problems(
        "providers: [{ name: a, protocol: anthropic, base_url: http://a }, { name: b, protocol: open-ai, base_url: http://b }]",
        "gateway.yaml:1:34: providers[a].protocol: `anthropic` is none of `openai`, `azure-openai`, `ollama`, `cohere`, \
         `jina`, `voyage`, `tei`\n\
         gateway.yaml:1:88: providers[b].protocol: `open-ai` is none of `openai`, `azure-openai`, `ollama`, `cohere`, \
         `jina`, `voyage`, `tei`; did you mean `openai`?",
    );
}

#[test]
fn addresses_that_cannot_work_say_why() {
    let expected = [
        ("api.example.com/v1", "has no scheme; write `https://…` or `http://…`"),
        ("ftp://a", "must begin with `https://…` or `http://…`"),
        (
            "http://user:pw@a/v1",
            "holds a user or password; remove it and put the credential into the provider's `api_key`",
        ),
        ("http://a/v1#top", "has a fragment (`#…`), which is never sent; remove it"),
        ("http://a:70000", "has no usable port; write a number from 1 to 65535 behind the `:`"),
    ];
    for (url, text) in expected {
        assert_problems(
            &format!("providers: [{{ name: a, base_url: '{url}' }}]"),
            &format!("gateway.yaml:1:34: providers[a].base_url: {text}"),
        );
    }
}

#[test]
fn routes_name_providers_and_endpoints_that_exist() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: a\n    upstreams: [{ provider: clout }]\n  - name: b\n    match: { path: /v1/chat/completion }\n    upstreams: [{ provider: cloud }]\n  - name: c\n    upstreams: [{ provider: cohere, model: m }]\n  - name: d\n    upstreams: []\n  - name: e\n  - name: f\n    upstream: { url: http://h/v1/x }\n    upstreams: [{ provider: cloud }]\n  - name: g\n    match: { path: [] }\n    upstreams: [{ provider: nobody-at-all }]\n",
        ),
        "gateway.yaml:6:29: routes[a].upstreams[0].provider: `clout` is none of the providers; did you mean `cloud`?\n\
         gateway.yaml:8:20: routes[b].match.path: `/v1/chat/completion` is no endpoint; did you mean `/v1/chat/completions`?\n\
         gateway.yaml:11:17: routes[c].upstreams[0]: provider `cohere` speaks `cohere`, which has no /v1/chat/completions; \
         it has /v1/embeddings, /v1/rerank\n\
         gateway.yaml:13:16: routes[d].upstreams: is an empty list; name at least one upstream\n\
         gateway.yaml:14:5: routes[e].upstreams: is missing; write `upstreams: [{ provider: … }]`, or `upstream: { url: … }`\n\
         gateway.yaml:16:15: routes[f].upstream: is written beside `upstreams`; keep one of the two\n\
         gateway.yaml:19:20: routes[g].match.path: is an empty list; name at least one endpoint\n\
         gateway.yaml:20:29: routes[g].upstreams[0].provider: `nobody-at-all` is none of the providers; add it to `providers`",
    );
}

#[test]
fn two_routes_cannot_take_the_same_calls() {
    assert_problems(
        &with_providers(
            "routes:\n  - { name: a, upstreams: [{ provider: cloud }] }\n  - { name: b, match: { model: a }, upstreams: [{ provider: cloud }] }\n  - { name: a, upstreams: [{ provider: cloud }] }\n",
        ),
        "gateway.yaml:6:32: routes[b].match.model: another route takes model `a` on /v1/chat/completions (gateway.yaml:5:5)\n\
         gateway.yaml:7:5: routes[a].match.model: another route takes model `a` on /v1/chat/completions (gateway.yaml:6:32)\n\
         gateway.yaml:7:13: routes[a].name: another route of this name is written at gateway.yaml:5:13; names must differ",
    );
}

#[test]
fn the_short_form_is_checked_as_a_whole_address() {
    assert_problems(
        &with_providers(
            "routes:\n  - { name: a, upstream: { url: 'http://h:8000' } }\n  - { name: b, upstream: { url: 'http://h//v1/x' } }\n  - { name: cloud, upstream: { url: 'http://h/v1/x' } }\n  - { name: d, match: { path: [/v1/chat/completions, /v1/completions] }, upstream: { url: 'http://h/v1/x', timeout: 3s }, timeout: 5s }\n",
        ),
        "gateway.yaml:5:33: routes[a].upstream.url: has no path; write the endpoint's whole address, such as \
         `http://host:8000/v1/embeddings`\n\
         gateway.yaml:6:33: routes[b].upstream.url: has a doubled slash in its path; write one\n\
         gateway.yaml:7:30: routes[cloud].upstream: makes a provider named after the route, but `cloud` is one already; \
         rename either\n\
         gateway.yaml:8:91: routes[d].upstream.url: is the address of one endpoint, but `match.path` names several; \
         use a provider with a `base_url`\n\
         gateway.yaml:8:117: routes[d].upstream.timeout: is written beside the route's `timeout`; keep one of the two",
    );
}

#[test]
fn splits_and_mirrors_name_upstreams_of_their_route() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: r\n    upstreams: [{ provider: cloud, model: a }, { provider: cloud, model: b }, { provider: cloud, model: c, name: third }]\n    split: [{ when: { percent: 5 }, to: thrid }, { when: {}, to: third }, { when: { client: x, sticky: client }, to: third }]\n    mirror: { to: cloud }\n",
        ),
        "gateway.yaml:7:41: routes[r].split[0].to: `thrid` is none of the route's upstreams; did you mean `third`?\n\
         gateway.yaml:7:58: routes[r].split[1].when: holds no condition; write one of `header`, `client`, `percent`, `quota_used`\n\
         gateway.yaml:7:104: routes[r].split[2].when.sticky: is about `percent`, which is not written\n\
         gateway.yaml:8:19: routes[r].mirror.to: several upstreams of the route are called `cloud`; give them a `name` each",
    );
}

#[test]
fn the_same_upstream_twice_is_a_slip() {
    assert_problems(
        &with_providers(
            "routes: [{ name: r, upstreams: [{ provider: cloud, model: a }, { provider: cloud, model: a }] }]",
        ),
        "gateway.yaml:4:64: routes[r].upstreams[1]: the same provider and model as at gateway.yaml:4:33; remove one, \
         or give them a `name` each",
    );
}

#[test]
fn embedding_routes_keep_to_one_vector_space() {
    let route = |upstreams: &str, rest: &str| {
        with_providers(&format!(
            "routes: [{{ name: e, match: {{ path: /v1/embeddings }}, upstreams: [{upstreams}]{rest} }}]"
        ))
    };
    assert_problems(
        &route("{ provider: cloud, model: bge-m3 }, { provider: cohere, model: embed-v4 }", ""),
        "gateway.yaml:4:65: routes[e].upstreams: have different vector spaces (`bge-m3`, `embed-v4`), and vectors of two \
         spaces cannot be compared: give the same `space` to upstreams of one model, keep one model, or accept the damage \
         with `vector_space: any`",
    );
    for sound in [
        route("{ provider: cloud, model: bge-m3 }, { provider: cohere, model: bge-m3 }", ""),
        route("{ provider: cloud, model: bge-m3 }, { provider: cohere, model: BAAI/bge-m3, space: bge-m3 }", ""),
        route("{ provider: cloud, model: a }, { provider: cohere, model: b }", ", vector_space: any"),
    ] {
        assert_eq!(warnings(&sound), "");
    }
    assert_problems(
        &with_providers(
            "routes: [{ name: r, upstreams: [{ provider: cloud }], dimensions: 8, batch: { max_inputs: 1 } }]",
        ),
        "gateway.yaml:4:67: routes[r].dimensions: means something for /v1/embeddings alone, which `match.path` does not name; \
         remove it\n\
         gateway.yaml:4:77: routes[r].batch: means something for /v1/embeddings alone, which `match.path` does not name; remove it",
    );
}

#[test]
fn a_token_budget_is_refused_where_no_prompt_is_read() {
    assert_problems(
        &with_providers(
            "routes: [{ name: r, match: { path: /v1/rerank }, upstreams: [{ provider: cloud }], context: { budget: 8 } }]",
        ),
        "gateway.yaml:4:93: routes[r].context: bounds prompts of /v1/chat/completions and /v1/completions, which \
         `match.path` does not name; remove it",
    );
    let both = "routes: [{ name: r, match: { path: [/v1/completions, /v1/responses] }, upstreams: [{ provider: cloud }], context: { budget: 8 } }]";
    assert_eq!(warnings(&with_providers(both)), "");
}

#[test]
fn the_semantic_cache_needs_its_routes_and_its_threshold() {
    assert_problems(
        &with_providers(
            "routes:\n  - { name: a, upstreams: [{ provider: cloud }], cache: { mode: semantic } }\n  - { name: b, upstreams: [{ provider: cloud }], cache: { mode: semantic, semantic: { route: a } } }\n  - { name: c, upstreams: [{ provider: cloud }], cache: { mode: semantic, semantic: { route: emb, threshold: 1.5, verify: { route: embedding } } } }\n  - { name: embedding, match: { path: /v1/embeddings }, upstreams: [{ provider: cloud }], cache: { mode: semantic } }\n",
        ),
        "gateway.yaml:5:65: routes[a].cache.mode: needs `semantic: { route: …, threshold: … }` beside it\n\
         gateway.yaml:6:85: routes[b].cache.semantic.threshold: is missing; write a number above 0 and up to 1\n\
         gateway.yaml:6:94: routes[b].cache.semantic.route: `a` is a route without /v1/embeddings\n\
         gateway.yaml:7:94: routes[c].cache.semantic.route: `emb` is none of the routes; add it to `routes`\n\
         gateway.yaml:7:110: routes[c].cache.semantic.threshold: `1.5` is not a number above 0 and up to 1\n\
         gateway.yaml:7:132: routes[c].cache.semantic.verify.route: `embedding` is a route without /v1/rerank or \
         /v1/chat/completions\n\
         gateway.yaml:8:106: routes[embedding].cache.mode: needs `semantic: { route: …, threshold: … }` beside it",
    );
}

#[test]
fn limits_budgets_and_quotas_must_bound_something() {
    assert_problems(
        &with_providers(
            "limit: {}\nroutes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    limit: { burst: 5 }\n    params: { min: { n: 3 }, max: { n: 2 } }\n    context: { retrieval: { tag: a, role: b } }\n    retry: { throttled: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] }\nclients:\n  - { name: c, quota: { per: day, currency: CNY } }\n",
        ),
        "gateway.yaml:4:8: limit: limits nothing; write `qps`, `concurrency` or `tokens_per_minute`, or remove it\n\
         gateway.yaml:8:21: routes[r].limit.burst: is about `qps`, which is not written\n\
         gateway.yaml:9:25: routes[r].params.min.n: is above `params.max.n`\n\
         gateway.yaml:10:27: routes[r].context.retrieval: must hold exactly one of `tag`, `role` and `name`\n\
         gateway.yaml:11:25: routes[r].retry.throttled: holds more than 10 waits; each is one more try of the same call\n\
         gateway.yaml:13:23: clients[c].quota: bounds nothing; write `tokens` or `cost`\n\
         gateway.yaml:13:45: clients[c].quota.currency: is about `cost`, which is not written",
    );
}

#[test]
fn bounds_of_one_field_agree_by_whichever_of_its_names() {
    let told = |min: &str, max: &str| {
        let params = format!("params: {{ min: {{ {min} }}, max: {{ {max} }} }}");
        let text =
            with_providers(&format!("routes:\n  - name: r\n    upstreams: [{{ provider: cloud }}]\n    {params}\n"));
        super::load_text(&text, &[]).err().map(|problems| problems.to_string()).unwrap_or_default()
    };
    for (least, most) in [
        ("max_tokens: 9", "max_tokens: 8"),
        ("max_tokens: 9", "max_completion_tokens: 8"),
        ("max_output_tokens: 9", "max_tokens: 8"),
        ("options.num_predict: 9", "max_tokens: 8"),
        ("options.temperature: 0.9", "temperature: 0.8"),
        ("temperature: 0.9", "options.temperature: 0.8"),
        ("options.num_predict: 9", "options.num_predict: 8"),
    ] {
        let (field, name) = (least.split(':').next().unwrap(), most.split(':').next().unwrap());
        let text = format!("routes[r].params.min.{field}: is above `params.max.{name}`");
        assert!(told(least, most).ends_with(&text), "{least}, {most}: {}", told(least, most));
    }
    assert_eq!(told("top_k: 20", "top_n: 10"), "", "only rerank takes both for the same");
    assert_eq!(told("max_tokens: 8", "max_completion_tokens: 8"), "");
}

#[test]
fn a_count_of_tokens_and_a_quota_of_money_are_more_than_nothing() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    params: { max: { max_tokens: 0, options.num_predict: -1 }, force: { max_completion_tokens: -5 }, default: { options.num_predict: -1 } }\nclients:\n  - { name: c, params: { min: { max_output_tokens: 0.5 } }, quota: { cost: 1e-12 } }\n",
        ),
        "gateway.yaml:7:34: routes[r].params.max.max_tokens: counts tokens of an answer; write 1 or more, or remove it to set no bound\n\
         gateway.yaml:7:58: routes[r].params.max.options.num_predict: counts tokens of an answer; write 1 or more, or remove it to set no bound\n\
         gateway.yaml:7:96: routes[r].params.force.max_completion_tokens: counts tokens of an answer; write 1 or more, or write `null` to leave the field out\n\
         gateway.yaml:9:52: clients[c].params.min.max_output_tokens: counts tokens of an answer; write 1 or more, or remove it to set no bound\n\
         gateway.yaml:9:76: clients[c].quota.cost: is too little to be counted; write 0.000000001 or more, or remove it",
    );
}

#[test]
fn a_parameter_policy_names_fields_and_what_json_can_say() {
    assert_problems(
        &with_providers(
            "routes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    params: { force: { model: x, a..b: 1, messages.0.content: x, max_tokens.x: 1 }, default: { top_p: .inf }, deny: [\"x.\", \"\"], max: { n: many } }\n",
        ),
        "gateway.yaml:7:31: routes[r].params.force.model: is about `model`, which routes and their upstreams decide\n\
         gateway.yaml:7:40: routes[r].params.force.a..b: is no path of a field; write names with a dot between them\n\
         gateway.yaml:7:63: routes[r].params.force.messages.0.content: is about `messages`, which is what callers ask and no parameter; remove it\n\
         gateway.yaml:7:80: routes[r].params.force.max_tokens.x: is a field of `max_tokens`, which is a number; write `max_tokens` alone\n\
         gateway.yaml:7:103: routes[r].params.default.top_p: holds a number that JSON cannot say\n\
         gateway.yaml:7:118: routes[r].params.deny[0]: is no path of a field; write names with a dot between them\n\
         gateway.yaml:7:124: routes[r].params.deny[1]: is empty; write text\n\
         gateway.yaml:7:139: routes[r].params.max.n: `many` is not a number",
    );
}

#[test]
fn a_token_budget_bounds_something_and_counts_by_what_is_there() {
    assert_problems(
        &with_providers(
            "routes:\n  - { name: r, upstreams: [{ provider: cloud, tokenizer: o300k }], context: {} }\n  - { name: s, upstreams: [{ provider: cloud, tokenizer: none/tokenizer.json }], context: { retrieval_share: 0.5 } }\n  - { name: t, upstreams: [{ provider: cloud }], context: { budget: 1, retrieval: { tag: <c> } } }\n  - { name: u, upstreams: [{ provider: cloud }], context: { budget: 1, retrieval: { role: user } } }\n",
        ),
        "gateway.yaml:5:58: routes[r].upstreams[0].tokenizer: `o300k` is no encoding; write `o200k_base`, `cl100k_base` or a file\n\
         gateway.yaml:5:77: routes[r].context: bounds nothing; write `budget`, or remove it\n\
         gateway.yaml:6:58: routes[s].upstreams[0].tokenizer: the file `none/tokenizer.json` is not there; check its path\n\
         gateway.yaml:6:110: routes[s].context.retrieval_share: is a share of `budget`, which is not written\n\
         gateway.yaml:7:90: routes[t].context.retrieval.tag: is no tag's name; write it without brackets\n\
         gateway.yaml:8:91: routes[u].context.retrieval.role: is a role of the conversation itself; mark passages by \
         another role, `tag` or `name`",
    );
}

#[test]
fn headers_of_a_provider_leave_the_gateways_own_alone() {
    assert_problems(
        "providers:\n  - name: a\n    base_url: http://a\n    api_key: k\n    api_keys: [k]\n    headers: { Authorization: x, Host: y, 'a b': z, X-A: '1', x-a: '2', x-b: \"a\\nb\", Connection: close }\n",
        "gateway.yaml:4:14: providers[a].api_key: is written beside `api_keys`; keep one of the two\n\
         gateway.yaml:6:31: providers[a].headers.Authorization: is the header of the key; write the key as `api_key`\n\
         gateway.yaml:6:40: providers[a].headers.Host: is a header that the gateway sets itself; remove it\n\
         gateway.yaml:6:50: providers[a].headers.a b: is not the name of a header\n\
         gateway.yaml:6:68: providers[a].headers.x-a: is written twice (header names do not tell case); keep one\n\
         gateway.yaml:6:78: providers[a].headers.x-b: holds characters that no header can carry (line ends, or letters \
         outside ASCII)\n\
         gateway.yaml:6:98: providers[a].headers.Connection: is a header that the gateway sets itself; remove it",
    );
}

#[test]
fn both_ports_cannot_be_one() {
    assert_problems(
        "listen: 127.0.0.1:8081",
        "gateway.yaml:1:9: listen: 127.0.0.1:8081 is the address of both ports, data and admin; they must differ",
    );
}

#[test]
fn more_problems_than_anyone_reads_are_cut_short() {
    let text: String = (0..10_000).map(|at| format!("k{at}: 1\n")).collect();
    let problems = problems(&text);
    assert_eq!(problems.lines().count(), 201);
    assert!(problems.ends_with("gateway.yaml:200:1: there are more problems; mend these first"), "{problems}");
}

#[test]
fn keys_that_wait_for_a_capability_are_accepted_by_name() {
    assert_eq!(
        warnings(&with_providers(
            "state: { redis: \"redis://r\" }\ndrills: disabled\nlimit: { qps: 5 }\nroutes:\n  - name: r\n    upstreams: [{ provider: cloud, context_window: 3 }]\n    context: { budget: 1 }\n  - { name: e, match: { path: /v1/embeddings }, upstreams: [{ provider: cloud }] }\nclients:\n  - { name: c, routes: [{ name: r, limit: { qps: 1 } }, none-such], priority: batch }\n"
        )),
        "gateway.yaml:4:1: state: accepted, but not in force in this version; it comes with shared state\n\
         gateway.yaml:13:57: clients[c].routes[1]: fits no route of this configuration"
    );
}

#[test]
fn regular_expressions_are_checked_as_far_as_can_be() {
    assert_problems(
        &with_providers(
            "records: { mask: ['(a', '[b', 'c)', 'd\\', '[(]', '(?:e)'] }\nroutes:\n  - name: r\n    upstreams: [{ provider: cloud }]\n    cache: { semantic: { route: r, threshold: 0.9, question: 'Q: (?:.*)' } }\n",
        ),
        "gateway.yaml:4:19: records.mask[0]: is no regular expression: a bracket is not closed, or closes nothing\n\
         gateway.yaml:4:25: records.mask[1]: is no regular expression: a bracket is not closed, or closes nothing\n\
         gateway.yaml:4:31: records.mask[2]: is no regular expression: a bracket is not closed, or closes nothing\n\
         gateway.yaml:4:37: records.mask[3]: is no regular expression: a bracket is not closed, or closes nothing\n\
         gateway.yaml:8:33: routes[r].cache.semantic.route: `r` is a route without /v1/embeddings\n\
         gateway.yaml:8:62: routes[r].cache.semantic.question: is a regular expression with fewer groups than 1; \
         put `( )` around what it is to find",
    );
}
