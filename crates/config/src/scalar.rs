//! Scalars read as what a key wants.

use crate::node::{Core, Scalar, Style};

impl Scalar {
    /// A value as the table writes its defaults.
    pub fn preset(text: &str) -> Self {
        Self { text: text.to_owned(), style: Style::Variable }
    }

    /// Text: anything but what YAML reads as null, a truth or a number.
    pub fn as_text(&self) -> Option<&str> {
        (self.core() == Core::Text).then_some(self.text.as_str())
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.bare()?.core() {
            Core::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A whole number; one that does not fit is the largest.
    pub fn as_integer(&self) -> Option<u64> {
        let bare = self.bare()?;
        if bare.core() != Core::Integer {
            return None;
        }
        let (digits, radix) = if let Some(octal) = bare.text.strip_prefix("0o") {
            (octal, 8)
        } else if let Some(hex) = bare.text.strip_prefix("0x") {
            (hex, 16)
        } else {
            (bare.text.strip_prefix('+').unwrap_or(&bare.text), 10)
        };
        if digits.starts_with('-') {
            return None;
        }
        Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
    }

    /// A finite number.
    pub fn as_number(&self) -> Option<f64> {
        let bare = self.bare()?;
        let number = match bare.core() {
            Core::Integer if bare.text.starts_with("0o") || bare.text.starts_with("0x") => self.as_integer()? as f64,
            Core::Integer | Core::Float => bare.text.parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// A length of time or a size is the same with and without quotes.
    pub fn as_quantity<T>(&self, read: fn(&str) -> Option<T>) -> Option<T> {
        read(&self.text)
    }

    /// The scalar as if it stood there without quotes; none where it was put in quotes.
    fn bare(&self) -> Option<Self> {
        (self.style != Style::Quoted).then(|| Self { text: self.text.clone(), style: Style::Plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar { text: text.into(), style: Style::Plain }
    }

    #[test]
    fn numbers_are_numbers_only_without_quotes() {
        assert_eq!(plain("12").as_integer(), Some(12));
        assert_eq!(plain("+12").as_integer(), Some(12));
        assert_eq!(plain("0x10").as_integer(), Some(16));
        assert_eq!(plain("-1").as_integer(), None);
        assert_eq!(plain("1.0").as_integer(), None);
        assert_eq!(plain("99999999999999999999999").as_integer(), Some(u64::MAX));
        assert_eq!(Scalar { text: "12".into(), style: Style::Quoted }.as_integer(), None);
        assert_eq!(Scalar { text: "12".into(), style: Style::Variable }.as_integer(), Some(12));
        assert_eq!(plain("1e3").as_number(), Some(1000.0));
        assert_eq!(plain(".inf").as_number(), None);
        assert_eq!(plain("12").as_text(), None);
        assert_eq!(plain("yes").as_bool(), None);
        assert_eq!(plain("true").as_bool(), Some(true));
    }
}
