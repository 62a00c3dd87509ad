//! What befell the file of a store, as `/readyz` shows it.

use serde_json::{Value, json};
use state::Damage;

/// Null where nothing has since the start.
pub(crate) fn shown(damage: Option<Damage>) -> Value {
    let shown = |Damage { at, what, times }| json!({ "at": at.as_secs(), "what": what, "times": times });
    damage.map_or(Value::Null, shown)
}
