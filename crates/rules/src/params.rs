//! Which parameters of a call a policy lets stand, and what it puts in their place.
//!
//! A route has a policy and a client has one; where both rule a field, the stricter holds: what
//! either denies is denied, the lower ceiling and the higher floor count (a floor never lifts
//! above a ceiling), and of two values that are forced, or two defaults, the lower number is
//! taken, else the route's. For one field `deny` comes first, then `default`, then `max` and
//! `min`, and last `force`, which the other policy's bounds hold within limits too.

use base::Endpoint;

#[cfg(test)]
mod tests;

/// The names under which APIs know the limit of an answer's tokens: OpenAI's chat completions
/// (`max_tokens`, deprecated there but all that many servers know, and `max_completion_tokens`) and
/// its responses (`max_output_tokens`). A rule for one rules all.
pub const ANSWER_LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// The names under which the rerank endpoint takes one field: the contract's own, then that of Voyage (`top_k`,
/// `truncation`), of text-embeddings-inference (`return_text`), of others. There a rule for one rules both. Other endpoints
/// know nothing of this: `top_k` of a chat is how it samples.
pub const RERANK_NAMES: [[&str; 2]; 4] =
    [["top_n", "top_k"], ["return_documents", "return_text"], ["truncate", "truncation"], ["instruction", "instruct"]];

/// Fields of a chat, and the names under which Ollama takes the same (its API reference, `options`), which callers may write
/// themselves. A rule for one rules both.
pub const OLLAMA_NAMES: [[&str; 2]; 9] = [
    ["temperature", "options.temperature"],
    ["top_p", "options.top_p"],
    ["top_k", "options.top_k"],
    ["min_p", "options.min_p"],
    ["seed", "options.seed"],
    ["presence_penalty", "options.presence_penalty"],
    ["frequency_penalty", "options.frequency_penalty"],
    ["repetition_penalty", "options.repeat_penalty"],
    ["stop", "options.stop"],
];

/// The same where Ollama has values of its own for them: they are denied together, and where one is forced the other goes.
pub const OLLAMA_WORDS: [[&str; 2]; 2] = [["reasoning_effort", "think"], ["response_format", "format"]];

/// A value that a policy puts into a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// As JSON text. `null` stands for a field that is left out.
    pub json: Box<str>,
    /// Its value, where it is a number.
    pub number: Option<f64>,
}

impl Setting {
    /// A value by its JSON text.
    #[must_use]
    pub fn new(json: impl Into<Box<str>>) -> Self {
        let json = json.into();
        Self { number: json.parse().ok().filter(|number: &f64| number.is_finite()), json }
    }

    fn is_null(&self) -> bool {
        &*self.json == "null"
    }
}

/// What a policy says about one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Callers may not write it.
    pub deny: bool,
    /// Its value where a caller wrote none.
    pub default: Option<Setting>,
    /// The most it may be. A number.
    pub max: Option<Setting>,
    /// The least it may be. A number.
    pub min: Option<Setting>,
    /// Its value, whatever a caller wrote.
    pub force: Option<Setting>,
}

impl Rule {
    /// Both rules of one owner for one field.
    fn and(&self, other: &Self) -> Self {
        let both = |pick: fn(&Self) -> &Option<Setting>| (pick(self).as_ref(), pick(other).as_ref());
        let low = |pick| {
            let (one, two) = both(pick);
            lower(one, two).cloned()
        };
        let (one, two) = both(|rule| &rule.min);
        Self {
            deny: self.deny || other.deny,
            default: low(|rule| &rule.default),
            max: low(|rule| &rule.max),
            min: higher(one, two).cloned(),
            force: low(|rule| &rule.force),
        }
    }
}

/// One field that a policy rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The names that lead to it from the body's top, through objects.
    pub path: Box<[Box<str>]>,
    /// For the limit of an answer's tokens, which goes by several names: the one in the policy.
    pub limit: Option<&'static str>,
    /// Where it goes by several of [`RERANK_NAMES`], [`OLLAMA_NAMES`] or [`OLLAMA_WORDS`]: all of them, that of `path`
    /// first. Else none.
    pub names: &'static [&'static str],
    /// What holds for it.
    pub rule: Rule,
}

/// What one owner, a route or a client, lets callers ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    fields: Vec<Field>,
    /// The same as the rerank endpoint names them.
    of_rerank: Vec<Field>,
}

