//! File descriptors: this process takes as many as the system lets it have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::listen::MOST_CONNECTIONS;

/// A caller's connection takes one, and its call another one to an upstream.
const WANTED: u64 = 2 * MOST_CONNECTIONS as u64;
/// With fewer, callers who hold one connection each use them up on a busy day.
const FEW: u64 = 8_192;
/// macOS says that there is no limit, and gives no process more than this by default.
const OPEN_MAX: u64 = 10_240;

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

/// Says in the log how many there may be, and where that is little.
pub fn tell(limit: Option<u64>) {
    let Some(limit) = limit else { return tracing::info!("file descriptors: no limit") };
    tracing::info!(limit, "file descriptors");
    if is_low(limit) {
        tracing::warn!(
            limit,
            "few file descriptors: {MOST_CONNECTIONS} callers may be connected, and with a call each they take {WANTED}; \
             callers beyond what there are wait, and calls fail for want of one. Raise the hard limit (`ulimit -Hn`, \
             LimitNOFILE of systemd, `--ulimit nofile` of Docker)"
        );
    }
}

const fn is_low(limit: u64) -> bool {
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
}
