//! An alert as webhooks tell it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use config::Occasion;
use serde_json::{Value, json};

use crate::alerts::{Alert, Raised};
use crate::records::access_log::rfc3339;

/// Something that happened, once or several times, to one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// `type` in its body, and the label `event` of metrics.
    pub kind: &'static str,
    /// Of what webhooks are told.
    pub occasion: Occasion,
    /// What it is about: later events of the same object say more than earlier ones.
    pub object: Arc<str>,
    /// When it happened last, since the Unix epoch.
    pub at: Duration,
    /// How often, since an event of this object was told.
    pub count: u64,
    /// `data`, but for `count`.
    pub data: Value,
}

impl Event {
    /// The event of an alert.
    pub fn of((at, alert): Raised) -> Self {
        let (kind, occasion, object, count, data) = match alert {
            Alert::Quota { client, kind, share, per, until } => (
                "quota.warning",
                Occasion::Quota,
                // Every share is told of once in a period, and each at once.
                format!("quota {client} {kind} {share}"),
                1,
                json!({ "client": &*client, "kind": kind, "share": share, "per": per, "until": until }),
            ),
            Alert::Breaker { route, upstream, is_open, is_held } => (
                if is_open { "breaker.opened" } else { "breaker.closed" },
                Occasion::Breaker,
                format!("breaker {route} {upstream}"),
                1,
                json!({
                    "route": &*route,
                    "upstream": &*upstream,
                    "state": if is_open { "open" } else { "closed" },
                    "held": is_held,
                }),
            ),
            Alert::Dimension { route, upstream, why, count } => (
                "embedding.dimension_mismatch",
                Occasion::DimensionMismatch,
                format!("dimension {route} {upstream}"),
                count,
                json!({ "route": &*route, "upstream": &*upstream, "message": why }),
            ),
        };
        Self { kind, occasion, object: object.into(), at, count, data }
    }

    /// As it is delivered, under an id that no other event has.
    pub fn message(self, id: u128, environment: &str) -> Message {
        let mut data = self.data;
        if let Some(data) = data.as_object_mut() {
            data.insert("count".to_owned(), json!(self.count));
        }
        let body =
            json!({ "type": self.kind, "timestamp": rfc3339(self.at), "environment": environment, "data": data });
        Message { id: format!("msg_{id:032x}"), kind: self.kind, object: self.object, body: body.to_string().into() }
    }
}

/// What is delivered, to every webhook alike.
#[derive(Debug)]
pub struct Message {
    /// `webhook-id`, the same for every try.
    pub id: String,
    /// As of [`Event::kind`].
    pub kind: &'static str,
    /// As of [`Event::object`].
    pub object: Arc<str>,
    /// JSON, to the byte as it is signed and sent.
    pub body: Bytes,
}
