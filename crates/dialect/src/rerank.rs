//! placeholder
use crate::ask::Fields;
use base::Refusal;

/// Top-level fields that the view reads.
pub const FIELDS: &[&str] = &["query", "documents", "texts", "top_n", "top_k", "return_documents"];

/// placeholder
#[derive(Clone, Debug, Default)]
pub struct View;

impl View {
    /// placeholder
    ///
    /// # Errors
    /// `invalid_request`
    pub fn read(fields: &Fields<'_>) -> Result<Self, Refusal> {
        fields.required("query")?;
        Ok(Self)
    }
}
