//! What a question to a state gives back.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

/// An answer that is here, or on its way from a store.
///
/// Awaited, an answer that is here costs no more than a branch: nothing is allocated and nobody is woken.
#[must_use]
pub enum Answer<T> {
    /// Here.
    Ready(T),
    /// On its way. Dropping it withdraws the question as far as that is still possible.
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> std::fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready(_) => "Ready",
            Self::Later(_) => "Later",
        })
    }
}

impl<T: Unpin> IntoFuture for Answer<T> {
    type Output = T;
    type IntoFuture = Coming<T>;

    fn into_future(self) -> Coming<T> {
        match self {
            Self::Ready(answer) => Coming::Here(Some(answer)),
            Self::Later(future) => Coming::OnItsWay(future),
        }
    }
}

/// An [`Answer`] being awaited.
pub enum Coming<T> {
    /// Not taken yet.
    Here(Option<T>),
    /// A store's.
    OnItsWay(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> std::fmt::Debug for Coming<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Coming")
    }
}

impl<T: Unpin> Future for Coming<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut *self {
            // Polled again after its end it stays silent, as a future may.
            Self::Here(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Self::OnItsWay(future) => future.as_mut().poll(cx),
        }
    }
}
