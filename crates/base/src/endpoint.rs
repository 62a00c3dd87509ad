//! What a caller can ask for on the data port.

/// One of the data port's model endpoints, whatever spelling of its path the caller used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/embeddings`
    Embeddings,
    /// `POST /v1/rerank`, `/v2/rerank`, `/v1/reranks`
    Rerank,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/moderations`
    Moderations,
    /// `POST /v1/audio/speech`
    AudioSpeech,
    /// `POST /v1/audio/transcriptions`
    AudioTranscriptions,
    /// `POST /v1/audio/translations`
    AudioTranslations,
    /// `POST /v1/images/generations`
    ImagesGenerations,
    /// `POST /v1/images/edits`
    ImagesEdits,
    /// `POST /v1/images/variations`
    ImagesVariations,
}

/// Endpoints that share defaults, rules and failure semantics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Chat and every endpoint that passes through with chat's clocks.
    Chat,
    /// Embeddings.
    Embeddings,
    /// Rerank.
    Rerank,
}

impl Endpoint {
    /// Every endpoint, in the order in which documents list them.
    pub const ALL: [Self; 12] = [
        Self::Chat,
        Self::Completions,
        Self::Embeddings,
        Self::Rerank,
        Self::Responses,
        Self::Moderations,
        Self::AudioSpeech,
        Self::AudioTranscriptions,
        Self::AudioTranslations,
        Self::ImagesGenerations,
        Self::ImagesEdits,
        Self::ImagesVariations,
    ];

    /// The path below `/v1`, without a leading slash, as OpenAI's API writes it.
    #[must_use]
    pub const fn tail(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Rerank => "rerank",
            Self::Responses => "responses",
            Self::Moderations => "moderations",
            Self::AudioSpeech => "audio/speech",
            Self::AudioTranscriptions => "audio/transcriptions",
            Self::AudioTranslations => "audio/translations",
            Self::ImagesGenerations => "images/generations",
            Self::ImagesEdits => "images/edits",
            Self::ImagesVariations => "images/variations",
        }
    }

    /// Which family's defaults apply.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::Embeddings => Family::Embeddings,
            Self::Rerank => Family::Rerank,
            _ => Family::Chat,
        }
    }

    /// True where the gateway knows the body's form; the others pass through, `model` patched.
    #[must_use]
    pub const fn is_understood(self) -> bool {
        matches!(self, Self::Chat | Self::Completions | Self::Embeddings | Self::Rerank)
    }

    /// True where the answer may be sound, or a transcript in plain text; every other endpoint answers in JSON or events.
    #[must_use]
    pub const fn is_audio(self) -> bool {
        matches!(self, Self::AudioSpeech | Self::AudioTranscriptions | Self::AudioTranslations)
    }

    /// The endpoint behind a path as callers write it. Forgives what clients are known to get
    /// wrong: a missing, doubled or foreign version, doubled and trailing slashes, `reranks`.
    /// The query is not part of `path`.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        // As almost everybody writes it.
        if let Some(tail) = path.strip_prefix("/v1/")
            && let Some(known) = Self::ALL.into_iter().find(|endpoint| endpoint.tail() == tail)
        {
            return Some(known);
        }
        let mut rest: smallvec::SmallVec<[&str; 8]> = smallvec::SmallVec::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if rest.is_empty() && matches!(part, "v1" | "v2") {
                continue;
            }
            if rest.len() == 2 {
                return None;
            }
            rest.push(part);
        }
        match rest.as_slice() {
            ["rerank" | "reranks"] => Some(Self::Rerank),
            [one] => Self::ALL.into_iter().find(|endpoint| endpoint.tail() == *one),
            [first, second] => {
                Self::ALL.into_iter().find(|endpoint| endpoint.tail().split_once('/') == Some((*first, *second)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_clients_are_known_to_write_are_understood() {
        for path in [
            "/v1/chat/completions",
            "/chat/completions",
            "/v1/v1/chat/completions",
            "//chat/completions",
            "/v1//chat/completions/",
        ] {
            assert_eq!(Endpoint::of_path(path), Some(Endpoint::Chat), "{path}");
        }
        for path in ["/rerank", "/v1/rerank", "/v2/rerank", "/v1/reranks", "/v1/v2/rerank/"] {
            assert_eq!(Endpoint::of_path(path), Some(Endpoint::Rerank), "{path}");
        }
    }

    #[test]
    fn other_paths_are_not_guessed() {
        for path in ["/", "/v1", "/v1/chat", "/v1/chat/completions/x", "/metrics", "/v3/embeddings"] {
            assert_eq!(Endpoint::of_path(path), None, "{path}");
        }
    }
}
