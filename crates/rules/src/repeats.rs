//! Who still repeats: the same call of one client seen again within a minute, and whose name is told.

use std::collections::HashMap;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// For how long a call is remembered, in seconds.
const MEMORY: u64 = 60;

/// How many calls are remembered at most.
const MOST: usize = 65_536;

/// After so long without a repeat a client's next one is news again.
const QUIET: Duration = Duration::from_secs(600);

/// The calls of the last minute, by fingerprint: of client and body, or of client and request id.
///
/// At most 65,536 of them, in two generations of a minute: the older one is dropped whole when a new
/// one begins. When both are full, new calls are not remembered.
#[derive(Debug, Default)]
pub struct Repeats {
    /// Seen in the present minute, each with its last second.
    young: HashMap<u64, u64>,
    /// Seen in the minute before, and not since.
    old: HashMap<u64, u64>,
    /// The number of the present minute.
    minute: u64,
}

impl Repeats {
    /// Whether the same was seen within the last minute; from now on it has been. `at` is the time since
    /// any epoch that is kept to.
    pub fn seen(&mut self, fingerprint: u64, at: Duration) -> bool {
        let second = at.as_secs();
        self.turn(second / MEMORY);
        let before = self.old.remove(&fingerprint).or_else(|| self.young.get(&fingerprint).copied());
        if before.is_some() || self.young.len() + self.old.len() < MOST {
            self.young.insert(fingerprint, before.map_or(second, |before| before.max(second)));
        }
        before.is_some_and(|before| second.saturating_sub(before) < MEMORY)
    }

    /// Begins a new generation where its minute has come.
    fn turn(&mut self, minute: u64) {
        if minute <= self.minute {
            return;
        }
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        if minute > self.minute + 1 {
            self.old.clear();
        }
        self.minute = minute;
    }
}

/// The clients whose repeats the operator has been told of.
///
/// It holds those clients that have repeated within the last ten minutes, each once.
#[derive(Debug, Default)]
pub struct Told {
    /// Each client's last repeat.
    last: HashMap<Box<str>, Duration>,
}

impl Told {
    /// A client has repeated a call: whether that is news, for it had not for ten minutes. `at` is the
    /// time since any epoch that is kept to.
    pub fn tell(&mut self, client: &str, at: Duration) -> bool {
        if let Some(last) = self.last.get_mut(client) {
            let quiet = at.saturating_sub(*last);
            *last = at.max(*last);
            return quiet >= QUIET;
        }
        self.last.retain(|_, last| at.saturating_sub(*last) < QUIET);
        self.last.insert(client.into(), at);
        true
    }
}
