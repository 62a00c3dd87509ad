//! Who is told of events.

use std::collections::HashMap;
use std::sync::Arc;

use base::Secret;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::destination::destination;
use super::{Compiler, Names, provider};
use crate::snapshot::Origin;
use crate::view::View;
use crate::webhook::{Occasion, SigningKey, Webhook};

/// What the Standard Webhooks specification puts before a secret in base64.
const PREFIX: &str = "whsec_";

/// Padding or none: both are in use for such secrets.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn compile(compiler: &mut Compiler<'_>, list: &View<'_>) -> Vec<Arc<Webhook>> {
    let mut names = Names::of("webhook");
    let mut places: HashMap<(Origin, http::uri::PathAndQuery), String> = HashMap::new();
    let mut hooks = Vec::new();
    for (index, view) in list.items().iter().enumerate() {
        let written = view.at("name");
        let name = written.text().map_or_else(|| index.to_string(), str::to_owned);
        names.take(compiler, &written, &name);
        let Some(hook) = webhook(compiler, view, &name) else { continue };
        if let Some(first) = places.insert(hook.to.place(), view.path().to_owned()) {
            compiler.report(
                &view.at("url"),
                format!("is the address of `{first}` too; write one webhook for both, with the events of both in `on`"),
            );
        }
        hooks.push(Arc::new(hook));
    }
    hooks
}

fn webhook(compiler: &mut Compiler<'_>, view: &View<'_>, name: &str) -> Option<Webhook> {
    let around = (provider::proxy(compiler, &view.at("proxy")), provider::ca(compiler, &view.at("ca")));
    let to = destination(compiler, &format!("webhook {name}"), &view.at("url"), around);
    let key = key(compiler, &view.at("secret"));
    let on = view.at("on");
    let named: Vec<&str> = on.items().iter().filter_map(View::text).collect();
    if on.is_written() && on.items().is_empty() {
        compiler.report(&on, "names no event; leave it out for all of them, or remove the webhook");
    }
    Some(Webhook {
        name: name.into(),
        to: to?,
        key: key?,
        secret: Secret::new(view.at("secret").text()?),
        on: Occasion::ALL.into_iter().filter(|on| named.is_empty() || named.contains(&on.as_str())).collect(),
    })
}

/// `whsec_` and base64, as the Standard Webhooks specification writes a secret, else its bytes as they are.
fn key(compiler: &mut Compiler<'_>, view: &View<'_>) -> Option<SigningKey> {
    let text = view.text()?;
    let Some(encoded) = text.strip_prefix(PREFIX) else { return Some(SigningKey::new(text.as_bytes())) };
    match BASE64.decode(encoded) {
        Ok(bytes) if !bytes.is_empty() => Some(SigningKey::new(&bytes)),
        _ => {
            compiler.report(
                view,
                "begins with `whsec_`, but what follows is no base64; copy the secret again, whole, or write one without `whsec_`",
            );
            None
        }
    }
}