impl Policy {
    /// Nothing is ruled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields that are ruled: each path once, the limit of an answer's tokens once whatever
    /// its names.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Adds what is ruled of the field at a dotted path. What the path has already stays unless the
    /// new rule is stricter.
    pub fn add(&mut self, path: &str, rule: Rule) {
        let first = path.split('.').next().unwrap_or_default();
        match RERANK_NAMES.iter().find(|names| names.contains(&first)) {
            Some(names @ [own, _]) if first == path => add(&mut self.of_rerank, own, names, rule.clone()),
            // It has no fields of its own there.
            Some(_) => {}
            None => add(&mut self.of_rerank, path, &[], rule.clone()),
        }
        let of_ollama = OLLAMA_NAMES.iter().chain(&OLLAMA_WORDS).find(|[own, _]| *own == path);
        add(&mut self.fields, path, of_ollama.map_or(&[], <[_; 2]>::as_slice), rule);
    }

    fn on(&self, endpoint: Endpoint) -> &[Field] {
        if endpoint == Endpoint::Rerank { &self.of_rerank } else { &self.fields }
    }
}

fn add(fields: &mut Vec<Field>, path: &str, names: &'static [&'static str], rule: Rule) {
    let limit = ANSWER_LIMITS.into_iter().find(|name| *name == path);
    let known = match limit {
        Some(_) => fields.iter_mut().find(|field| field.limit.is_some()),
        None => fields.iter_mut().find(|field| field.path.iter().map(|name| &**name).eq(path.split('.'))),
    };
    match known {
        Some(field) => field.rule = field.rule.and(&rule),
        None => fields.push(Field { path: path.split('.').map(Into::into).collect(), limit, names, rule }),
    }
}

fn rule_of<'a>(fields: &'a [Field], of: &Field) -> Option<&'a Rule> {
    let is_same = |field: &&Field| match of.limit {
        Some(_) => field.limit.is_some(),
        None => field.path == of.path,
    };
    fields.iter().find(is_same).map(|field| &field.rule)
}

/// What a caller wrote for a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Written {
    /// Nothing, or an explicit null.
    Nothing,
    /// A number, infinite where it is too large for a double.
    Number(f64),
    /// Something else.
    Other,
}

/// Which rule changed a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `deny`: a null that said nothing is left out.
    Deny,
    /// `default`
    Default,
    /// `max`
    Max,
    /// `min`
    Min,
    /// `force`
    Force,
}

impl By {
    /// As the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Default => "default",
            Self::Max => "max",
            Self::Min => "min",
            Self::Force => "force",
        }
    }
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict<'a> {
    /// It stays as it is, also absent.
    Keep,
    /// It is left out.
    Remove(By),
    /// It becomes this JSON text.
    Set(&'a str, By),
    /// Callers may not write it.
    Denied,
    /// It has bounds and is no number, so that nobody knows what the upstream would make of it.
    NotANumber,
}

/// One field that is ruled, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Ruled<'a> {
    /// The field as the first of its owners has it.
    pub field: &'a Field,
    route: Option<&'a Rule>,
    client: Option<&'a Rule>,
}

/// Every field of the endpoint that a route's policy or a client's rules, once each.
pub fn ruled<'a>(route: &'a Policy, client: &'a Policy, endpoint: Endpoint) -> impl Iterator<Item = Ruled<'a>> {
    let (route, client) = (route.on(endpoint), client.on(endpoint));
    let of_route = route.iter().map(|field| Ruled { field, route: Some(&field.rule), client: rule_of(client, field) });
    let others = client.iter().filter(|field| rule_of(route, field).is_none());
    of_route.chain(others.map(|field| Ruled { field, route: None, client: Some(&field.rule) }))
}

/// The whole number that goes out in a field at the body's top where a caller wrote `written`; none where there is
/// none, or none that is a number. It is of a call that is answered with tokens: any name of the limit of an answer's tokens stands for it.
#[must_use]
pub fn amount(route: &Policy, client: &Policy, name: &str, written: Option<u64>) -> Option<u64> {
    let is_limit = ANSWER_LIMITS.contains(&name);
    let is_it = |field: &Field| match is_limit {
        true => field.limit.is_some(),
        false => field.path.len() == 1 && field.path.first().is_some_and(|only| &**only == name),
    };
    #[expect(clippy::cast_precision_loss, reason = "no model answers with 2^53 tokens")]
    let number = written.map_or(Written::Nothing, |written| Written::Number(written as f64));
    let Some(ruled) = ruled(route, client, Endpoint::Chat).find(|ruled| is_it(ruled.field)) else { return written };
    match ruled.judge(number) {
        Verdict::Keep | Verdict::Denied | Verdict::NotANumber => written,
        Verdict::Remove(_) => None,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
        Verdict::Set(json, _) => json.parse().ok().map(|number: f64| number as u64),
    }
}

