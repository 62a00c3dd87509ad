//! Figures of measures that compare two gateways: the median of the rounds, the least and the most.

use std::io::{self, Write as _};

/// Figures by name, in the order in which they came.
#[derive(Default)]
pub(crate) struct Figures(Vec<(&'static str, Vec<f64>)>);

impl Figures {
    /// One round's.
    pub(crate) fn add(&mut self, name: &'static str, value: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => self.0.push((name, vec![value])),
        }
    }

    /// One line for each figure.
    pub(crate) fn print(mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (name, values) in &mut self.0 {
            values.sort_by(f64::total_cmp);
            let (Some(least), Some(most)) = (values.first(), values.last()) else { continue };
            let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
            writeln!(out, "{name:<72} {median:.3} ({least:.3} to {most:.3})")?;
        }
        Ok(())
    }
}

/// A count as a number to reckon with.
#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are plenty")]
pub(crate) const fn float(value: u64) -> f64 {
    value as f64
}
