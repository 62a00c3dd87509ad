//! A content word of a question, with what is known of its meaning.

use smallvec::SmallVec;

use crate::guards::lexicon::function_words::SemanticRole;
use crate::guards::lexicon::{Entry, Lexicon, lexicon};
use crate::guards::question::syntax::Syntax;
use crate::guards::token::{Script, Token, is_among};

/// What kind of word a term is, as far as the order of words is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordClass {
    /// It names a thing or a person.
    Noun,
    /// It names an action.
    Verb,
    /// It describes.
    Other,
}

/// A content word or phrase.
#[derive(Debug, Clone)]
pub struct Term {
    /// As written, or the lemmas that it may be of.
    pub forms: SmallVec<[Box<str>; 2]>,
    /// The groups of equal meaning that it stands in.
    pub groups: SmallVec<[u16; 2]>,
    /// WordNet's senses, shifted by one; the lowest bit is set for the first of its part of speech.
    senses: SmallVec<[u32; 6]>,
    /// The verbs that it is derived from.
    bases: SmallVec<[Box<str>; 2]>,
    opposites: SmallVec<[&'static str; 2]>,
    /// What kind of word it is.
    pub class: WordClass,
    /// Whether it may be a verb.
    pub is_action: bool,
    /// Whether it is negated.
    pub negated: bool,
    /// Whether it was tried in vain.
    pub failed: bool,
    /// Whether nobody has tried.
    pub not_attempted: bool,
    /// Whether the other question may be without it.
    pub optional: bool,
    /// Whether the other question may be without it where that has no verb.
    pub optional_without_agent: bool,
    /// Whether nothing is known of it.
    unknown: bool,
    /// Whether it is written like a name.
    proper_noun: bool,
    /// The part that it plays.
    pub role: Option<SemanticRole>,
    /// Whether it is coordinated with the term before it.
    pub coordinated: bool,
    /// Whether a word such as «of» stands before it.
    pub after_preposition: bool,
    /// Whether it stands in a clause that says when: after graduation, 毕业后.
    pub in_time_clause: bool,
    /// The first of its tokens, and the one behind its last.
    pub tokens: (usize, usize),
    /// How an English word is bound to its neighbours.
    pub syntax: Syntax,
}

impl Term {
    /// A term of these tokens; `phrase` is how they stand in the lists.
    pub fn new(tokens: &[Token], phrase: &str, lexicon: &'static Lexicon) -> Self {
        let mut term = Self {
            forms: SmallVec::new(),
            groups: lexicon.groups(phrase).map(SmallVec::from_slice).unwrap_or_default(),
            senses: SmallVec::new(),
            bases: SmallVec::new(),
            opposites: SmallVec::new(),
            class: WordClass::Noun,
            is_action: false,
            negated: false,
            failed: false,
            not_attempted: false,
            optional: false,
            optional_without_agent: false,
            unknown: false,
            proper_noun: false,
            role: None,
            coordinated: false,
            after_preposition: false,
            in_time_clause: false,
            tokens: (0, 0),
            syntax: Syntax::default(),
        };
        let last = tokens.last();
        let is_latin = last.is_some_and(|token| token.script == Script::Latin);
        if !is_latin {
            term.forms.push(phrase.into());
            let tag = last.map_or("", |token| token.tag);
            // «zg» is a character that the dictionary could not class: most of those that stand alone are verbs; 换 too,
            // which it has for a name.
            let is_verb = tag.starts_with('v') || tag == "zg" || phrase == "换";
            term.is_action = is_verb;
            term.class = match tag.chars().next() {
                _ if is_verb => WordClass::Verb,
                Some('v' | 'z') => WordClass::Verb,
                Some('a' | 'd') => WordClass::Other,
                _ => WordClass::Noun,
            };
            return term;
        }
        if let [token] = tokens {
            term.forms = lexicon.lemmas_in(token).iter().cloned().collect();
            // What in its plural is another thing: customs.
            if PLURALS.contains(&token.text.as_str()) {
                term.forms = SmallVec::from_iter([token.text.as_str().into()]);
                return term;
            }
            if PLURALS.iter().any(|plural| plural.strip_suffix('s') == Some(token.text.as_str())) {
                term.groups.clear();
            }
            // Behind no word for it, these are no first forms.
            if matches!(token.text.as_str(), "found" | "fell") {
                term.forms.retain(|form| **form != *token.text);
            }
        } else {
            term.forms.push(phrase.into());
        }
        term.proper_noun = tokens.iter().any(|token| token.upper || token.capital);
        term.learn(lexicon);
        term
    }

