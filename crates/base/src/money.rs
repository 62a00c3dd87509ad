//! Money, exactly.

use std::sync::Arc;

/// An amount of one currency, in billionths of its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Billionths of the currency's unit.
    pub nanos: u64,
    /// The currency as written in the price, such as `USD`.
    pub currency: Arc<str>,
}

impl Cost {
    /// Both together, where they are of one currency.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        let is_one = self.currency == other.currency;
        is_one.then(|| Self { nanos: self.nanos.saturating_add(other.nanos), ..self })
    }
}

/// An amount that is written as a number, in billionths of its unit, to the nearest; `None` for what is
/// negative, no number or more than some nine billion.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
pub fn nanos(amount: f64) -> Option<u64> {
    let nanos = (amount * 1e9).round();
    (0.0..9e18).contains(&nanos).then_some(nanos as u64)
}

/// Billionths as a decimal number without needless zeros, such as `0.00015`.
#[must_use]
pub fn decimal(nanos: u64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_to_the_nearest_billionth_and_written_back() {
        for (amount, expected, shown) in [
            (0.0, 0, "0"),
            (0.1, 100_000_000, "0.1"),
            (0.000_000_001, 1, "0.000000001"),
            (1e-10, 0, "0"),
            (12.5, 12_500_000_000, "12.5"),
            (1e9, 1_000_000_000_000_000_000, "1000000000"),
        ] {
            assert_eq!(nanos(amount), Some(expected));
            assert_eq!(decimal(expected), shown);
        }
        assert_eq!([nanos(-1.0), nanos(f64::NAN), nanos(f64::INFINITY), nanos(1e10)], [None; 4]);
    }
}
