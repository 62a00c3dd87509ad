//! The versions of knowledge bases that operators have set, which go before those of the configuration, and which of
//! them a call rests on.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{Clock, Dice};
use config::Route;
use state::{Answer, Damage, Unreadable, Versioned, Versions};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// What is set, as cache keys read it.
#[derive(Debug)]
pub struct KbVersions {
    store: Arc<dyn Versions>,
    /// `None` until the store has told.
    set: ArcSwap<Option<Versioned>>,
    /// What is being set, one at a time: of two answers of the store the later one is the newer. Held by whoever asks.
    setting: Mutex<JoinSet<Result<bool, Unreadable>>>,
    /// Stands for every version while the store has not told: what was stored under another is not served then.
    unknown: Arc<str>,
    /// What befell the store last.
    damage: std::sync::Mutex<Option<Damage>>,
}

/// The version of a knowledge base that a call's answer rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KbVersion {
    /// The version; `None` where the route has none.
    pub name: Option<Arc<str>>,
    /// The caller has named it: what operators set does not change it.
    is_told: bool,
}

impl KbVersion {
    /// As the configuration tells it.
    #[must_use]
    pub fn configured(route: &Route) -> Self {
        Self { name: route.cache.kb_version.clone(), is_told: false }
    }
}

/// How often it is looked whether the store still has what is set.
const LOOK: Duration = Duration::from_secs(15);
/// How often a store that is out is asked again.
const AGAIN: Duration = Duration::from_secs(1);

impl KbVersions {
    pub(crate) fn new(store: Arc<dyn Versions>, dice: &Dice) -> Self {
        // What is there without waiting is known from the start.
        let set = match store.all() {
            Answer::Ready(told) => told.ok(),
            Answer::Later(_) => None,
        };
        let unknown = format!("not known yet {:016x}{:016x}", dice.bits(), dice.bits()).into();
        Self {
            store,
            set: ArcSwap::from_pointee(set),
            setting: Mutex::default(),
            unknown,
            damage: std::sync::Mutex::default(),
        }
    }

    /// What is set for a route; `None` where its configuration decides.
    #[must_use]
    pub fn of(&self, route: &str) -> Option<Arc<str>> {
        match &**self.set.load() {
            Some(set) => set.get(route).cloned(),
            None => Some(self.unknown.clone()),
        }
    }

    /// The one that a call on a route rests on: what the caller has `told`, else what is set, else the configuration's.
    #[must_use]
    pub fn for_call(&self, route: &Route, told: Option<&str>) -> KbVersion {
        match told {
            Some(told) => KbVersion { name: Some(told.into()), is_told: true },
            None => KbVersion { name: self.of(&route.name).or_else(|| route.cache.kb_version.clone()), is_told: false },
        }
    }

    /// Whether a call that began with this version would begin with it now.
    #[must_use]
    pub fn still_holds(&self, route: &Route, version: &KbVersion) -> bool {
        version.is_told || *version == self.for_call(route, None)
    }

    /// All that are set; `None` while that is not known.
    #[must_use]
    pub fn all(&self) -> Option<Versioned> {
        Option::clone(&self.set.load())
    }

    /// Sets a route's, or with `None` leaves it to the configuration again. What has begun is brought to its end, also
    /// where whoever asked goes away: what the store has and what is known here are the same. Says whether that changes
    /// anything.
    ///
    /// # Errors
    /// What keeps the store from it; nothing has changed then.
    pub async fn set(self: &Arc<Self>, route: Arc<str>, version: Option<Arc<str>>) -> Result<bool, Unreadable> {
        let mut setting = self.setting.lock().await;
        // What somebody began who has left.
        while setting.join_next().await.is_some() {}
        let this = self.clone();
        setting.spawn(async move {
            // What the store has lost would be missing in its answer.
            this.make_good().await?;
            let is_new = this.all().is_none_or(|set| set.get(&route) != version.as_ref());
            let set = this.store.set(route, version).await?;
            this.set.store(Arc::new(Some(set)));
            Ok(is_new)
        });
        let lost = || Err(Unreadable("the setting was lost; please report this".to_owned()));
        setting.join_next().await.and_then(Result::ok).unwrap_or_else(lost)
    }

    /// What befell the store last, where something has since the start.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the store write anew what it has lost. Held up by nobody who sets something, since whoever calls this holds
    /// `setting`.
    async fn make_good(&self) -> Result<(), Unreadable> {
        let Some(known) = self.all() else { return Ok(()) };
        if let Some(what) = self.store.keep(known).await? {
            tracing::warn!("the file of versions of knowledge bases has come to harm: {what}");
            Damage::note(&mut self.damage.lock().unwrap_or_else(PoisonError::into_inner), Clock.wall(), what);
        }
        Ok(())
    }

