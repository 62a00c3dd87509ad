//! File descriptors: this process takes as many as the system lets it have, and shares them out, so that neither callers
//! nor upstreams nor whoever reaches the admin port take those of the others.

use config::Snapshot;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::listen::MOST_CONNECTIONS;

/// With fewer, callers who hold one connection each use them up on a busy day.
const FEW: usize = 8_192;
/// macOS says that there is no limit, and gives no process more than this by default.
const OPEN_MAX: u64 = 10_240;

/// For stores, logs, listeners, files that are read, probes, webhooks and telemetry.
const OWN: usize = 64;
/// Each worker's runtime, and what it keeps open beside connections.
const OF_A_WORKER: usize = 4;
/// Connections to the admin port at most.
const MOST_ADMIN: usize = 128;
/// So many of each kind there are however few descriptors there may be.
const LEAST: usize = 4;

/// A look at a socket that takes nothing from it works on a duplicate of its descriptor.
const OF_AN_UPSTREAM: usize = 2;
/// What a caller's connection takes with a call under way.
const OF_A_CALL: usize = 1 + OF_AN_UPSTREAM;

/// Connections of each kind at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    limit: Option<usize>,
    /// Of callers.
    pub callers: usize,
    /// To the admin port.
    pub admin: usize,
    /// To upstreams, of all providers together; `None` where nothing bounds them but `pool.max_connections`.
    pub upstreams: Option<usize>,
}

/// Raises the soft limit to the hard one. Gives what the limit is then; `None` where there is none.
#[must_use]
pub fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    for wanted in [maximum, Some(OPEN_MAX)] {
        let is_more = current.is_some_and(|current| wanted.is_none_or(|wanted| wanted > current));
        if is_more && setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }).is_ok() {
            break;
        }
    }
    getrlimit(Resource::Nofile).current
}

impl Shares {
    /// What comes of so many descriptors. Every caller who may be connected may have a call under way.
    #[must_use]
    pub fn of(limit: Option<u64>, workers: usize) -> Self {
        let Some(limit) = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)) else {
            return Self { limit: None, callers: MOST_CONNECTIONS, admin: MOST_ADMIN, upstreams: None };
        };
        let rest = limit.saturating_sub(OWN + OF_A_WORKER * workers);
        let admin = (rest / 8).clamp(LEAST, MOST_ADMIN);
        let rest = rest.saturating_sub(admin);
        let callers = (rest / OF_A_CALL).clamp(LEAST, MOST_CONNECTIONS);
        let upstreams = (rest.saturating_sub(callers) / OF_AN_UPSTREAM).max(LEAST);
        Self { limit: Some(limit), callers, admin, upstreams: Some(upstreams) }
    }

    /// Says in the log how many there may be, and where that is little.
    pub fn tell(&self, snapshot: &Snapshot) {
        let Self { callers, admin, .. } = self;
        let (Some(limit), Some(upstreams)) = (self.limit, self.upstreams) else {
            return tracing::info!(callers, admin, "file descriptors: no limit; connections at most");
        };
        tracing::info!(limit, callers, upstreams, admin, "file descriptors, and connections at most");
        if is_low(limit) {
            tracing::warn!(
                limit,
                "few file descriptors: {callers} callers may be connected, not {MOST_CONNECTIONS}, and further ones wait. \
                 {RAISE}"
            );
        }
        let most = |provider: &config::Provider| provider.pool.max_connections;
        if let Some(first) = snapshot.providers.iter().find(|provider| most(provider) > upstreams) {
            tracing::warn!(
                "`pool.max_connections` of provider `{}` is {}, and file descriptors are enough for {upstreams} \
                 connections to all upstreams together: calls beyond that wait for one. {RAISE}",
                first.name,
                most(first)
            );
        }
    }
}

const RAISE: &str = "Raise the hard limit (`ulimit -Hn`, LimitNOFILE of systemd, `--ulimit nofile` of Docker)";

const fn is_low(limit: usize) -> bool {
    limit < FEW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_low_that_callers_and_upstreams_could_use_up() {
        assert!(is_low(1_024) && is_low(4_096), "what many shells and services are given");
        assert!(!is_low(65_536), "what the systemd unit gives is enough");
    }

    #[test]
    fn what_all_may_take_together_is_no_more_than_there_is() {
        for limit in [128, 256, 300, 1_024, 4_096, 10_240, 65_536, 1 << 20] {
            for workers in [1, 2, 8] {
                let Shares { callers, admin, upstreams, .. } = Shares::of(Some(limit), workers);
                let taken = OWN + OF_A_WORKER * workers + admin + callers + OF_AN_UPSTREAM * upstreams.unwrap();
                assert!(taken as u64 <= limit, "{limit} with {workers} workers: {taken}");
                assert!(upstreams.unwrap() >= callers, "each caller's call has its upstream");
                assert!(callers >= LEAST && admin >= LEAST);
            }
        }
    }

    #[test]
    fn everybody_may_come_where_there_are_enough() {
        for limit in [Some(65_536), Some(1 << 20), Some(u64::MAX), None] {
            let shares = Shares::of(limit, 64);
            assert_eq!((shares.callers, shares.admin), (MOST_CONNECTIONS, MOST_ADMIN), "{limit:?}");
        }
        assert_eq!(Shares::of(Some(0), 64).callers, LEAST, "some may always");
    }
}
