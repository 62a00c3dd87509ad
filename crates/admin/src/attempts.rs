//! Wrong tokens, counted by address: whoever guesses has to wait.
//!
//! **What is bounded.** Ten wrong tokens a minute from one address are told to be wrong. What comes from it within that
//! minute is not looked at, or whoever guesses would learn by the answer to the right one. Two things keep that from
//! locking out operators who share an address with others (behind a proxy, on loopback):
//!
//! - The same wrong token again is no further guess, and counts once. A script with an old token locks out nobody.
//! - An address where a token was right within the last day is *familiar* with it. While the address has to wait, it is
//!   let in with that token still; every other token, right ones included, is refused without being looked at.
//!   To refuse a token that is not the familiar one is to say so, which is a guess tried: so such looks are bounded
//!   too, by ten a second for each address, beyond which the familiar token has to wait as well.
//!
//! So nobody who has no token tries more than ten a minute where no operator is, nor more than 610 a minute against the
//! tokens of the operators whose address he shares.
//!
//! **What is not.** An operator may write guesses as keys of clients, also in a dry run: that one of them is an admin
//! token is refused, which tells him so, though not whose it is. That comes to some hundred thousand guesses a second at
//! most, and nothing here slows it down: length alone does. So tokens of fewer than 16 characters are refused
//! (`config`); 16 random hexadecimal digits would take a million years then, and a word with a number behind it a day.
//! What was tried stands in the log where it was right.
//!
//! Whoever floods such an address with more than ten different tokens a second still keeps others out: that can be
//! stopped in front of the gateway alone. To let a right token in at any rate would be to try guesses at any rate.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::KeyId;

/// Wrong tokens of one address within [`WINDOW`] at most.
const MOST: usize = 10;
/// See [`MOST`].
const WINDOW: Duration = Duration::from_secs(60);
/// Looks of one address within [`SECOND`] while it has to wait, at most.
const LOOKS: u32 = 10;
/// See [`LOOKS`].
const SECOND: Duration = Duration::from_secs(1);
/// A token is familiar to an address for so long after it was right.
const FAMILIAR: Duration = Duration::from_secs(24 * 60 * 60);
/// Tokens that are familiar to one address at most; the one that was used longest ago goes first.
const TOKENS: usize = 16;
/// Addresses remembered at most; whoever has been quiet for longest is forgotten first.
const ADDRESSES: usize = 1024;

/// What was tried lately.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<Mutex<Known>>);

type Peer = Option<IpAddr>;

#[derive(Debug, Default)]
struct Known {
    wrong: HashMap<Peer, Wrong>,
    /// Apart from those who guess, so that no number of them makes an operator unknown.
    right: HashMap<Peer, VecDeque<(Instant, KeyId)>>,
}

/// What was wrong from one address.
#[derive(Debug, Default)]
struct Wrong {
    /// Different tokens, the first first.
    tokens: VecDeque<(Instant, KeyId)>,
    /// Looks while it has to wait, since when.
    looks: Option<(Instant, u32)>,
}

impl Wrong {
    /// How long it must wait.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let (first, _) = self.tokens.front().filter(|_| self.tokens.len() >= MOST)?;
        WINDOW.checked_sub(now.saturating_duration_since(*first)).filter(|left| !left.is_zero())
    }

    fn holds(&self, token: KeyId, now: Instant) -> bool {
        let is_young = |at: Instant| now.saturating_duration_since(at) < WINDOW;
        self.tokens.iter().fold(false, |found, (at, known)| found | (is_young(*at) && *known == token))
    }

    /// Whether one more may be looked at while it has to wait.
    fn may_look(&self, now: Instant) -> bool {
        self.looks.is_none_or(|(since, count)| now.saturating_duration_since(since) >= SECOND || count < LOOKS)
    }

    fn looked(&mut self, now: Instant) {
        self.looks = Some(match self.looks {
            Some((since, count)) if now.saturating_duration_since(since) < SECOND => (since, count + 1),
            _ => (now, 1),
        });
    }
}

impl Attempts {
    /// How long this address must wait before this token of its is looked at.
    pub(crate) fn wait(&self, from: Peer, token: KeyId, now: Instant) -> Option<Duration> {
        let from = from.map(network);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { wrong, right } = &mut *known;
        let wrong = wrong.get_mut(&from)?;
        let wait = wrong.wait(now)?;
        let familiar = right.get(&from);
        if familiar.is_none_or(VecDeque::is_empty) || wrong.holds(token, now) || !wrong.may_look(now) {
            return Some(wait);
        }
        let is_young = |at: Instant| now.saturating_duration_since(at) < FAMILIAR;
        // Every one is compared, each in constant time.
        let tokens = familiar.into_iter().flatten();
        if tokens.fold(false, |found, (at, known)| found | (is_young(*at) && *known == token)) {
            return None;
        }
        wrong.looked(now);
        Some(wait)
    }

    /// This token from this address was wrong.
    pub(crate) fn failed(&self, from: Peer, token: KeyId, now: Instant) {
        let from = from.map(network);
        let wrong = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).wrong;
        forget_one(wrong, from, |wrong| wrong.tokens.back().map(|(at, _)| *at));
        let of_it = wrong.entry(from).or_default();
        if of_it.holds(token, now) {
            return;
        }
        of_it.tokens.push_back((now, token));
        while of_it.tokens.len() > MOST {
            of_it.tokens.pop_front();
        }
    }

    /// This token from this address was right.
    pub(crate) fn passed(&self, from: Peer, token: KeyId, now: Instant) {
        let from = from.map(network);
        let right = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).right;
        forget_one(right, from, |tokens| tokens.back().map(|(at, _)| *at));
        let of_it = right.entry(from).or_default();
        of_it.retain(|(_, known)| *known != token);
        of_it.push_back((now, token));
        while of_it.len() > TOKENS {
            of_it.pop_front();
        }
    }
}