    /// Takes what WordNet knows of its forms.
    fn learn(&mut self, lexicon: &'static Lexicon) {
        let (mut noun, mut verb, mut known) = (false, false, false);
        for form in &self.forms {
            // What is refundable can be refunded.
            if let Some(stem) = form.strip_suffix("able") {
                let verbs = [stem.to_owned(), format!("{stem}e")].into_iter();
                self.bases.extend(verbs.filter(|verb| lexicon.is(verb, "v")).map(Box::from));
            }
            let found = if form.contains(' ') { lexicon.entry(&form.replace(' ', "_")) } else { lexicon.entry(form) };
            // «Apply for» is what «apply» is.
            let found = found.or_else(|| {
                let (first, rest) = form.split_once(' ')?;
                let is_verb = matches!(rest, "for" | "to" | "up for" | "in for" | "into" | "on" | "with");
                let parts = lexicon.entry(first).filter(|_| is_verb)?.parts;
                parts.contains('v').then_some(Entry { parts: "v", ..Entry::default() })
            });
            let Some(entry) = found else { continue };
            known = true;
            noun |= entry.parts.contains('n');
            verb |= entry.parts.contains('v');
            for sense in entry.senses.split(' ').filter(|sense| !sense.is_empty()) {
                let (is_first, digits) = sense.strip_prefix('-').map_or((1, sense), |digits| (0, digits));
                if let Ok(sense) = u32::from_str_radix(digits, 16) {
                    self.senses.push((sense << 1) | is_first);
                }
            }
            self.bases.extend(entry.bases.split(' ').filter(|base| !base.is_empty()).map(Box::from));
            self.opposites.extend(entry.opposites.split(' ').filter(|word| !word.is_empty()));
        }
        self.unknown = !known && self.groups.is_empty();
        self.is_action = verb;
        self.class = match (known, noun, verb) {
            (false, ..) | (_, true, _) => WordClass::Noun,
            (_, _, true) => WordClass::Verb,
            _ => WordClass::Other,
        };
    }

    /// Where it is asked who does something, the one who does it is the action: 审批人 and 审批, approver and approve.
    pub fn name_action(&mut self, lexicon: &'static Lexicon) {
        let Some(form) = self.forms.first().filter(|_| self.class == WordClass::Noun) else { return };
        let chinese = ["人", "者", "员"].iter().find_map(|ending| form.strip_suffix(ending));
        if let Some(stem) = chinese.filter(|stem| stem.chars().count() > 1 && lexicon.is_verb(stem)) {
            self.groups = lexicon.groups(stem).map(SmallVec::from_slice).unwrap_or_default();
            self.forms = SmallVec::from_iter([Box::from(stem)]);
            (self.class, self.is_action) = (WordClass::Verb, true);
        } else if let Some(stem) = form.strip_suffix("er").or_else(|| form.strip_suffix("or")) {
            let verbs = [format!("{stem}e"), stem.to_owned()];
            let verb = verbs.into_iter().find(|verb| lexicon.is(verb, "v"));
            self.bases.extend(verb.map(Box::from));
        }
    }

    /// Where a measure is asked, what is measured may name it: 停车费 is what 停车 costs, 保修期 how long 保修 lasts.
    pub fn name_measure(&mut self, endings: &[&str], lexicon: &'static Lexicon) {
        let Some(form) = self.forms.first() else { return };
        let Some(stem) = endings.iter().find_map(|ending| form.strip_suffix(ending)) else { return };
        let is_han = stem.chars().all(crate::guards::token::is_han);
        if stem.chars().count() < 2 || (is_han && !lexicon.is_verb(stem)) {
            return;
        }
        self.groups.extend_from_slice(lexicon.groups(stem).unwrap_or_default());
        let forms = if is_han { SmallVec::from_iter([Box::from(stem)]) } else { lexicon.lemmas(stem) };
        self.forms.extend(forms);
    }

    /// Whether both mean the same, as far as is known.
    pub fn same(&self, other: &Self) -> bool {
        self.seems(other) && !self.is_distinct(other)
    }

    /// Whether they are alike in form or sense, and yet kept apart.
    fn is_distinct(&self, other: &Self) -> bool {
        DISTINCT.iter().any(|(one, two)| {
            (self.is_one_of(&[one]) && other.is_one_of(&[two])) || (self.is_one_of(&[two]) && other.is_one_of(&[one]))
        })
    }

