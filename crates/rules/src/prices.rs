//! What a call costs.

use std::sync::Arc;

use base::{Cost, Usage};

#[cfg(test)]
mod tests;

/// The price of one token, or of one search unit, in quadrillionths of the currency's unit: fine enough
/// for any price per million tokens with nine decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// From the price of a million; `None` for what is no price (negative, no number, above 18 billion).
    #[must_use]
    pub fn per_million(price: f64) -> Option<Self> {
        Self::of_femtos(price * 1e9)
    }

    /// From the price of one.
    #[must_use]
    pub fn per_one(price: f64) -> Option<Self> {
        Self::of_femtos(price * 1e15)
    }

    /// The price of a million, to be shown.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "what is shown is a float")]
    pub fn of_a_million(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The price of one, to be shown.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "what is shown is a float")]
    pub fn of_one(self) -> f64 {
        self.0 as f64 / 1e15
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
    fn of_femtos(femtos: f64) -> Option<Self> {
        let femtos = femtos.round();
        (0.0..1.8e19).contains(&femtos).then_some(Self(femtos as u64))
    }

    fn times(self, count: u64) -> u128 {
        u128::from(self.0) * u128::from(count)
    }
}

/// Rates of calls whose prompt has more tokens than `over`. What is not known is `None`, never free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// The prompt has more tokens than this.
    pub over: u64,
    /// A token read.
    pub prompt: Option<Rate>,
    /// A token read that the provider had in its prefix cache; unknown, it costs as much as any other.
    pub cached: Option<Rate>,
    /// A token written.
    pub completion: Option<Rate>,
}

/// What a model costs at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// Of every rate, such as `USD`.
    pub currency: Arc<str>,
    /// In rising order of `over`, which begins with 0.
    pub tiers: Vec<Tier>,
    /// A search unit. Where it is known, it is all that a call costs.
    pub unit: Option<Rate>,
}

/// Quadrillionths in a billionth.
const FEMTOS: u128 = 1_000_000;

impl Price {
    /// What a call costs that used so much, to the nearest billionth; `None` where a rate that it needs is
    /// not known.
    #[must_use]
    pub fn of(&self, usage: Usage) -> Option<Cost> {
        let femtos = match self.unit {
            Some(unit) if usage.units > 0 => unit.times(usage.units),
            _ => self.of_tokens(usage)?,
        };
        let nanos = u64::try_from((femtos + FEMTOS / 2) / FEMTOS).unwrap_or(u64::MAX);
        Some(Cost { nanos, currency: self.currency.clone() })
    }

    fn of_tokens(&self, usage: Usage) -> Option<u128> {
        let tier = self.tiers.iter().rev().find(|tier| tier.over == 0 || usage.prompt > tier.over)?;
        let cached = usage.cached.min(usage.prompt);
        let fresh = usage.prompt - cached;
        let part = |count: u64, rate: Option<Rate>| if count == 0 { Some(0) } else { Some(rate?.times(count)) };
        let parts = [
            part(fresh, tier.prompt)?,
            part(cached, tier.cached.or(tier.prompt))?,
            part(usage.completion, tier.completion)?,
        ];
        Some(parts.into_iter().fold(0, u128::saturating_add))
    }
}
