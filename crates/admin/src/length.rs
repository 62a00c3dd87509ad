//! Durations in bodies: written as in the configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

/// `250ms`, `3s`, `1.5m`, `1h`, or a bare whole number of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "Value")]
#[schema(value_type = String, examples("250ms", "3s", "10m"))]
pub struct Length(pub Duration);

impl TryFrom<Value> for Length {
    type Error = String;

    fn try_from(written: Value) -> Result<Self, String> {
        let text = match &written {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let read = text.as_deref().and_then(config::duration);
        if text.as_deref().is_some_and(config::is_too_long) {
            return Err(format!("is {written}, which is too long; write ten years (\"3650d\") at most"));
        }
        read.map(Self).ok_or_else(|| {
            format!(
                "is {written}, but must be a duration such as \"250ms\", \"3s\" or \"10m\", or a number of milliseconds"
            )
        })
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Length {
    /// In the largest unit of which it is a whole number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = self.0.as_millis();
        let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        match units.into_iter().find(|(_, size)| millis > 0 && millis.is_multiple_of(*size)) {
            Some((unit, size)) => write!(f, "{}{unit}", millis / size),
            None => write!(f, "{millis}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_read_and_written_as_in_the_configuration() {
        for (written, millis, shown) in [
            ("\"250ms\"", 250, "250ms"),
            ("\"1.5s\"", 1_500, "1500ms"),
            ("\"90s\"", 90_000, "90s"),
            ("600000", 600_000, "10m"),
            ("\"1h\"", 3_600_000, "1h"),
            ("0", 0, "0ms"),
        ] {
            let length: Length = serde_json::from_str(written).unwrap();
            assert_eq!((length.0.as_millis(), length.to_string().as_str()), (millis, shown));
        }
        for wrong in ["\"soon\"", "-5", "1.5", "true", "{}", "\"\""] {
            assert!(serde_json::from_str::<Length>(wrong).is_err(), "{wrong}");
        }
        let too_long = serde_json::from_str::<Length>("\"4000d\"").unwrap_err().to_string();
        assert!(too_long.contains("ten years"), "{too_long}");
    }
}
