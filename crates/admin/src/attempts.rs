//! Wrong tokens, counted by address: whoever guesses has to wait.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens of one address within [`WINDOW`] at most.
const MOST: usize = 10;
/// See [`MOST`].
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered at most; whoever has been quiet for longest is forgotten first.
const ADDRESSES: usize = 1024;

/// What was tried lately.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<Mutex<HashMap<Option<IpAddr>, VecDeque<Instant>>>>);

impl Attempts {
    /// How long this address must wait before a token of its is looked at.
    #[must_use]
    pub(crate) fn wait(&self, from: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = known.get(&from.map(network))?;
        let first = failed.front().filter(|_| failed.len() >= MOST)?;
        WINDOW.checked_sub(now.saturating_duration_since(*first)).filter(|left| !left.is_zero())
    }

    /// A token from this address was wrong.
    pub(crate) fn failed(&self, from: Option<IpAddr>, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = from.map(network);
        if known.len() >= ADDRESSES && !known.contains_key(&from) {
            known.retain(|_, failed| failed.back().is_some_and(|last| now.saturating_duration_since(*last) < WINDOW));
            let quietest = known.iter().min_by_key(|(_, failed)| failed.back().copied()).map(|(from, _)| *from);
            if let (Some(quietest), ADDRESSES..) = (quietest, known.len()) {
                known.remove(&quietest);
            }
        }
        let failed = known.entry(from).or_default();
        failed.push_back(now);
        while failed.len() > MOST {
            failed.pop_front();
        }
    }
}

/// Who is behind an address: of IPv6 the network of 64 bits, since that is what one subscriber is given.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(attempts: &Attempts, from: IpAddr, times: usize) {
        (0..times).for_each(|_| attempts.failed(Some(from), base::Clock.now()));
    }

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_tokens_within_a_minute_make_an_address_wait_until_the_first_is_a_minute_old() {
        let (attempts, here) = (Attempts::default(), ip("192.0.2.1"));
        let wait = || attempts.wait(Some(here), base::Clock.now());
        guess(&attempts, here, 9);
        assert_eq!(wait(), None);
        tokio::time::advance(Duration::from_secs(20)).await;
        guess(&attempts, here, 1);
        assert_eq!(wait(), Some(Duration::from_secs(40)));
        assert_eq!(attempts.wait(Some(ip("192.0.2.2")), base::Clock.now()), None, "others need not");
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(wait(), None);
        guess(&attempts, here, 1);
        assert_eq!(wait(), None, "the first nine are as old");
    }

    #[tokio::test(start_paused = true)]
    async fn an_ipv6_network_is_one_guesser_and_a_mapped_address_is_the_one_it_maps() {
        let attempts = Attempts::default();
        (0..10).for_each(|host| guess(&attempts, ip(&format!("2001:db8::{host}")), 1));
        assert!(attempts.wait(Some(ip("2001:db8::ffff")), base::Clock.now()).is_some());
        assert!(attempts.wait(Some(ip("2001:db8:0:1::1")), base::Clock.now()).is_none());
        guess(&attempts, ip("::ffff:192.0.2.1"), 10);
        assert!(attempts.wait(Some(ip("192.0.2.1")), base::Clock.now()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_addresses_makes_the_list_longer_than_it_may_be() {
        let attempts = Attempts::default();
        for host in 0..2_000_u32 {
            guess(&attempts, IpAddr::V4(host.into()), 10);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(attempts.0.lock().unwrap().len(), ADDRESSES);
        let wait = |host: u32| attempts.wait(Some(IpAddr::V4(host.into())), base::Clock.now());
        assert!(wait(1_999).is_some() && wait(0).is_none(), "the newest are known, the oldest are not");
    }
}
