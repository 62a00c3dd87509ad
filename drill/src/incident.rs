//! What an incident is: upstreams with their scripts, a route before them, callers, and what is promised to them.

use std::time::Duration;

/// One incident: a row of the table.
#[derive(Debug)]
pub(crate) struct Incident {
    /// The route's name, and the beginning of all other names.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// How many times faster than it was.
    pub(crate) factor: u32,
    /// Who answers; the first is the one that fails.
    pub(crate) upstreams: &'static [Upstream],
    /// Keys of the route, as YAML, but for its name, path and upstreams.
    pub(crate) route: &'static str,
    /// What is asked.
    pub(crate) call: Call,
    /// Who asks.
    pub(crate) groups: &'static [Group],
    /// When the first upstream is sick; none where it is a share of its calls, from beginning to end.
    pub(crate) fault: Option<Fault>,
    /// When callers stop to ask.
    pub(crate) length: Duration,
    /// The first upstream's share of the calls while all is well, 0 to 1.
    pub(crate) full_share: f64,
    /// What must hold.
    pub(crate) promises: &'static [Promise],
}

/// A scripted upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Joined to the incident's name.
    pub(crate) name: &'static str,
    /// Its scenario, as `mai-gateway mock --scenario` reads it; the times count from when callers begin.
    pub(crate) scenario: &'static str,
    /// Further keys of its provider, as YAML.
    pub(crate) provider: &'static str,
    /// Its tier.
    pub(crate) tier: u32,
    /// Its weight.
    pub(crate) weight: u32,
}

/// When the first upstream is sick, counted from when callers begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

/// Callers that do the same.
#[derive(Debug)]
pub(crate) struct Group {
    /// The client whose key they bring.
    pub(crate) client: &'static str,
    /// How many they are, each with a connection of its own.
    pub(crate) callers: u32,
    /// How often each of them asks, where its last call has ended by then.
    pub(crate) every: Duration,
    /// All at the same moment, instead of evenly spread.
    pub(crate) in_step: bool,
    /// Marks its chats as not to be repeated.
    pub(crate) has_side_effects: bool,
    /// How often a failed call is sent again, with the same request id.
    pub(crate) repeats: u32,
    /// Leaves, by closing its connection, where no answer has come after so long.
    pub(crate) leaves_after: Option<Duration>,
    /// What it must get.
    pub(crate) expects: Expect,
}

/// What a group must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// A right answer.
    Answer,
    /// A right answer or one that says it is degraded.
    Degraded,
    /// A right answer or an error in OpenAI's form, never a degraded one.
    Refused,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Every second one as a stream.
    Chat,
    Embeddings,
    Rerank,
}

impl Call {
    /// The endpoint.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
        }
    }
}

/// What must hold, besides what always must: one try at a time, sums that agree, no call beyond its deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Promise {
    /// At most so many of a thousand calls fail.
    Failures { per_mille: usize },
    /// No call takes more tries, but for a second one on a new connection where the first had gone stale.
    Tries(usize),
    /// From a call's first failure to its answer by another upstream.
    Switch(Duration),
    /// While the first upstream is sick, and until its first answer, at most one call is in flight there.
    OneTrial,
    /// While the first upstream is sick it gets at most one call each `hold`.
    LeftAlone { hold: Duration },
    /// Probes find out instead of calls: while the first upstream is sick it gets at most so many.
    Spared { trials: usize },
    /// It is tried again so soon after it has recovered.
    BackWithin(Duration),
    /// Its share grows back over at least 5 s, and to the whole.
    GrowsBack,
    /// So many failures were met, lest the drill pass for want of an incident.
    Met { least: usize },
    /// It is left alone for as long as it asks, by the rule that throttled: the shortest rest each.
    RestsKept(&'static [Duration]),
    /// So many callers were told a degraded answer, and so many of those who must not be an error.
    Degrades { least: usize },
    /// Upstream calls beyond the callers' own are at most a fifth of these, and ten each 10 s.
    RepeatsBounded,
    /// The repeats of this client, and only they, are counted.
    RepeatsCounted { client: &'static str },
    /// The log names this client once.
    NamedOnce { client: &'static str },
}

/// After so long a fault has been noticed: the breaker is open and whoever hung has been given up.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);

/// The deadline of every route here.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// Clients and their keys. Each has a key of its own; `options` are further keys of the configuration.
pub(crate) const CLIENTS: [(&str, &str); 3] =
    [("assistant", ""), ("clinic", "on_failure: error"), ("impatient-sdk", "")];

/// The key of a client.
pub(crate) fn key_of(client: &str) -> String {
    format!("drill-key-of-{client}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::ALL;

    #[test]
    fn every_incident_is_sound() {
        for incident in ALL {
            assert!(!incident.upstreams.is_empty() && !incident.groups.is_empty() && !incident.promises.is_empty());
            for upstream in incident.upstreams {
                let read = mock::Scenario::read(upstream.scenario);
                assert!(read.is_ok(), "{} {}: {}", incident.name, upstream.name, read.unwrap_err());
            }
            for group in incident.groups {
                assert!(CLIENTS.iter().any(|(name, _)| *name == group.client), "{}", group.client);
            }
            let end = incident.fault.map_or(Duration::ZERO, |fault| fault.until);
            assert!(end + Duration::from_secs(2) <= incident.length, "{} ends too soon", incident.name);
            assert!(incident.length <= Duration::from_secs(42), "{} is too long", incident.name);
        }
    }

    #[test]
    fn no_two_incidents_share_a_name() {
        let mut names: Vec<&str> = ALL.iter().map(|incident| incident.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