    /// Looks whether the store still has what is set, and has it written anew where it has not.
    ///
    /// # Errors
    /// What keeps the store from it.
    pub async fn look(&self) -> Result<(), Unreadable> {
        let mut setting = self.setting.lock().await;
        while setting.join_next().await.is_some() {}
        self.make_good().await
    }

    /// The same every now and then, for ever.
    pub async fn keep_looking(&self) {
        let mut is_told = false;
        loop {
            tokio::time::sleep(LOOK).await;
            match self.look().await {
                Ok(()) => is_told = false,
                Err(error) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!("it is not known whether the `kb_version` that is set is written down: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// Asks the store for what is set until it tells.
    pub async fn open(&self) {
        let mut is_told = false;
        while self.set.load().is_none() {
            let mut setting = self.setting.lock().await;
            while setting.join_next().await.is_some() {}
            match self.store.all().await {
                Ok(set) => self.set.store(Arc::new(Some(set))),
                Err(error) => {
                    drop(setting);
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(
                            "nothing stored before is served until it is known which `kb_version` is set: {error}"
                        );
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use state::InProcessVersions;

    use super::*;

    /// Writes at once, and tells of it later: of the first write last.
    #[derive(Debug, Default)]
    struct Slow(InProcessVersions, AtomicUsize);

    impl Versions for Slow {
        fn all(&self) -> Answer<Result<Versioned, Unreadable>> {
            self.0.all()
        }

        fn set(&self, route: Arc<str>, version: Option<Arc<str>>) -> Answer<Result<Versioned, Unreadable>> {
            let wait = Duration::from_millis(200 / (1 + self.1.fetch_add(1, Relaxed) as u64));
            let set = self.0.set(route, version);
            Answer::Later(Box::pin(async move {
                tokio::time::sleep(wait).await;
                set.await
            }))
        }
    }

    fn versions() -> Arc<KbVersions> {
        Arc::new(KbVersions::new(Arc::<Slow>::default(), &Dice::fair()))
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_are_set_at_a_time_the_later_one_holds() {
        let versions = versions();
        let set = |version: &'static str| versions.set("chat".into(), Some(version.into()));
        let (first, second) = tokio::join!(set("1"), set("2"));
        assert_eq!((first, second), (Ok(true), Ok(true)));
        assert_eq!(versions.of("chat").as_deref(), Some("2"));
        assert_eq!(set("2").await, Ok(false), "it is set already");
    }

    /// Forgets everything when it is told to.
    #[derive(Debug, Default)]
    struct Forgetful(std::sync::Mutex<InProcessVersions>);

    impl Versions for Forgetful {
        fn all(&self) -> Answer<Result<Versioned, Unreadable>> {
            self.0.lock().unwrap().all()
        }

        fn set(&self, route: Arc<str>, version: Option<Arc<str>>) -> Answer<Result<Versioned, Unreadable>> {
            self.0.lock().unwrap().set(route, version)
        }

        fn keep(&self, known: Versioned) -> Answer<Result<Option<String>, Unreadable>> {
            let store = self.0.lock().unwrap();
            for (route, version) in known {
                drop(store.set(route, Some(version)));
            }
            Answer::Ready(Ok(Some("it was emptied".to_owned())))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_has_forgotten_is_told_again_before_anything_else_is_set() {
        let store = Arc::<Forgetful>::default();
        let versions = Arc::new(KbVersions::new(store.clone(), &Dice::fair()));
        versions.set("chat".into(), Some("1".into())).await.unwrap();
        *store.0.lock().unwrap() = InProcessVersions::default();
        versions.set("other".into(), Some("2".into())).await.unwrap();
        assert_eq!((versions.of("chat").as_deref(), versions.of("other").as_deref()), (Some("1"), Some("2")));
        let looking = versions.clone();
        *store.0.lock().unwrap() = InProcessVersions::default();
        let task = tokio::spawn(async move { looking.keep_looking().await });
        tokio::time::sleep(LOOK * 2).await;
        assert_eq!(store.all().await.unwrap().len(), 2, "also while nothing is set");
        assert!(versions.damage().is_some_and(|damage| damage.times >= 2 && damage.what == "it was emptied"));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_is_known_also_where_whoever_asked_went_away() {
        let versions = versions();
        let setting = versions.set("chat".into(), Some("1".into()));
        assert!(tokio::time::timeout(Duration::from_millis(10), setting).await.is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(versions.of("chat").as_deref(), Some("1"));
    }
}
