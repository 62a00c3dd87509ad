//! Who may call.

use super::Preset::{Is, Nothing, Words};
use super::{Key, Kind, SHARE, Section, key, needed};

pub(super) const SECTIONS: &[Section] = &[Section { under: &["clients[]."], keys: CLIENT }];

const CLIENT: &[Key] = &[
    needed("name", Kind::Name, "The team's name, in records and metrics."),
    key("keys", Kind::List(&Kind::Secret), Nothing, "Its keys, at most 1,000, plain or as `sha256:<hex>`."),
    key(
        "routes",
        Kind::List(&Kind::Either(&[Kind::Glob, Kind::Table])),
        Nothing,
        "The routes that it may use, `*` for any run of characters; none, no access. Reading a configuration, a pattern that \
         begins with `*` is held against every route, others against those alone that begin as they do.",
    ),
    needed("routes[].name", Kind::Glob, "The route, or a pattern of routes."),
    key("deadline", Kind::Duration, Words("the route's"), "The whole call; the shorter of this and the route's holds."),
    key(
        "priority",
        Kind::Choice(&["online", "batch"]),
        Is("online"),
        "`online` passes `batch` wherever a place is scarce; `batch` may wait.",
    ),
    key("quota", Kind::Table, Nothing, "A budget, refused when spent."),
    key("quota.tokens", Kind::Integer(1, 1_000_000_000_000_000), Nothing, "Tokens in each period, read and written."),
    key(
        "quota.cost",
        Kind::Above(0.0, 9e9),
        Nothing,
        "Money in each period; what is paid in another currency, or at a price that nobody knows, does not count.",
    ),
    key("quota.currency", Kind::Text, Is("USD"), "The currency of `cost`."),
    key("quota.per", Kind::Choice(&["day", "month"]), Is("month"), "The period."),
    key("quota.timezone", Kind::Text, Is("UTC"), "Where periods begin at midnight, such as `Asia/Shanghai`."),
    key("quota.warn", Kind::List(&SHARE), Is("[0.8, 0.95]"), "Shares at which a warning is given."),
    key("on_failure", Kind::Choice(&["error", "degrade", "stale"]), Words("the route's"), "Overrides the route's."),
    key("cache", Kind::Table, Nothing, "Cached answers."),
    key("cache.scope", Kind::Choice(&["client", "route"]), Words("the route's"), "Overrides the route's."),
];
