//! The pattern of `routes: ["rag-*"]`, and how many of them are held against many names.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// A name pattern in which `*` stands for any run of characters and everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob(Box<str>);

impl Glob {
    /// A pattern from its written form; every text is a pattern.
    #[must_use]
    pub fn new(written: &str) -> Self {
        Self(written.into())
    }

    /// The written form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when `name` as a whole fits the pattern. Runs in time linear in both lengths' product
    /// at worst, without recursion.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        crate::steps::count();
        let (pattern, text) = (self.0.as_bytes(), name.as_bytes());
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(byte) if *byte == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => match star.as_mut() {
                    Some((at, taken)) => {
                        *taken += 1;
                        p = *at + 1;
                        t = *taken;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }

    /// What stands before its first star: every name that fits begins so.
    fn start(&self) -> &str {
        self.0.split('*').next().unwrap_or_default()
    }

    /// What belongs to the names that fit. Only those are looked at that begin as the pattern does.
    pub fn among<'a, T>(&'a self, names: &'a BTreeMap<&str, T>) -> impl Iterator<Item = &'a T> {
        self.alike(names).filter(|(name, _)| self.fits(name)).map(|(_, of_name)| of_name)
    }

    fn alike<'a, T>(&'a self, names: &'a BTreeMap<&str, T>) -> impl Iterator<Item = (&'a str, &'a T)> {
        let start = self.start();
        let end = if start.len() == self.0.len() { Bound::Included(start) } else { Bound::Unbounded };
        let behind = names.range::<str, _>((Bound::Included(start), end));
        behind.map(|(name, of_name)| (*name, of_name)).take_while(move |(name, _)| name.starts_with(start))
    }
}

/// Many patterns and what belongs to each, found by the names that fit them without a look at all of them.
#[derive(Clone, Debug)]
pub struct Globs<T> {
    /// By what stands before the first star.
    by_start: HashMap<Box<str>, HashMap<Glob, T>>,
    /// Bytes of the longest of these.
    longest: usize,
}

impl<T> Default for Globs<T> {
    fn default() -> Self {
        Self { by_start: HashMap::new(), longest: 0 }
    }
}

impl<T: Default> Globs<T> {
    /// What belongs to a pattern, which is among them from now on.
    pub fn of(&mut self, glob: &Glob) -> &mut T {
        let start = glob.start();
        self.longest = self.longest.max(start.len());
        self.by_start.entry(start.into()).or_default().entry(glob.clone()).or_default()
    }
}

impl<T> Globs<T> {
    /// What belongs to the patterns that a name fits.
    pub fn fitting<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a T> {
        self.alike(name).filter(|(glob, _)| glob.fits(name)).map(|(_, of_glob)| of_glob)
    }

    /// The patterns that begin as the name does.
    fn alike<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Glob, &'a T)> {
        let ends = (0..=name.len().min(self.longest)).filter(|end| name.is_char_boundary(*end));
        ends.filter_map(|end| self.by_start.get(name.get(..end)?)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        assert!(Glob::new("rag-*").fits("rag-chat"));
        assert!(Glob::new("rag-*").fits("rag-"));
        assert!(Glob::new("*").fits(""));
        assert!(Glob::new("a*b*c").fits("aXbYbc"));
        assert!(Glob::new("问答-*").fits("问答-一"));
        assert!(!Glob::new("rag-*").fits("my-rag-chat"));
        assert!(!Glob::new("rag").fits("rag-chat"));
        assert!(!Glob::new("a*b").fits("aXc"));
    }

    const PATTERNS: [&str; 10] = ["", "*", "a", "ab", "a*", "a*b", "*b", "ab*", "问*", "b"];
    const NAMES: [&str; 8] = ["", "a", "ab", "abc", "acb", "b", "问", "问答"];

    #[test]
    fn many_patterns_fit_what_each_of_them_fits() {
        let mut globs = Globs::<usize>::default();
        for pattern in PATTERNS {
            *globs.of(&Glob::new(pattern)) += pattern.len();
            *globs.of(&Glob::new(pattern)) += 1;
        }
        for name in NAMES {
            let mut found: Vec<usize> = globs.fitting(name).copied().collect();
            let fitting = PATTERNS.iter().filter(|pattern| Glob::new(pattern).fits(name));
            let mut each: Vec<usize> = fitting.map(|pattern| pattern.len() + 1).collect();
            found.sort_unstable();
            each.sort_unstable();
            assert_eq!(found, each, "{name}");
        }
    }

    #[test]
    fn a_pattern_finds_the_names_that_fit_it() {
        let names: BTreeMap<&str, &str> = NAMES.iter().map(|name| (*name, *name)).collect();
        for pattern in PATTERNS.map(Glob::new) {
            let found: Vec<&str> = pattern.among(&names).copied().collect();
            let each: Vec<&str> = names.keys().copied().filter(|name| pattern.fits(name)).collect();
            assert_eq!(found, each, "{pattern:?}");
        }
    }

    #[test]
    fn few_of_many_are_looked_at() {
        let written: Vec<String> = (0..10_000).map(|number| format!("r{number}")).collect();
        let names: BTreeMap<&str, ()> = written.iter().map(|name| (&**name, ())).collect();
        let mut globs = Globs::<()>::default();
        for name in &written {
            let () = globs.of(&Glob::new(name));
            let () = globs.of(&Glob::new("*"));
        }
        assert!(globs.alike("r9999").count() <= 6);
        assert_eq!(Glob::new("r9").alike(&names).count(), 1);
        assert_eq!(Glob::new("r999*").alike(&names).count(), 11);
    }
}
