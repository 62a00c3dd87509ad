//! Entries in memory: added up by quarter of an hour and names, so that their number is bounded by the
//! configuration and by time, not by traffic.

use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt as _};

use crate::{Entry, QUARTER, Question, Row, Sums};

/// What entries are added up by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Quarters of an hour since the Unix epoch.
    quarter: u64,
    client: Arc<str>,
    route: Arc<str>,
    upstream: Arc<str>,
    model: Arc<str>,
    currency: Arc<str>,
}

/// Entries, added up.
#[derive(Clone, Debug, Default)]
pub struct Book {
    sums: HashMap<Key, Sums>,
}

impl Book {
    /// Adds an entry. One that is alike no other is lost where `most` are here already. Gives the number
    /// of calls whose use was lost.
    #[must_use]
    pub fn add(&mut self, entry: Entry, most: usize) -> u64 {
        let Entry { at, client, route, upstream, model, currency, sums } = entry;
        let key = Key { quarter: at.as_secs() / QUARTER, client, route, upstream, model, currency };
        self.put(key, sums, most)
    }

    fn put(&mut self, key: Key, sums: Sums, most: usize) -> u64 {
        let is_full = self.sums.len() >= most;
        match self.sums.entry(key) {
            Slot::Occupied(mut known) => *known.get_mut() = known.get().plus(sums),
            Slot::Vacant(_) if is_full => return sums.requests,
            Slot::Vacant(free) => {
                free.insert(sums);
            }
        }
        0
    }

    /// Adds all that another holds, as [`Book::add`] does.
    #[must_use]
    pub fn add_all(&mut self, other: Self, most: usize) -> u64 {
        if self.sums.is_empty() {
            self.sums = other.sums;
            return 0;
        }
        other.sums.into_iter().map(|(key, sums)| self.put(key, sums, most)).fold(0, u64::saturating_add)
    }

    /// Different entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Forgets every entry.
    pub fn clear(&mut self) {
        self.sums.clear();
        // A long outage's memory is given back.
        self.sums.shrink_to(1024);
    }

    /// Every entry, `at` being the beginning of its quarter.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.sums.iter().map(|(key, sums)| Entry {
            at: Duration::from_secs(key.quarter * QUARTER),
            client: key.client.clone(),
            route: key.route.clone(),
            upstream: key.upstream.clone(),
            model: key.model.clone(),
            currency: key.currency.clone(),
            sums: *sums,
        })
    }

    /// Answers a question from what is here.
    #[must_use]
    pub fn report(&self, question: &Question) -> Vec<Row> {
        let (from, to) = question.quarters();
        let within = |key: &Key| {
            (from..to).contains(&key.quarter) && question.client.as_ref().is_none_or(|client| *client == key.client)
        };
        let mut rows: HashMap<Key, Sums> = HashMap::new();
        for (key, sums) in self.sums.iter().filter(|(key, _)| within(key)) {
            let known = rows.entry(question.row_of(key)).or_default();
            *known = known.plus(*sums);
        }
        let row = |(key, sums): (Key, Sums)| Row {
            day: question.by.day.then(|| u32::try_from(key.quarter).unwrap_or(u32::MAX)),
            client: key.client,
            route: key.route,
            upstream: key.upstream,
            model: key.model,
            currency: key.currency,
            sums,
        };
        rows.into_iter().map(row).collect()
    }
}

/// Quarters of an hour in a day.
const QUARTERS: u64 = 24 * 60 * 60 / QUARTER;

impl Question {
    /// The quarters since the Unix epoch that it is about, the last one excluded.
    #[must_use]
    pub fn quarters(&self) -> (u64, u64) {
        let whole = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let from = self.from.as_secs() / QUARTER;
        (from, self.to.map_or(u64::from(u32::MAX), |to| whole(to).div_ceil(QUARTER)))
    }

    /// The row that an entry belongs to: what is not asked for is empty, and a day stands in the
    /// place of the quarter.
    fn row_of(&self, key: &Key) -> Key {
        let name = |wanted: bool, name: &Arc<str>| if wanted { name.clone() } else { Arc::default() };
        Key {
            quarter: if self.by.day { key.quarter / QUARTERS } else { 0 },
            client: name(self.by.client, &key.client),
            route: name(self.by.route, &key.route),
            upstream: name(self.by.upstream, &key.upstream),
            model: name(self.by.model, &key.model),
            currency: key.currency.clone(),
        }
    }
}

/// Adds rows up that stand for the same, as those of two books do.
#[must_use]
pub fn joined(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    type Names = [Arc<str>; 5];
    let mut sums: HashMap<(Option<u32>, Names), Sums> = HashMap::new();
    for row in rows {
        let names = [row.client, row.route, row.upstream, row.model, row.currency];
        let known = sums.entry((row.day, names)).or_default();
        *known = known.plus(row.sums);
    }
    let row = |((day, names), sums): ((Option<u32>, Names), Sums)| {
        let [client, route, upstream, model, currency] = names;
        Row { day, client, route, upstream, model, currency, sums }
    };
    sums.into_iter().map(row).collect()
}
