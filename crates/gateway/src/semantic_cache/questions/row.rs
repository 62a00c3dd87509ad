//! A question as it is stored, so that it is found again after a restart.

use std::sync::Arc;

use bytes::BufMut;
use rules::cache_key::KeyBuilder;
use semantic::index::Partition;
use state::answers::{Key, Kind, Stored};

use super::shelf::{Entry, Place};

/// How a question is written. Raised with every change.
const VERSION: u8 = 1;

/// What a question is stored under.
pub fn key(place: Place) -> Key {
    let builder = KeyBuilder::new(Kind::Question.as_str()).part(&place.partition.0);
    Key(builder.part(&place.id.to_le_bytes()).finish())
}

/// A question, to be kept for as long as its answer.
pub fn stored(place: Place, entry: &Entry, vector: &[f32], answer: &Stored) -> Arc<Stored> {
    let mut body = Vec::with_capacity(128 + vector.len() * 4 + entry.text.len());
    body.push(VERSION);
    body.extend_from_slice(&place.partition.0);
    body.put_u128_le(place.id);
    body.extend_from_slice(&entry.answer.0);
    body.put_u32_le(u32::try_from(vector.len()).unwrap_or_default());
    vector.iter().for_each(|number| body.put_f32_le(*number));
    body.extend_from_slice(entry.text.as_bytes());
    Arc::new(Stored {
        kind: Kind::Question,
        route: answer.route.clone(),
        client: answer.client.clone(),
        kb_version: answer.kb_version.clone(),
        stored: answer.stored,
        expires: answer.expires,
        keep_until: answer.expires,
        body: body.into(),
    })
}

/// A question that was stored; `None` for what this version cannot read.
pub fn read(stored: &Stored) -> Option<(Place, Entry, Vec<f32>)> {
    let (version, rest) = stored.body.split_first()?;
    let (partition, rest) = rest.split_first_chunk::<32>()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (answer, rest) = rest.split_first_chunk::<32>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?;
    let (numbers, text) = rest.split_at_checked(length)?;
    if *version != VERSION {
        return None;
    }
    let (numbers, _) = numbers.as_chunks::<4>();
    let place = Place { partition: Partition(*partition), id: u128::from_le_bytes(*id) };
    let text = std::str::from_utf8(text).ok()?.into();
    let (client, answer) = (stored.client.clone(), Key(*answer));
    let entry = Entry { text, answer, client, stored: stored.stored, expires: stored.expires };
    Some((place, entry, numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer() -> Stored {
        Stored {
            kind: Kind::Answer,
            route: "chat".into(),
            client: Some("app".into()),
            kb_version: None,
            stored: Duration::from_secs(1),
            expires: Duration::from_secs(2),
            keep_until: Duration::from_secs(3),
            body: Box::default(),
        }
    }

    #[test]
    fn a_question_is_read_as_it_was_written() {
        let place = Place { partition: Partition([3; 32]), id: 1 << 100 };
        let entry = Entry {
            text: "为什么?".into(),
            answer: Key([4; 32]),
            client: Some("app".into()),
            stored: Duration::from_secs(1),
            expires: Duration::from_secs(2),
        };
        let written = stored(place, &entry, &[0.5, -1.0], &answer());
        assert_eq!(read(&written), Some((place, entry, vec![0.5, -1.0])));
        assert_eq!((written.kind, written.client.as_deref()), (Kind::Question, Some("app")));
    }

    #[test]
    fn what_is_no_question_is_not_read() {
        let place = Place { partition: Partition([3; 32]), id: 7 };
        let (begin, end) = (Duration::from_secs(1), Duration::from_secs(2));
        let entry = Entry { text: "a".into(), answer: Key([4; 32]), client: None, stored: begin, expires: end };
        let written = stored(place, &entry, &[0.5], &answer());
        for length in 0..written.body.len() - 1 {
            let cut = Stored { body: written.body[..length].into(), ..(*written).clone() };
            assert_eq!(read(&cut), None, "{length}");
        }
        let mut other = (*written).clone();
        other.body[0] += 1;
        assert_eq!(read(&other), None);
    }
}
