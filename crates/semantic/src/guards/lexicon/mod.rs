//! What is known of words: a dictionary of Chinese with parts of speech, WordNet, closed classes, and
//! groups of words that mean the same. Loaded once, from data compiled into the program.

pub mod function_words;
pub mod verb_forms_en;

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::LazyLock;

use jieba_rs::Jieba;
use smallvec::SmallVec;

use crate::guards::lexicon::function_words::Effect;
use crate::guards::quantity::temporal;
use crate::guards::token::{Lemmas, Script, Token, is_han};

/// Everything that is known of words.
pub struct Lexicon {
    jieba: Jieba,
    simplified: Words<char, char>,
    /// Phrases of closed classes, their words joined as by [`join`].
    closed: Words<Box<str>, SmallVec<[Effect; 2]>>,
    /// Phrases that mean the same as others of their group.
    groups: Words<Box<str>, SmallVec<[u16; 2]>>,
    /// By the first word of a phrase, or its first Chinese character: how long such phrases may be.
    reaches: Words<Box<str>, Reach>,
    /// Chinese verbs of one character, with those that they may stand for.
    shorts: Words<&'static str, SmallVec<[&'static str; 4]>>,
    /// Words with a hyphen that stand in one of the lists.
    hyphened: Words<Box<str>, ()>,
    irregular: Words<Box<str>, SmallVec<[Box<str>; 1]>>,
    /// By lemma: parts of speech, senses, verbs that it is derived from, opposites, divided by tabs.
    wordnet: Words<&'static str, &'static str>,
}

/// The bytes of the longest phrase.
#[derive(Debug, Clone, Copy, Default)]
struct Reach {
    closed: usize,
    groups: usize,
}

/// The longest phrases of the lists that some words begin with, in words; 0 where there is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Longest<'a> {
    /// The phrase of a closed class.
    pub closed: usize,
    /// What that contributes.
    pub parts: &'a [Effect],
    /// The phrase that means the same as others, with or without a 的 inside it.
    pub listed: usize,
}

type Words<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// The one lexicon of the process, which never changes.
static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::load);

/// The lexicon; the first call loads it.
pub fn lexicon() -> &'static Lexicon {
    &LEXICON
}

/// What WordNet has under one lemma.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry {
    /// Letters of n, v, a, r.
    pub parts: &'static str,
    /// Senses in hexadecimal; a `-` marks one that is not the first of its part of speech.
    pub senses: &'static str,
    /// Verbs and adjectives that it is derived from.
    pub bases: &'static str,
    /// Its opposites.
    pub opposites: &'static str,
}

/// How many tokens a phrase of a list may have.
pub const LONGEST_PHRASE: usize = 9;

impl Lexicon {
    fn load() -> Self {
        let dictionary = inflate(include_bytes!("../../../data/words-zh.txt.gz"));
        let jieba = Jieba::with_dict(&mut dictionary.as_bytes()).unwrap_or_else(|_| Jieba::empty());
        // The lexicon lives as long as the process, and so do its words.
        let wordnet: &'static str = inflate(include_bytes!("../../../data/wordnet.txt.gz")).leak();
        let mut lexicon = Self {
            jieba,
            simplified: pairs(include_str!("../../../data/simplified.txt")),
            closed: Words::default(),
            groups: Words::default(),
            reaches: Words::default(),
            shorts: lines(include_str!("../../../data/short-zh.txt"))
                .filter_map(|line| line.split_once(' ').map(|(short, long)| (short, long.split(' ').collect())))
                .collect(),
            hyphened: Words::default(),
            irregular: Words::default(),
            wordnet: wordnet.lines().filter_map(|line| line.split_once('\t')).collect(),
        };
        for (form, lemma) in include_str!("../../../data/irregular.txt").lines().filter_map(|line| line.split_once(' '))
        {
            lexicon.irregular.entry(form.into()).or_default().push(lemma.into());
        }
        lexicon.learn_closed(include_str!("../../../data/closed-zh.txt"));
        lexicon.learn_closed(include_str!("../../../data/closed-en.txt"));
        for phrase in temporal::chinese_phrases() {
            lexicon.teach(&phrase, MARKED);
        }
        let groups = lines(include_str!("../../../data/synonyms-zh.txt")).map(|line| line.split(' ').collect());
        let english = lines(include_str!("../../../data/synonyms-en.txt")).map(|line| line.split(", ").collect());
        for (group, phrases) in groups.chain::<_>(english).enumerate() {
            let group = u16::try_from(group).unwrap_or(u16::MAX);
            let phrases: Vec<&str> = phrases;
            phrases.into_iter().for_each(|phrase| lexicon.learn_group(phrase, group));
        }
        lexicon
    }