    /// Whether both have a form, a group or a sense in common.
    fn seems(&self, other: &Self) -> bool {
        self.forms.iter().any(|form| other.forms.contains(form))
            || self.groups.iter().any(|group| other.groups.contains(group))
            || self.derived(other)
            || other.derived(self)
            || (self.shares_sense(other) && !self.is_apart(other))
            || self.shortened(other)
            || other.shortened(self)
            || self.misspells(other)
            || other.misspells(self)
    }

    /// Whether they are known to be opposites.
    pub fn opposes(&self, other: &Self) -> bool {
        let known =
            |one: &Self, other: &Self| one.opposites.iter().any(|word| other.forms.iter().any(|form| **form == **word));
        known(self, other) || known(other, self)
    }

    fn derived(&self, other: &Self) -> bool {
        self.bases.iter().any(|base| other.forms.contains(base))
    }

    /// One sense in common, which is the first that at least one of them has.
    fn shares_sense(&self, other: &Self) -> bool {
        self.senses.iter().any(|one| other.senses.iter().any(|two| one >> 1 == two >> 1 && (one | two) & 1 == 1))
    }

    /// A Chinese verb of one character, and a longer one that it is known to stand for: 查 and 查询, not 取 and 取消.
    fn shortened(&self, other: &Self) -> bool {
        let (Some(short), Some(long)) = (self.forms.first(), other.forms.first()) else { return false };
        self.class == WordClass::Verb && other.class == WordClass::Verb && lexicon().stands_for(short, long)
    }

    /// Whether both are kinds of their own, which WordNet has for one: a manager reports to a director.
    fn is_apart(&self, other: &Self) -> bool {
        let is = |one: &Self, other: &Self| APART.iter().any(|(a, b)| one.is_one_of(&[a]) && other.is_one_of(&[b]));
        is(self, other) || is(other, self)
    }

    /// A word that nobody knows, and one that is known and differs from it by one letter, or two that are exchanged.
    fn misspells(&self, other: &Self) -> bool {
        let (Some(one), Some(two)) = (self.forms.first(), other.forms.first()) else { return false };
        let is_plain = |word: &str| word.len() > 6 && word.bytes().all(|sign| sign.is_ascii_lowercase());
        self.unknown
            && !self.proper_noun
            && !other.unknown
            && is_plain(one)
            && is_plain(two)
            && is_near(one.as_bytes(), two.as_bytes())
    }

    /// Whether it is one Chinese character.
    pub fn is_character(&self) -> bool {
        self.forms
            .first()
            .is_some_and(|form| form.chars().count() == 1 && form.chars().all(crate::guards::token::is_han))
    }

    /// Whether it is written in letters.
    pub fn is_latin(&self) -> bool {
        self.forms.first().is_some_and(|form| {
            form.starts_with(char::is_alphanumeric) && !form.starts_with(crate::guards::token::is_han)
        })
    }

    /// Whether one of its forms ends like one of these.
    pub fn ends_with(&self, endings: &[&str]) -> bool {
        self.forms.iter().any(|form| {
            let last = form.as_bytes().last();
            endings.iter().any(|ending| ending.as_bytes().last() == last && form.ends_with(ending))
        })
    }

    /// Whether one of its forms is among these words.
    pub fn is_one_of(&self, words: &[&str]) -> bool {
        self.forms.iter().any(|form| is_among(form, words))
    }
}

/// Words of the office that share a sense in WordNet, and none there.
const APART: [(&str, &str); 1] = [("manager", "director")];

/// Whether two words differ by one letter more, less or other, or by two that are exchanged.
fn is_near(one: &[u8], two: &[u8]) -> bool {
    let (short, long) = if one.len() < two.len() { (one, two) } else { (two, one) };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short, long) = (short.get(same..).unwrap_or_default(), long.get(same..).unwrap_or_default());
    match (short, long) {
        (rest, [_, more @ ..]) if rest == more => true,
        ([a, rest @ ..], [b, more @ ..]) if rest == more => a != b,
        ([a, b, rest @ ..], [c, d, more @ ..]) => (a, b) == (d, c) && rest == more,
        _ => false,
    }
}
/// Plurals that name another thing than one of them.
const PLURALS: [&str; 8] = ["arms", "customs", "funds", "glasses", "goods", "spirits", "terms", "works"];

/// Words that share a sense in WordNet, and are kept apart by those who use them.
const DISTINCT: [(&str, &str); 4] =
    [("economic", "economical"), ("historic", "historical"), ("alternate", "alternative"), ("classic", "classical")];

/// The term that two become when written together, as far as the lists know it.
pub fn together(one: &Term, two: &Term) -> Option<Box<str>> {
    let (one, two) = (one.forms.first()?, two.forms.first()?);
    Some(format!("{one}{two}").into_boxed_str())
}
