//! A change whose end nobody has seen: what is kept is found out, and taken into force.

use std::time::Duration;

use admin::NotChanged;
use config::{Provider, Snapshot};
use state::Unreadable;
use tokio::sync::MutexGuard;

use super::{Compiled, Configuration, State, all, read_aside};

/// A store that did not answer is asked again so often.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

impl Configuration {
    /// Takes what is kept into force, where it is not certain that it is. Nothing else is changed before: whoever makes
    /// a change must see what it is made to.
    pub(super) async fn settle(&self, state: &mut MutexGuard<'_, State>) -> Result<(), Unreadable> {
        if !state.is_uncertain {
            return Ok(());
        }
        let held = all(&*self.0.parts.live.objects).await?;
        let (origin, sound) = (self.0.origin.clone(), state.sound.clone());
        let compiled = read_aside(move || origin.compile(&sound, held)).await?;
        let compiled = compiled.map_err(|errors| {
            let problem = errors.problems.first().map(ToString::to_string).unwrap_or_default();
            Unreadable(format!("what was kept does not fit the files any more, mend them: {problem}"))
        })?;
        self.put_to_files_in_force(state, compiled).await?;
        state.is_uncertain = false;
        Ok(())
    }

    /// Takes into force what is the same files with other objects.
    pub(super) async fn put_to_files_in_force(
        &self,
        state: &mut MutexGuard<'_, State>,
        compiled: Compiled,
    ) -> Result<(), Unreadable> {
        let snapshot = &compiled.loaded.snapshot;
        if are_reached_otherwise(&self.0.parts.live.running().snapshot, snapshot) {
            self.0.parts.shared.forget(snapshot.general.resolver_refresh);
        }
        self.0.parts.watched.also(&compiled.loaded.files);
        self.put_in_force(state, compiled).await
    }

    /// The end of a change was not seen.
    pub(super) fn lose_sight(&self, state: &mut MutexGuard<'_, State>, why: Unreadable) -> NotChanged {
        state.is_uncertain = true;
        tracing::warn!("a change through the admin API may have been kept, and is not in force yet: {why}");
        self.find_out(state);
        NotChanged::Unknown(why)
    }

    /// Says in `/readyz` what keeps something from coming into force.
    pub(super) fn tell(&self, state: &MutexGuard<'_, State>) {
        let trouble = state.trouble.iter();
        self.0.parts.last.note(state.refused.iter().chain(trouble).cloned().collect());
    }
}

/// Whether names have to be asked for again, and TLS settings forgotten: a provider is reached another way than before.
fn are_reached_otherwise(before: &Snapshot, now: &Snapshot) -> bool {
    let way = |provider: &Provider| (provider.origin.clone(), provider.ca.clone(), provider.proxy.clone());
    let known: std::collections::HashMap<_, _> =
        before.providers.iter().map(|provider| (&provider.name, way(provider))).collect();
    now.providers.iter().any(|provider| known.get(&provider.name) != Some(&way(provider)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(providers: &str, route: &str) -> Snapshot {
        let text =
            format!("providers: [{providers}]\nroutes: [{{ name: chat, upstreams: [{{ provider: a }}]{route} }}]\n");
        let source = config::Source::Text { name: "gateway.yaml".to_owned(), text };
        config::load(&source, &|_| None, &base::KeyHasher::new(&[0; 64])).unwrap().snapshot
    }

    #[test]
    fn names_are_asked_for_again_where_a_provider_is_reached_otherwise_and_not_for_a_routes_change() {
        const A: &str = "{ name: a, base_url: \"http://a/v1\", api_key: one }";
        let before = snapshot(A, "");
        let otherwise = |providers: &str, route: &str| are_reached_otherwise(&before, &snapshot(providers, route));
        assert!(!otherwise(A, ", limit: { qps: 5 }"));
        assert!(!otherwise("{ name: a, base_url: \"http://a/other\", api_key: two }", ""), "the same host");
        assert!(otherwise("{ name: a, base_url: \"http://b/v1\", api_key: one }", ""));
        assert!(otherwise("{ name: a, base_url: \"http://a/v1\", proxy: \"http://p:1\" }", ""));
        assert!(otherwise(&format!("{A}, {{ name: b, base_url: \"http://b/v1\" }}"), ""), "a new one");
    }
}
