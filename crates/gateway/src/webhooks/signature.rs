//! How a delivery is signed: the Standard Webhooks specification, version 1.0.0, symmetric form
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use config::SigningKey;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The value of `webhook-signature`: HMAC-SHA-256 of `id.timestamp.body`. `timestamp` is that of the try, in
/// seconds since the Unix epoch.
pub fn signature(key: &SigningKey, id: &str, timestamp: u64, body: &[u8]) -> String {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.expose()) else { return String::new() };
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the specification's own libraries are tested with.
    #[test]
    fn a_delivery_is_signed_as_others_verify_it() {
        let key = SigningKey::new(&BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap());
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
