//! What is wrong with a configuration, said so that a person can mend it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base::ObjectKind;

/// Where something is written. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file as it was named; `environment` or `flags` for what comes from there.
    pub file: Arc<str>,
    /// 0 where the file as a whole is meant.
    pub line: usize,
    /// 0 where the line as a whole is meant.
    pub column: usize,
}

impl Place {
    /// A file as a whole, or another source without lines.
    #[must_use]
    pub fn whole(file: &str) -> Self {
        Self { file: file.into(), line: 0, column: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (self.line, self.column) {
            // Nobody has written it, and nobody can look up a line of it.
            _ if &*self.file == BUILT_IN => Ok(()),
            (0, _) => Ok(()),
            (line, 0) => write!(f, ":{line}"),
            (line, column) => write!(f, ":{line}:{column}"),
        }
    }
}

/// One error or warning. It never holds the value of a secret or of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where it is written.
    pub place: Place,
    /// The key in question, such as `routes[rag-chat].timeout.attempt`; empty when none is.
    pub path: String,
    /// What is wrong and what to do.
    pub text: String,
    /// What the log alone is told: of files that an object of the admin API names, whoever named them learns nothing.
    pub cause: Option<String>,
    /// The object that it stands in, of those that can be told apart: what the compiler finds.
    pub object: Option<Box<(ObjectKind, Arc<str>)>>,
    /// The object that is named, and is not there.
    pub missing: Option<Box<(ObjectKind, Arc<str>)>>,
}

impl Problem {
    pub(crate) fn new(place: &Place, path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        Self { place: place.clone(), path, text, cause: None, object: None, missing: None }
    }

    /// What is said of no place at all.
    #[must_use]
    pub fn general(text: impl Into<String>) -> Self {
        Self::new(&Place::whole(""), "", text)
    }

    /// What is said of an object of the admin API as a whole.
    #[must_use]
    pub fn of_object(kind: ObjectKind, name: &str, text: impl Into<String>) -> Self {
        let path = format!("{}[{}]", kind.list(), clean(name));
        Self::new(&Place::whole(&place_of(kind, name)), path, text)
    }

    /// Whether it says that this object is named, and is not there.
    #[must_use]
    pub fn is_of_a_missing(&self, kind: ObjectKind, name: &str) -> bool {
        self.missing.as_deref().is_some_and(|(missing, named)| (*missing, &**named) == (kind, name))
    }
}

/// `FILE:LINE:COL: PATH.IN.CONFIG: what is wrong, what to do`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)
    }
}

/// Everything that keeps a configuration from being used, at once; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// In the order of the text where there is one.
    pub problems: Vec<Problem>,
    /// Every file and folder to watch for the one that will be sound.
    pub files: Vec<PathBuf>,
}

impl ConfigErrors {
    /// With what the log alone is told.
    #[must_use]
    pub fn with_causes(&self) -> String {
        let told = |problem: &Problem| match &problem.cause {
            Some(cause) => format!("{problem}: {cause}"),
            None => problem.to_string(),
        };
        self.problems.iter().map(told).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// The source's name of a configuration that the program itself has made.
pub const BUILT_IN: &str = "the built-in configuration";

/// Why the admin API leaves alone what stands at this place of the files, and what to do about it: `there` where that is a
/// file, which nobody has of the built-in configuration.
#[must_use]
pub fn not_changed_here(what: &str, place: &str, there: &str) -> String {
    if place == BUILT_IN {
        format!(
            "{what} is part of {BUILT_IN}, which cannot be changed: make one of another name, or serve with a configuration \
             of your own (`--config`; `mai-gateway export` writes one to begin with)"
        )
    } else {
        format!("{what} is written at {place}; {there}")
    }
}

/// What messages call where objects of the admin API stand.
pub(crate) const ADMIN_API: &str = "admin API";

/// The file's name in [`Place`]s of an object of the admin API.
#[must_use]
pub fn place_of(kind: ObjectKind, name: &str) -> String {
    format!("{ADMIN_API}: {}/{}", kind.list(), clean(name))
}

/// At most this many characters of a written word are repeated in a problem.
const LONGEST_WORD: usize = 128;

/// A written word made fit for one line of a terminal: no control characters, of bounded length.
pub(crate) fn clean(word: &str) -> String {
    visible(word, LONGEST_WORD)
}

/// The same for the name of a file, whose end is what tells files apart.
pub(crate) fn clean_path(path: &std::path::Path) -> String {
    visible(&path.to_string_lossy(), usize::MAX)
}

fn visible(word: &str, most: usize) -> String {
    let mut out = String::new();
    push_visible(&mut out, word, most);
    out
}

/// [`clean`], behind what is there already.
pub(crate) fn push_clean(out: &mut String, word: &str) {
    push_visible(out, word, LONGEST_WORD);
}

fn push_visible(out: &mut String, word: &str, most: usize) {
    // Paths are made of every key that is looked at, and nearly all are such words.
    if word.len() <= most && word.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return out.push_str(word);
    }
    for (at, c) in word.chars().enumerate() {
        if at == most {
            out.push('…');
            break;
        }
        if base::unseen(c).is_some() {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
}