    fn learn_closed(&mut self, text: &'static str) {
        for (effect, phrases) in lines(text).filter_map(|line| line.split_once(" = ")) {
            let Some(part) = function_words::effect(effect) else { continue };
            for phrase in phrases.split(", ") {
                self.teach(phrase, MARKED);
                let key = self.key_of(phrase);
                let reach = self.reaches.entry(head(&key).into()).or_default();
                reach.closed = reach.closed.max(key.len());
                self.closed.entry(key.into()).or_default().push(part);
            }
        }
    }

    fn learn_group(&mut self, phrase: &str, group: u16) {
        self.teach(phrase, None);
        let key = self.key_of(phrase);
        let reach = self.reaches.entry(head(&key).into()).or_default();
        reach.groups = reach.groups.max(key.len());
        self.groups.entry(key.into()).or_default().push(group);
    }

    /// Lets the segmenter know a Chinese phrase, and the divider of compounds a word with a hyphen.
    fn teach(&mut self, phrase: &str, often: Option<usize>) {
        if phrase.chars().all(is_han) && (often.is_some() || !self.jieba.has_word(phrase)) {
            // A phrase is of the kind of its last word.
            let tag = self.jieba.tag(phrase, false).last().map(|last| last.tag.to_owned());
            let is_thing =
                phrase.chars().count() > 1 && phrase.chars().last().is_some_and(|last| NOUN_ENDINGS.contains(last));
            let tag = if is_thing { Some("n".to_owned()) } else { tag };
            self.jieba.add_word(phrase, often, tag.as_deref());
        }
        for word in phrase.split(' ').filter(|word| word.contains('-')) {
            self.hyphened.insert(word.into(), ());
        }
    }

    /// A phrase as it is looked up: the canonical form of each of its words.
    fn key_of(&self, phrase: &str) -> String {
        let phrase = phrase.to_lowercase();
        let mut words: Vec<String> = Vec::new();
        for part in phrase.split(' ') {
            let part = part.strip_suffix("'s").unwrap_or(part);
            for run in part.split_inclusive(is_han).flat_map(|run| {
                let at = run.char_indices().find(|(_, sign)| is_han(*sign)).map_or(run.len(), |(at, _)| at);
                let (latin, han) = run.split_at_checked(at).unwrap_or((run, ""));
                [latin, han]
            }) {
                match run.chars().next() {
                    None => {}
                    Some(sign) if is_han(sign) => words.push(run.into()),
                    Some(_) => {
                        let Lemmas { all, listed } = self.lemmas_of(run);
                        words.push(listed.and_then(|at| all.get(at)).map_or(run, |lemma| lemma).to_owned());
                    }
                }
            }
        }
        join(words.iter().map(String::as_str))
    }

    /// The simplified form of a character.
    pub fn simplified(&self, sign: char) -> char {
        if sign.is_ascii() { sign } else { self.simplified.get(&sign).copied().unwrap_or(sign) }
    }

    /// Whether `'s` behind this word is a verb.
    pub fn opens_with_is(&self, word: &str) -> bool {
        matches!(
            word,
            "what"
                | "who"
                | "where"
                | "when"
                | "how"
                | "why"
                | "that"
                | "it"
                | "there"
                | "he"
                | "she"
                | "here"
                | "which"
                | "let"
        )
    }

    /// Whether a word with a hyphen stands in one of the lists as it is.
    pub fn knows(&self, word: &str) -> bool {
        self.hyphened.contains_key(word) || self.entry(word).is_some()
    }

    /// The words of a run of Chinese characters.
    pub fn segment(&self, run: &str, found: &mut Vec<Token>) {
        segment(&self.jieba, run, found);
    }

    /// Whether a Chinese word is a verb.
    pub fn is_verb(&self, word: &str) -> bool {
        matches!(self.jieba.tag(word, false).as_slice(), [only] if only.tag.starts_with('v'))
    }

    /// Whether a Chinese verb of one character is known to stand for this longer one.
    pub fn stands_for(&self, short: &str, long: &str) -> bool {
        self.shorts.get(short).is_some_and(|known| known.contains(&long))
    }

