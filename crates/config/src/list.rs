//! The objects of a kind, in the order written.

use std::iter::FusedIterator;
use std::ops::Deref;

use base::steps;

/// Objects in the order written. Each that is walked over is counted as a step, so that a walk in a walk is found by a
/// test and not by whoever has thousands of them.
#[derive(Clone, Debug)]
pub struct List<T>(Vec<T>);

impl<T> List<T> {
    /// From the first to the last.
    pub fn iter(&self) -> Walk<'_, T> {
        Walk(self.0.iter())
    }

    pub(crate) fn push(&mut self, object: T) {
        self.0.push(object);
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(objects: I) -> Self {
        Self(objects.into_iter().collect())
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = Walk<'a, T>;

    fn into_iter(self) -> Walk<'a, T> {
        self.iter()
    }
}

/// A walk over a [`List`].
#[derive(Debug)]
pub struct Walk<'a, T>(std::slice::Iter<'a, T>);

impl<T> Clone for Walk<'_, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<'a, T> Iterator for Walk<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        steps::count();
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Walk<'_, T> {}

impl<T> FusedIterator for Walk<'_, T> {}
