//! Base URLs as people write them, and the paths below them.

use base::Endpoint;

/// A base URL's path and query, as written but for doubled and trailing slashes.
#[derive(Clone, Debug)]
pub(super) struct Base<'a> {
    /// Empty, or with a leading slash.
    pub(super) path: String,
    query: &'a str,
}

impl<'a> Base<'a> {
    /// Takes it apart.
    ///
    /// # Errors
    /// A sentence about characters that no URL may hold.
    pub(super) fn of(base: &'a str) -> Result<Self, String> {
        let base = base.split('#').next().unwrap_or_default();
        if let Some(odd) = base.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!("the base URL holds {odd:?}; write it percent-encoded"));
        }
        let (path, query) = base.split_once('?').unwrap_or((base, ""));
        let path = path.split('/').filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part);
        Ok(Self { path, query })
    }

    /// Takes the last segment away where it is one of these, and says which it was.
    pub(super) fn without<'b>(&mut self, last: &[&'b str]) -> Option<&'b str> {
        let (rest, segment) = self.path.rsplit_once('/')?;
        let found = last.iter().copied().find(|known| *known == segment)?;
        self.path.truncate(rest.len());
        Some(found)
    }

    /// The path with `tail` behind it, and the query.
    pub(super) fn join(&self, tail: &str) -> String {
        self.with_query(format!("{}/{tail}", self.path), None)
    }

    /// The path with the endpoint's own behind it, unless it ends so already, and the query with
    /// one more parameter where it has none of that name.
    ///
    /// # Errors
    /// A sentence where the base is the whole URL of another endpoint.
    pub(super) fn join_once(&self, tail: &str, parameter: Option<(&str, &str)>) -> Result<String, String> {
        match self.endpoint() {
            Some(found) if found.tail() == tail => Ok(self.with_query(self.path.clone(), parameter)),
            Some(other) => {
                let other = other.tail();
                Err(format!(
                    "the base URL ends with the path of another endpoint: leave '/{other}' out, '/{tail}' is added"
                ))
            }
            None => Ok(self.with_query(format!("{}/{tail}", self.path), parameter)),
        }
    }

    fn with_query(&self, path: String, parameter: Option<(&str, &str)>) -> String {
        let mut out = path;
        let mut mark = '?';
        if !self.query.is_empty() {
            out.push(mark);
            out.push_str(self.query);
            mark = '&';
        }
        if let Some((name, value)) = parameter
            && !self.has(name)
        {
            out.push(mark);
            out.push_str(name);
            out.push('=');
            out.push_str(value);
        }
        out
    }

    /// The endpoint whose whole path the base ends with.
    fn endpoint(&self) -> Option<Endpoint> {
        let path =
            self.path.strip_suffix("/reranks").map_or_else(|| self.path.clone(), |rest| format!("{rest}/rerank"));
        let ends_with = |tail: &str| path.strip_suffix(tail).is_some_and(|rest| rest.ends_with('/'));
        Endpoint::ALL.into_iter().filter(|known| ends_with(known.tail())).max_by_key(|known| known.tail().len())
    }

    fn has(&self, name: &str) -> bool {
        self.query.split('&').any(|pair| pair.split('=').next() == Some(name))
    }
}
