//! What a call may ask for: the parameter policies of its route and its client.

pub mod params;

use base::Refusal;
use config::{Client, Route};
use dialect::Ask;

/// The call as it is to be answered. One that no policy touches stays the very same bytes.
///
/// # Errors
/// `parameter_denied`, or `invalid_request` for a field that a policy must be able to read.
pub fn shape(ask: Ask, route: &Route, client: &Client) -> Result<Ask, Refusal> {
    if route.params.is_empty() && client.params.is_empty() {
        return Ok(ask);
    }
    params::apply(ask, (&route.params, &client.params), &mut |_| {})
}