/// Makes room for one more address.
fn forget_one<T>(known: &mut HashMap<Peer, T>, new: Peer, last: impl Fn(&T) -> Option<Instant>) {
    if known.len() < ADDRESSES || known.contains_key(&new) {
        return;
    }
    let quietest = known.iter().min_by_key(|(_, of_it)| last(of_it)).map(|(from, _)| *from);
    if let Some(quietest) = quietest {
        known.remove(&quietest);
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
    use base::KeyHasher;

    use super::*;

    fn token(number: usize) -> KeyId {
        KeyHasher::new(&[7; 64]).of_key(&number.to_be_bytes())
    }

    /// Different wrong tokens.
    fn guess(attempts: &Attempts, from: IpAddr, numbers: std::ops::Range<usize>) {
        numbers.for_each(|number| attempts.failed(Some(from), token(number), base::Clock.now()));
    }

    fn wait(attempts: &Attempts, from: IpAddr, number: usize) -> Option<Duration> {
        attempts.wait(Some(from), token(number), base::Clock.now())
    }

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_tokens_within_a_minute_make_an_address_wait_until_the_first_is_a_minute_old() {
        let (attempts, here) = (Attempts::default(), ip("192.0.2.1"));
        guess(&attempts, here, 0..9);
        assert_eq!(wait(&attempts, here, 99), None);
        tokio::time::advance(Duration::from_secs(20)).await;
        guess(&attempts, here, 9..10);
        assert_eq!(wait(&attempts, here, 99), Some(Duration::from_secs(40)));
        assert_eq!(wait(&attempts, ip("192.0.2.2"), 99), None, "others need not");
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(wait(&attempts, here, 99), None);
        guess(&attempts, here, 10..11);
        assert_eq!(wait(&attempts, here, 99), None, "the first nine are as old");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_wrong_token_again_is_no_further_guess() {
        let (attempts, here) = (Attempts::default(), ip("192.0.2.1"));
        (0..100).for_each(|_| guess(&attempts, here, 0..9));
        assert_eq!(wait(&attempts, here, 99), None);
        guess(&attempts, here, 9..10);
        assert!(wait(&attempts, here, 99).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_right_here_is_let_in_while_others_wait_whether_they_are_right_or_not() {
        let (attempts, here, there) = (Attempts::default(), ip("192.0.2.1"), ip("192.0.2.2"));
        let (operator, other) = (77, 78);
        attempts.passed(Some(here), token(operator), base::Clock.now());
        attempts.passed(Some(there), token(other), base::Clock.now());
        guess(&attempts, here, 0..10);
        assert_eq!(wait(&attempts, here, operator), None);
        assert!(wait(&attempts, here, other).is_some(), "it is right, and was never used from here");
        tokio::time::advance(FAMILIAR).await;
        guess(&attempts, here, 0..10);
        assert!(wait(&attempts, here, operator).is_some(), "that was a day ago");
    }

    #[tokio::test(start_paused = true)]
    async fn who_shares_an_address_with_an_operator_tries_no_more_than_so_many_tokens() {
        let (attempts, here, operator) = (Attempts::default(), ip("192.0.2.1"), 5_000);
        attempts.passed(Some(here), token(operator), base::Clock.now());
        let mut tried = 0;
        for second in 0..60 {
            for number in (0..100).map(|number| second * 100 + number + 10_000) {
                // What would be told of the operator's token now is what is tried with this one.
                tried += usize::from(wait(&attempts, here, operator).is_none());
                if wait(&attempts, here, number).is_none() {
                    attempts.failed(Some(here), token(number), base::Clock.now());
                }
            }
            assert!(wait(&attempts, here, operator).is_some(), "a flood keeps the operator out");
            tokio::time::advance(SECOND).await;
            assert_eq!(wait(&attempts, here, operator), None, "and nothing less");
        }
        assert!(tried <= 60 * LOOKS as usize + MOST, "{tried} guesses in a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn an_ipv6_network_is_one_guesser_and_a_mapped_address_is_the_one_it_maps() {
        let attempts = Attempts::default();
        (0..10).for_each(|host| guess(&attempts, ip(&format!("2001:db8::{host}")), host..host + 1));
        assert!(wait(&attempts, ip("2001:db8::ffff"), 99).is_some());
        assert!(wait(&attempts, ip("2001:db8:0:1::1"), 99).is_none());
        guess(&attempts, ip("::ffff:192.0.2.1"), 0..10);
        assert!(wait(&attempts, ip("192.0.2.1"), 99).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_addresses_makes_the_list_longer_than_it_may_be_or_an_operator_unknown() {
        let (attempts, operator) = (Attempts::default(), ip("198.51.100.1"));
        (0..2 * TOKENS).for_each(|number| attempts.passed(Some(operator), token(number), base::Clock.now()));
        for host in 0..2_000_u32 {
            guess(&attempts, IpAddr::V4(host.into()), 0..10);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(attempts.0.lock().unwrap().wrong.len(), ADDRESSES);
        let waits = |host: u32| wait(&attempts, IpAddr::V4(host.into()), 99).is_some();
        assert!(waits(1_999) && !waits(0), "the newest are known, the oldest are not");
        assert_eq!(attempts.0.lock().unwrap().right[&Some(operator)].len(), TOKENS);
    }
}
