//! Reconciling: where the ledger's file has lost entries, what quotas have counted of them is entered again. So a quota
//! never begins anew because a file did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Period;
use foldhash::HashMap;
use state::{Amounts, Columns, Entry, Question, Row, Sums, Unreadable};

use super::UsageLedger;
use crate::quota::quotas::Counted;

impl UsageLedger {
    /// Whether the ledger may hold something else than what was booked, and was not reconciled since.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.store.health().changes != self.reconciled.load(Ordering::Relaxed)
    }

    /// Enters what the ledger lacks of what quotas have counted, on no route. Both lists are sums by client and period:
    /// `before` is of a moment ago, so that all of it has been booked, and `counted` is of now (`at`). A ledger that
    /// holds all of `before` lacks nothing. One that does not is given `counted` less what it holds; what was booked
    /// between the two may then stand in it twice, since a quota should rather end early than late. One at a time.
    ///
    /// # Errors
    /// The ledger does not tell what it has; nothing is entered then.
    pub(crate) async fn reconcile(
        &self,
        before: &[Counted],
        counted: Vec<Counted>,
        at: Duration,
    ) -> Result<(), Unreadable> {
        let changes = self.store.health().changes;
        let before: HashMap<_, _> = before.iter().map(|one| ((&*one.client, one.period), one.spent)).collect();
        let mut periods: BTreeMap<(u64, u64), (Period, Vec<Counted>)> = BTreeMap::new();
        for one in counted {
            let key = (one.period.start, one.period.end);
            periods.entry(key).or_insert_with(|| (one.period, Vec::new())).1.push(one);
        }
        // All of them are asked before one is waited for: what is booked from now on is in no answer.
        let asked = periods.into_values().map(|(period, counted)| {
            let (from, to) = (Duration::from_secs(period.start), Some(Duration::from_secs(period.end)));
            let by = Columns { client: true, ..Columns::default() };
            (counted, self.store.report(Question { from, to, by, client: None }))
        });
        let asked: Vec<_> = asked.collect();
        let mut lacking = Vec::new();
        for (counted, answer) in asked {
            let rows = answer.await?;
            lacking.extend(counted.iter().filter_map(|counted| {
                let booked = before.get(&(&*counted.client, counted.period)).copied().unwrap_or_default();
                lacks(&rows, (booked, counted), at)
            }));
        }
        self.reconciled.store(changes, Ordering::Relaxed);
        if !lacking.is_empty() {
            tracing::info!(
                clients = lacking.len(),
                "the usage ledger lacked what quotas have counted: that is in it again, on no route"
            );
            self.book(lacking);
        }
        Ok(())
    }
}

/// The entry that brings the ledger up to what a quota has `counted`, if it lacks any of what was `booked`.
fn lacks(rows: &[Row], (booked, counted): (Amounts, &Counted), at: Duration) -> Option<Entry> {
    let own = rows.iter().filter(|row| row.client == counted.client);
    let known = own.fold(Amounts::default(), |sum, row| {
        let tokens = row.sums.tokens_in.saturating_add(row.sums.tokens_out);
        let cost = if row.currency == counted.currency { row.sums.cost } else { 0 };
        sum.plus(Amounts { tokens, cost })
    });
    let (Amounts { tokens, cost }, lost) = (counted.spent.less(known), booked.less(known));
    let (tokens, cost) = (if lost.tokens > 0 { tokens } else { 0 }, if lost.cost > 0 { cost } else { 0 });
    let nobody = Arc::default;
    (tokens > 0 || cost > 0).then(|| Entry {
        at,
        client: counted.client.clone(),
        route: nobody(),
        upstream: nobody(),
        model: nobody(),
        currency: if cost > 0 { counted.currency.clone() } else { nobody() },
        sums: Sums { tokens_in: tokens, cost, ..Sums::default() },
    })
}
