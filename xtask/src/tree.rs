//! The text files of the repository, and what the rules ask of Rust sources: code without comments
//! and strings, functions, and which lines are tests.

mod code;
mod functions;

use std::ops::Range;
use std::path::Path;

pub use functions::Function;

/// Folders that hold nothing anybody wrote.
const SKIPPED: [&str; 8] = ["target", ".git", ".cache", "mai-data", "results", "corpus", "artifacts", "__pycache__"];

/// Files larger than this are data, not prose or code.
const LARGEST: u64 = 2 << 20;

/// All of them.
#[derive(Debug)]
pub struct Tree {
    /// In the order of their paths.
    pub files: Vec<File>,
}

/// One file.
#[derive(Debug)]
pub struct File {
    /// From the repository's root, with `/`.
    pub path: String,
    /// As it stands.
    pub text: String,
    /// Comments and the insides of strings blanked; line for line and byte for byte as `text`.
    /// Empty where it is not Rust.
    pub code: String,
    /// Lines of test code, counted from 0; all of them in a file of tests.
    tests: Vec<Range<usize>>,
    /// Where each line begins, in bytes.
    starts: Vec<usize>,
}

impl Tree {
    /// Reads every text file below `root`.
    ///
    /// # Errors
    /// Those of the file system. Files that are not UTF-8 are passed over.
    pub fn read(root: &Path) -> std::io::Result<Self> {
        let mut files = Vec::new();
        gather(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// The Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The manifests of the workspace's packages.
    pub fn manifests(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/"))
    }
}

fn gather(root: &Path, below: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            gather(root, &path, files)?;
        } else if kind.is_file() && !SKIPPED.contains(&name.as_str()) && entry.metadata()?.len() <= LARGEST {
            match String::from_utf8(std::fs::read(entry.path())?) {
                Ok(text) => files.push(File::new(path, text)),
                Err(_binary) => {}
            }
        }
    }
    Ok(())
}

impl File {
    /// A file with what the rules ask of it.
    #[must_use]
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { code::bare(&text) } else { String::new() };
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut file = Self { path, text, code, tests: Vec::new(), starts };
        file.tests = file.find_tests();
        file
    }

    /// Whether it is Rust.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate that it belongs to, where it is one of ours: `crates/NAME/…`, `bench/…`.
    #[must_use]
    pub fn package(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => name,
            (Some(first), _) => first,
            _ => "",
        }
    }

    /// The number, from 1, of the line that holds byte `at`.
    #[must_use]
    pub fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    /// Whether byte `at` stands in test code.
    #[must_use]
    pub fn is_test(&self, at: usize) -> bool {
        let line = self.line(at).saturating_sub(1);
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Lines that are not tests.
    #[must_use]
    pub fn length(&self) -> usize {
        let tests: usize = self.tests.iter().map(ExactSizeIterator::len).sum();
        self.text.lines().count().saturating_sub(tests)
    }

    /// Its functions with a body, tests included.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        functions::find(&self.code)
    }

    /// Where `word` stands as a whole word outside comments, strings and tests.
    pub fn uses<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        code::words(&self.code, word).filter(|at| !self.is_test(*at))
    }

    /// Whether `word` stands anywhere in its code, tests included.
    #[must_use]
    pub fn mentions(&self, word: &str) -> bool {
        code::words(&self.code, word).next().is_some()
    }

    fn find_tests(&self) -> Vec<Range<usize>> {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let below_tests = self.path.split('/').any(|part| part == "tests");
        if !self.is_rust() {
            return Vec::new();
        }
        if below_tests || name.starts_with("tests") {
            return std::iter::once(0..self.text.lines().count()).collect();
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for (at, _) in self.code.match_indices("#[cfg(test)]") {
            let lines = self.line(at) - 1..self.line(functions::item_end(&self.code, at));
            if found.last().is_none_or(|last| last.end <= lines.start) {
                found.push(lines);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::File;

    #[test]
    fn tests_do_not_count() {
        let file = File::new(
            "crates/a/src/b.rs",
            "//! B.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { c(\"}\") }\n}\nfn d() {}\n",
        );
        assert_eq!(file.length(), 3);
        assert!(file.is_test(file.text.find("fn b").unwrap()));
        assert!(!file.is_test(file.text.find("fn d").unwrap()));
        assert_eq!(File::new("crates/a/tests/it/b.rs", "fn a() {}\n").length(), 0);
        assert_eq!(File::new("crates/a/src/tests.rs", "fn a() {}\n").length(), 0);
    }

    #[test]
    fn a_declared_test_module_is_one_statement() {
        let file = File::new("a/b.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n");
        assert_eq!(file.length(), 1);
    }

    #[test]
    fn lines_count_from_one() {
        let file = File::new("a.md", "x\ny\n");
        assert_eq!((file.line(0), file.line(1), file.line(2)), (1, 1, 2));
    }
}