impl<'a> Ruled<'a> {
    /// Judges what a caller wrote. For the limit of an answer's tokens a `max` is put in where there
    /// is none, for an answer without a limit would go beyond it; and what is below 1 counts as none,
    /// because some servers read it so (llama.cpp and Ollama: -1 and 0 are without a limit).
    #[must_use]
    pub fn judge(&self, written: Written) -> Verdict<'a> {
        if written != Written::Nothing && self.rules().any(|rule| rule.deny) {
            return Verdict::Denied;
        }
        match self.forced() {
            Some((setting, _)) if setting.is_null() && written == Written::Nothing => return Verdict::Keep,
            Some((setting, by)) if setting.is_null() => return Verdict::Remove(by),
            Some((setting, by)) => return put(written, setting, by),
            None => {}
        }
        let is_limit = self.field.limit.is_some();
        let most = self.rules().fold(None, |most, rule| lower(most, rule.max.as_ref()));
        let least = self.rules().fold(None, |least, rule| higher(least, rule.min.as_ref()));
        let written = match written {
            Written::Other if most.or(least).is_some() => return Verdict::NotANumber,
            Written::Number(number) if is_limit && most.is_some() && number < 1.0 => Written::Nothing,
            written => written,
        };
        match written {
            Written::Other => Verdict::Keep,
            Written::Number(number) => match bound(number, least, most) {
                Some((setting, by)) => Verdict::Set(&setting.json, by),
                None => Verdict::Keep,
            },
            Written::Nothing => {
                let default = self.rules().fold(None, |one, rule| lower(one, rule.default.as_ref()));
                match (default.filter(|default| !default.is_null()), most) {
                    (Some(default), _) => {
                        let bound = default.number.and_then(|number| bound(number, least, most));
                        let (setting, by) = bound.unwrap_or((default, By::Default));
                        Verdict::Set(&setting.json, by)
                    }
                    (None, Some(most)) if is_limit => Verdict::Set(&most.json, By::Max),
                    (None, _) => Verdict::Keep,
                }
            }
        }
    }

    /// True where an explicit null is left out too, because the field must not be there at all.
    #[must_use]
    pub fn drops_null(&self) -> bool {
        self.rules().any(|rule| rule.deny || rule.force.as_ref().is_some_and(Setting::is_null))
    }

    /// True where the field gets a value whatever stands in its way.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.rules().any(|rule| rule.force.as_ref().is_some_and(|force| !force.is_null()))
    }

    fn rules(&self) -> impl Iterator<Item = &'a Rule> {
        self.route.into_iter().chain(self.client)
    }

    /// The value that is forced, within the bounds of the policy that did not force it.
    fn forced(&self) -> Option<(&'a Setting, By)> {
        let of = |own: Option<&'a Rule>, other: Option<&'a Rule>| {
            let setting = own?.force.as_ref()?;
            let (least, most) = other.map_or((None, None), |other| (other.min.as_ref(), other.max.as_ref()));
            Some(setting.number.and_then(|number| bound(number, least, most)).unwrap_or((setting, By::Force)))
        };
        match (of(self.route, self.client), of(self.client, self.route)) {
            (Some((first, by)), Some((second, other))) => {
                Some(if is_lower(second, first) { (second, other) } else { (first, by) })
            }
            (first, second) => first.or(second),
        }
    }
}

/// A setting, unless the caller wrote that number: its digits stay.
fn put(written: Written, setting: &Setting, by: By) -> Verdict<'_> {
    match (written, setting.number) {
        (Written::Number(number), Some(set)) if number == set => Verdict::Keep,
        _ => Verdict::Set(&setting.json, by),
    }
}

/// The bound that a number is beyond. A ceiling below the floor wins.
fn bound<'a>(number: f64, least: Option<&'a Setting>, most: Option<&'a Setting>) -> Option<(&'a Setting, By)> {
    let most = most.and_then(|most| Some((most, most.number?)));
    let least = least.and_then(|least| Some((least, least.number?)));
    match (least, most) {
        (_, Some((most, value))) if number > value => Some((most, By::Max)),
        (Some((_, least)), Some((most, value))) if number < least && least > value => {
            (number < value).then_some((most, By::Max))
        }
        (Some((least, value)), _) if number < value => Some((least, By::Min)),
        _ => None,
    }
}

fn is_lower(one: &Setting, other: &Setting) -> bool {
    one.number.zip(other.number).is_some_and(|(one, other)| one < other)
}

/// The lower number of two settings; the first where they are not both numbers.
fn lower<'a>(first: Option<&'a Setting>, second: Option<&'a Setting>) -> Option<&'a Setting> {
    match (first, second) {
        (Some(first), Some(second)) => Some(if is_lower(second, first) { second } else { first }),
        (first, second) => first.or(second),
    }
}

/// The higher number of two settings; the first where they are not both numbers.
fn higher<'a>(first: Option<&'a Setting>, second: Option<&'a Setting>) -> Option<&'a Setting> {
    match (first, second) {
        (Some(first), Some(second)) => Some(if is_lower(first, second) { second } else { first }),
        (first, second) => first.or(second),
    }
}
