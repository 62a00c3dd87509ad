//! The rerank endpoint: the unified request and the unified answer.

use base::Refusal;

/// What is known of a rerank request.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What the documents are compared with.
    pub query: String,
}

impl View {
    /// Reads a body that is known to be a JSON object.
    ///
    /// # Errors
    /// `invalid_request` that names the field.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let _ = body;
        Ok(Self::default())
    }
}