    /// What a phrase of a closed class contributes.
    pub fn closed(&self, phrase: &str) -> Option<&[Effect]> {
        self.closed.get(phrase).map(SmallVec::as_slice)
    }

    /// The groups of a phrase.
    pub fn groups(&self, phrase: &str) -> Option<&[u16]> {
        self.groups.get(phrase).map(SmallVec::as_slice)
    }

    /// The longest phrases that these canonical words begin with.
    pub fn longest<'w>(&self, words: impl Iterator<Item = &'w str>) -> Longest<'_> {
        let mut found = Longest::default();
        let mut words = words.take(LONGEST_PHRASE).peekable();
        let Some(reach) = words.peek().and_then(|first| self.reaches.get(head(first))) else { return found };
        let most = reach.closed.max(reach.groups);
        let mut phrase = Phrase { text: String::with_capacity(most), was_latin: false };
        let mut ends: SmallVec<[usize; LONGEST_PHRASE]> = SmallVec::new();
        let mut links = 0;
        for word in words {
            phrase.push(word);
            links += word.matches(LINK).count() * LINK.len_utf8();
            if phrase.text.len() > most + links {
                break;
            }
            ends.push(phrase.text.len());
        }
        for (at, end) in ends.iter().enumerate().rev() {
            let phrase = phrase.text.get(..*end).unwrap_or_default();
            if found.closed == 0
                && phrase.len() <= reach.closed
                && let Some(parts) = self.closed(phrase)
            {
                (found.closed, found.parts) = (at + 1, parts);
            }
            let is_listed = |phrase: &str| phrase.len() <= reach.groups && self.groups.contains_key(phrase);
            if found.listed == 0
                && (is_listed(phrase) || links > 0 && unlinked(phrase).is_some_and(|phrase| is_listed(&phrase)))
            {
                found.listed = at + 1;
            }
        }
        found
    }

    /// What WordNet has of a lemma, whose words are joined by `_`.
    pub fn entry(&self, lemma: &str) -> Option<Entry> {
        let mut cells = self.wordnet.get(lemma)?.split('\t');
        let mut next = || cells.next().unwrap_or_default();
        Some(Entry { parts: next(), senses: next(), bases: next(), opposites: next() })
    }

    /// Whether a lemma is of one of these parts of speech: letters of n, v, a, r.
    pub fn is(&self, lemma: &str, parts: &str) -> bool {
        let known = self.wordnet.get(lemma).map_or("", |entry| entry);
        known.bytes().take_while(|sign| *sign != b'\t').any(|part| parts.as_bytes().contains(&part))
    }

    /// The lemmas that a written English word may be of; the word itself where nothing is known of it.
    pub fn lemmas(&self, word: &str) -> SmallVec<[Box<str>; 2]> {
        let mut found: SmallVec<[Box<str>; 2]> = SmallVec::new();
        let mut add = |lemma: &str, needs: &str| {
            if self.is(lemma, needs) && !found.iter().any(|other| **other == *lemma) {
                found.push(lemma.into());
            }
        };
        for lemma in self.irregular.get(word).into_iter().flatten() {
            add(lemma, "nvar");
        }
        add(word, "nvar");
        for (ending, instead, needs) in ENDINGS {
            if let Some(stem) = word.strip_suffix(ending)
                && stem.chars().count() > 1
            {
                if !instead.is_empty() {
                    add(&[stem, instead].concat(), needs);
                    continue;
                }
                add(stem, needs);
                let mut last = stem.chars().rev();
                if needs == "v" && last.next() == last.next() {
                    add(stem.strip_suffix(|_: char| true).unwrap_or(stem), needs);
                }
            }
        }
        if found.is_empty() {
            found.push(word.into());
            // A word that nobody knows has a plural all the same.
            let singular =
                word.strip_suffix('s').filter(|stem| stem.chars().count() > 3 && !stem.ends_with(['s', 'u', 'i']));
            found.extend(singular.map(Box::from));
        }
        found
    }

    /// The lemmas that a token may be of, looked up once.
    pub fn lemmas_in<'t>(&self, token: &'t Token) -> &'t [Box<str>] {
        &token.lemmas.get_or_init(|| self.lemmas_of(&token.text)).all
    }

    /// The one form under which a token stands in the lists.
    pub fn canonical<'t>(&self, token: &'t Token) -> &'t str {
        if token.script != Script::Latin {
            return &token.text;
        }
        let Lemmas { all, listed } = token.lemmas.get_or_init(|| self.lemmas_of(&token.text));
        listed.and_then(|at| all.get(at)).map_or(token.text.as_str(), |lemma| lemma)
    }

    fn lemmas_of(&self, word: &str) -> Lemmas {
        let all = self.lemmas(word);
        let shortest = all.iter().enumerate().min_by_key(|(_, lemma)| (lemma.len(), *lemma)).map(|(at, _)| at);
        Lemmas { listed: shortest.filter(|_| !WHOLE.contains(&word)), all }
    }
}

