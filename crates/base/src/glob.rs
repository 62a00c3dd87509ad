//! The pattern of `routes: ["rag-*"]`.

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
}
