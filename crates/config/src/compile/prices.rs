//! What models cost: an upstream's own prices, else those of the `prices` file, else the list prices that
//! the gateway was built with.

use std::collections::HashMap;
use std::sync::Arc;

use base::nearest;
use dialect::Protocol;
use rules::prices::{Price, Rate, Tier};

use super::Compiler;
use crate::node::{Map, Node, Scalar, join};
use crate::problem::Problem;
use crate::snapshot::Provider;
use crate::view::View;
use crate::yaml;

/// List prices in the form of a `prices` file.
const BUILT_IN: &str = include_str!("../../data/prices.json");

/// Prices by model and provider.
#[derive(Debug, Default)]
pub(crate) struct Prices {
    /// Those of the file first.
    lists: Vec<List>,
}

impl Prices {
    /// The currency of the list that people wrote, else of the built-in one.
    pub fn currency(&self) -> Arc<str> {
        self.lists.first().map_or_else(|| "USD".into(), |list| list.currency.clone())
    }

    /// What a model costs at a provider, where a list says so.
    fn find(&self, provider: &Provider, model: &str) -> Option<&Price> {
        self.lists.iter().find_map(|list| list.find(provider, model))
    }
}

#[derive(Debug)]
struct List {
    currency: Arc<str>,
    /// By the model's id.
    rows: HashMap<String, Vec<Row>>,
    is_built_in: bool,
}

#[derive(Debug)]
struct Row {
    /// Whose price it is; empty: anybody's.
    provider: String,
    price: Price,
}

impl List {
    /// The row for this very provider (by its configured name, else by its host); else what all rows of
    /// that model agree on, for what stands behind a host that is nobody's known one is not known. A
    /// server that people run themselves has no list price.
    fn find(&self, provider: &Provider, model: &str) -> Option<&Price> {
        if self.is_built_in && matches!(provider.protocol, Protocol::Ollama | Protocol::Tei) {
            return None;
        }
        let host = vendor(&provider.origin.host);
        let of_model = || self.rows.get(model).into_iter().flatten();
        let named = |name: &str| of_model().find(|row| row.provider == name).map(|row| &row.price);
        let own = if self.is_built_in { None } else { named(&provider.name) };
        if let Some(price) = own.or_else(|| named(host?)).or_else(|| named("")) {
            return Some(price);
        }
        if host.is_some() && self.is_built_in {
            return None;
        }
        let first = of_model().next()?;
        of_model().all(|row| row.price == first.price).then_some(&first.price)
    }
}

/// The providers of the list by the end of their hosts' names, as their documentation gives them.
const VENDORS: [(&str, &str); 27] = [
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure_ai"),
    ("models.ai.azure.com", "azure_ai"),
    ("api.anthropic.com", "anthropic"),
    ("amazonaws.com", "bedrock"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("aiplatform.googleapis.com", "vertex_ai"),
    ("api.cohere.com", "cohere"),
    ("api.cohere.ai", "cohere"),
    ("dashscope.aliyuncs.com", "dashscope"),
    ("dashscope-intl.aliyuncs.com", "dashscope"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.jina.ai", "jina_ai"),
    ("api.minimax.io", "minimax"),
    ("api.minimaxi.com", "minimax"),
    ("api.mistral.ai", "mistral"),
    ("api.moonshot.ai", "moonshot"),
    ("api.moonshot.cn", "moonshot"),
    ("api.siliconflow.cn", "siliconflow"),
    ("api.siliconflow.com", "siliconflow"),
    ("api.hunyuan.cloud.tencent.com", "tencent"),
    ("api.together.xyz", "together_ai"),
    ("volces.com", "volcengine"),
    ("api.voyageai.com", "voyage"),
    ("api.x.ai", "xai"),
];
/// Those that have several hosts under one name.
const ZAI: [&str; 2] = ["api.z.ai", "open.bigmodel.cn"];

fn vendor(host: &str) -> Option<&'static str> {
    let is = |end: &str| host.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('.'));
    if ZAI.iter().any(|end| is(end)) {
        return Some("zai");
    }
    VENDORS.iter().find(|(end, _)| is(end)).map(|(_, vendor)| *vendor)
}

