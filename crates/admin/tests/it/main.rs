//! The admin port as its callers see it, without sockets.
//!
//! `cfg(test)` says nothing new here, but tells the linter that helpers may unwrap as tests may.

#[cfg(test)]
mod desk;
#[cfg(test)]
mod document;
mod doors;
#[cfg(test)]
mod keys;
mod levers;
#[cfg(test)]
mod objects;