/// Words of closed classes win over all others.
const MARKED: Option<usize> = Some(2_000_000);

/// Characters that end names of things, whatever they are as words.
const NOUN_ENDINGS: &str = "假费金卡证单表率期书室部员人者券票款额量号码奖税险贴";

/// Words that stand for themselves in the lists: «his» is no plural of «hi», a training no train.
const WHOLE: [&str; 2] = ["his", "training"];

/// English inflections: what is taken off, what is put in its place, and of what part of speech the rest must be.
const ENDINGS: [(&str, &str, &str); 16] = [
    ("s", "", "nv"),
    ("ses", "s", "n"),
    ("xes", "x", "n"),
    ("zes", "z", "n"),
    ("ches", "ch", "n"),
    ("shes", "sh", "n"),
    ("men", "man", "n"),
    ("ies", "y", "nv"),
    ("es", "e", "v"),
    ("es", "", "v"),
    ("ed", "e", "v"),
    ("ed", "", "v"),
    ("ied", "y", "v"),
    ("ing", "e", "v"),
    ("ing", "", "v"),
    ("ise", "ize", "v"),
];

/// Words joined to a phrase: English with spaces, Chinese without.
pub fn join<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut phrase = Phrase::default();
    words.for_each(|word| phrase.push(word));
    phrase.text
}

/// A phrase to which words are joined.
#[derive(Debug, Default)]
struct Phrase {
    text: String,
    was_latin: bool,
}

impl Phrase {
    fn push(&mut self, word: &str) {
        let is_latin = !word.chars().next().is_some_and(is_han);
        if is_latin && self.was_latin {
            self.text.push(' ');
        }
        self.text.push_str(word);
        self.was_latin = is_latin;
    }
}

/// The first word of a phrase, or its first Chinese character.
fn head(phrase: &str) -> &str {
    let mut signs = phrase.char_indices();
    let end = match signs.next() {
        Some((_, first)) if is_han(first) => first.len_utf8(),
        _ => signs.find(|(_, sign)| *sign == ' ' || is_han(*sign)).map_or(phrase.len(), |(at, _)| at),
    };
    phrase.get(..end).unwrap_or_default()
}

/// What may stand inside a Chinese phrase.
const LINK: char = '的';

/// A Chinese phrase without the 的 inside it: 公积金的缴存基数.
pub fn unlinked(phrase: &str) -> Option<String> {
    let is_inside = phrase.contains(LINK) && !phrase.starts_with(LINK) && !phrase.ends_with(LINK);
    is_inside.then(|| phrase.replace(LINK, ""))
}

fn segment(jieba: &Jieba, run: &str, found: &mut Vec<Token>) {
    for tagged in jieba.tag(run, false) {
        // The tags live as long as the dictionary; the words as long as the text.
        let tag = TAGS.iter().find(|tag| **tag == tagged.tag).copied().unwrap_or("");
        found.push(Token { tag, ..Token::of(tagged.word.to_owned(), Script::Han) });
    }
}

/// The parts of speech that are told apart.
const TAGS: [&str; 21] = [
    "n", "ns", "nr", "nt", "nz", "ng", "v", "vn", "vd", "vg", "vi", "a", "ad", "an", "d", "m", "q", "t", "f", "s", "zg",
];

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn pairs(text: &str) -> Words<char, char> {
    text.lines().filter_map(|line| line.chars().next().zip(line.chars().nth(1))).collect()
}

fn inflate(bytes: &[u8]) -> String {
    let mut text = String::new();
    // Compiled in and tested: what cannot be read is as if it were empty, and nothing matches.
    let _ = flate2::read::GzDecoder::new(bytes).read_to_string(&mut text);
    text
}
