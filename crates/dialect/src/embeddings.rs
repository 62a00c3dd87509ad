//! placeholder
use crate::ask::Fields;
use base::Refusal;

/// Top-level fields that the view reads.
pub const FIELDS: &[&str] = &["input", "dimensions", "encoding_format"];

/// placeholder
#[derive(Clone, Debug, Default)]
pub struct View;

impl View {
    /// placeholder
    ///
    /// # Errors
    /// `invalid_request`
    pub fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        fields.required("input")?;
        Ok(Self)
    }
}