/// Reads the lists.
pub(super) fn lists(compiler: &mut Compiler<'_>, view: &View<'_>) -> Prices {
    let mut lists = Vec::new();
    if let Some(bytes) = view.is_written().then(|| compiler.file(view)).flatten() {
        match std::str::from_utf8(&bytes) {
            Ok(text) => lists.extend(list(text, view.text().unwrap_or("prices"), &mut compiler.problems)),
            Err(_) => compiler.report(view, "the file is no text in UTF-8"),
        }
    }
    // A test shows that it has no problems.
    let built_in = list(BUILT_IN, "the built-in prices", &mut Vec::new());
    lists.extend(built_in.map(|list| List { is_built_in: true, ..list }));
    Prices { lists }
}

/// Reads one list; what is wrong with it is added to `problems`.
fn list(text: &str, file: &str, problems: &mut Vec<Problem>) -> Option<List> {
    let root = match yaml::parse(text, &file.into()) {
        Ok(root) => root,
        Err(found) => {
            problems.extend(found);
            return None;
        }
    };
    let (rows, currency) = match (root.list(), root.get("models").and_then(Node::list)) {
        (Some(rows), _) => (rows, None),
        (None, Some(rows)) => (rows, root.get("currency").and_then(Node::scalar)),
        (None, None) => {
            problems.push(Problem::new(
                &root.place,
                "models",
                "is missing; write a list of `{id, input_per_mtok, output_per_mtok}`",
            ));
            return None;
        }
    };
    let currency: Arc<str> = currency.map_or_else(|| "USD".into(), |scalar| scalar.text.as_str().into());
    let mut by_id: HashMap<String, Vec<Row>> = HashMap::new();
    for (at, node) in rows.iter().enumerate() {
        if let Some((id, row)) = row(node, &format!("models[{at}]"), &currency, problems) {
            by_id.entry(id).or_default().push(row);
        }
    }
    Some(List { rows: by_id, currency, is_built_in: false })
}

/// Numbers of a row that are prices, and every other key that a row may have: facts about the model that
/// price lists also hold.
const PRICES: [&str; 5] =
    ["input_per_mtok", "output_per_mtok", "cached_input_per_mtok", "per_search_unit", "per_search_unit_usd"];
const FACTS: [&str; 14] = [
    "id",
    "provider",
    "currency",
    "price_tiers",
    "mode",
    "context_window",
    "max_output_tokens",
    "cache_write_per_mtok",
    "dimensions",
    "dimension_options",
    "retires_on",
    "note",
    "source",
    "uncertain",
];

fn row(node: &Node, path: &str, currency: &Arc<str>, problems: &mut Vec<Problem>) -> Option<(String, Row)> {
    let Some(entries) = node.map() else {
        problems.push(Problem::new(&node.place, path, format!("is {}, but must be a mapping", node.form())));
        return None;
    };
    check_keys(entries, path, problems);
    let text = |name| node.get(name).and_then(Node::scalar).and_then(Scalar::as_text).filter(|text| !text.is_empty());
    let Some(id) = text("id") else {
        problems.push(Problem::new(&node.place, join(path, "id"), "is missing; write the model's name"));
        return None;
    };
    let currency = text("currency").map_or_else(|| currency.clone(), Arc::from);
    let first = tier(node, path, problems);
    let written = node.get("price_tiers").and_then(Node::list).unwrap_or_default();
    let mut tiers: Vec<Tier> = written.iter().map(|node| tier(node, &join(path, "price_tiers"), problems)).collect();
    tiers.sort_by_key(|tier| tier.over);
    if tiers.first().is_none_or(|tier| tier.over > 0) {
        tiers.insert(0, first);
    }
    let unit = ["per_search_unit", "per_search_unit_usd"]
        .iter()
        .find_map(|name| rate(node, name, path, problems, Rate::per_one));
    let provider = text("provider").unwrap_or_default().to_owned();
    Some((id.to_owned(), Row { provider, price: Price { currency, tiers, unit } }))
}

