//! Durations and sizes as the scenario writes them.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `250ms`, `3s`, `1.5s`, `5m`, or a bare number of milliseconds.
pub(crate) fn duration(value: &Value) -> Result<Duration, String> {
    let wrong = || format!("`{value}` is not a duration: write 250ms, 3s, 5m or a number of milliseconds");
    let (number, unit) = match value {
        Value::Number(number) => (number.to_string(), "ms"),
        Value::String(text) => {
            let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
            let (number, unit) = text.split_at_checked(split).ok_or_else(wrong)?;
            (number.trim().to_owned(), unit)
        }
        _ => return Err(wrong()),
    };
    let scale = match unit {
        "us" => 1e-6,
        "ms" | "" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())
}

pub(crate) fn de_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(&Value::deserialize(from)?).map_err(D::Error::custom)
}

pub(crate) fn de_some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    de_duration(from).map(Some)
}

/// Keeps a written `null` apart from an absent key.
pub(crate) fn de_some_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}
