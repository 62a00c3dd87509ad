//! What clients may use in a period.

use std::collections::HashMap;
use std::sync::Arc;

use base::Globs;
use rules::quota::{Per, Terms, Zone};

use super::{Compiler, Directory};
use crate::List;
use crate::snapshot::{Client, Route};
use crate::view::View;

/// What a client may use in a period.
pub(super) fn terms(compiler: &mut Compiler<'_>, client: &View<'_>) -> Option<Terms> {
    let quota = client.at("quota");
    if !quota.is_written() {
        return None;
    }
    let (tokens, cost) = (quota.at("tokens"), quota.at("cost"));
    if !tokens.is_written() && !cost.is_written() {
        compiler.report(&quota, "bounds nothing; write `tokens` or `cost`");
    }
    if quota.at("currency").is_written() && !cost.is_written() {
        compiler.report(&quota.at("currency"), "is about `cost`, which is not written");
    }
    let money = cost.number().and_then(base::nanos);
    if money == Some(0) {
        let least = base::decimal(1);
        compiler.report(&cost, format!("is too little to be counted; write {least} or more, or remove it"));
    }
    let zone_view = quota.at("timezone");
    let Some(zone) = Zone::named(zone_view.text_or_preset()) else {
        let shown = zone_view.shown();
        compiler.report(&zone_view, format!("{shown} is no time zone; write one such as `Asia/Shanghai` or `UTC`"));
        return None;
    };
    Some(Terms {
        tokens: tokens.integer(),
        cost: money,
        currency: quota.at("currency").text_or_preset().into(),
        per: if quota.at("per").text_or_preset() == "day" { Per::Day } else { Per::Month },
        zone,
        warn: quota.at("warn").numbers(),
    })
}

/// A quota of money cannot count what costs an unknown price, or one in another currency: who sets it is
/// told, once for each upstream.
pub(super) fn check_costs(
    compiler: &mut Compiler<'_>,
    views: &[View<'_>],
    routes: &Directory<Route>,
    clients: &List<Arc<Client>>,
) {
    // Of every currency the first client that counts in it.
    let mut bounded = Globs::<HashMap<&str, usize>>::default();
    for (place, client) in clients.iter().enumerate() {
        let Some(terms) = client.quota.as_ref().filter(|terms| terms.cost.is_some()) else { continue };
        for glob in &client.routes {
            bounded.of(glob).entry(&terms.currency).or_insert(place);
        }
    }
    for view in views {
        let Some(route) = view.at("name").text().and_then(|name| routes.named(name)) else { continue };
        let mut counting: HashMap<&str, usize> = HashMap::new();
        for (currency, place) in bounded.fitting(&route.name).flatten() {
            counting.entry(currency).and_modify(|first| *first = *place.min(first)).or_insert(*place);
        }
        for upstream in &route.upstreams {
            let currency = upstream.price.as_ref().map(|price| &*price.currency);
            let uncounted = counting.iter().filter(|(wanted, _)| currency != Some(**wanted));
            let Some(client) = uncounted.map(|(_, place)| place).min().and_then(|place| clients.get(*place)) else {
                continue;
            };
            let wanted = client.quota.as_ref().map_or("", |terms| &*terms.currency);
            let what = match currency {
                None => "has no known price".to_owned(),
                Some(other) => format!("is priced in {other}, and not in {wanted}"),
            };
            let text = format!(
                "`{}` {what}: what it answers does not count against `quota.cost` of client `{}`; write `prices` for it",
                upstream.label, client.name
            );
            compiler.warn(&view.at("name"), text);
        }
    }
}