fn check_keys(entries: &Map, path: &str, problems: &mut Vec<Problem>) {
    let known = || PRICES.into_iter().chain(FACTS);
    for (key, entry) in entries {
        if !known().any(|name| name == key) {
            let near = nearest(key, known()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            problems.push(Problem::new(
                &entry.place,
                join(path, key),
                format!("is nothing that a price list says{near}"),
            ));
        }
    }
}

fn tier(node: &Node, path: &str, problems: &mut Vec<Problem>) -> Tier {
    let over = node.get("input_tokens_over").and_then(Node::scalar).and_then(Scalar::as_integer).unwrap_or_default();
    let mut rate = |name| rate(node, name, path, problems, Rate::per_million);
    let (prompt, cached) = (rate("input_per_mtok"), rate("cached_input_per_mtok"));
    Tier { over, prompt, cached, completion: rate("output_per_mtok") }
}

/// A price; null says that it is not known, as leaving it out does.
fn rate(
    node: &Node,
    name: &str,
    path: &str,
    problems: &mut Vec<Problem>,
    read: fn(f64) -> Option<Rate>,
) -> Option<Rate> {
    let node = node.get(name)?;
    if node.form() == "nothing" {
        return None;
    }
    let rate = node.scalar().and_then(Scalar::as_number).and_then(read);
    if rate.is_none() {
        problems.push(Problem::new(
            &node.place,
            join(path, name),
            "is no price; write a number of at least 0, or null where it is not known",
        ));
    }
    rate
}

/// What a model costs at an upstream: as it says itself, else as a list says.
pub(super) fn of_upstream(prices: &Prices, view: Option<&View<'_>>, provider: &Provider, model: &str) -> Option<Price> {
    let listed = prices.find(provider, model);
    let Some(own) = view.map(|view| view.at("prices")).filter(View::is_written) else { return listed.cloned() };
    let currency: Arc<str> = own.at("currency").text_or_preset().into();
    let listed = listed.filter(|listed| listed.currency == currency);
    let rate = |name| own.at(name).number().and_then(Rate::per_million);
    let (prompt, cached, completion) = (rate("prompt"), rate("cached"), rate("completion"));
    let over = |tier: &Tier| Tier {
        over: tier.over,
        prompt: prompt.or(tier.prompt),
        // A prompt's own price says nothing yet of what a list charges for its cached part.
        cached: cached.or(if prompt.is_some() { None } else { tier.cached }),
        completion: completion.or(tier.completion),
    };
    let tiers = listed.map_or_else(|| vec![Tier::default()], |listed| listed.tiers.clone());
    let unit = own.at("search_unit").number().and_then(Rate::per_one);
    let is_by_token = prompt.is_some() || completion.is_some();
    let listed_unit = listed.and_then(|listed| listed.unit).filter(|_| !is_by_token);
    Some(Price { currency, tiers: tiers.iter().map(over).collect(), unit: unit.or(listed_unit) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_sound_and_every_row_has_a_price() {
        let mut problems = Vec::new();
        let list = list(BUILT_IN, "built-in", &mut problems).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        assert!(list.rows.len() > 100);
        for row in list.rows.values().flatten() {
            let is_known = |tier: &Tier| tier.prompt.is_some() || tier.completion.is_some();
            assert!(row.price.unit.is_some() || row.price.tiers.iter().all(is_known), "{row:?}");
            assert!(!row.provider.is_empty());
        }
    }

    #[test]
    fn hosts_tell_whose_price_it_is() {
        assert_eq!(vendor("api.openai.com"), Some("openai"));
        assert_eq!(vendor("my.openai.azure.com"), Some("azure"));
        assert_eq!(vendor("ark.cn-beijing.volces.com"), Some("volcengine"));
        assert_eq!(vendor("api.z.ai"), Some("zai"));
        assert_eq!(vendor("notapi.openai.com.evil.example"), None);
        assert_eq!(vendor("xapi.openai.com"), None);
    }
}
