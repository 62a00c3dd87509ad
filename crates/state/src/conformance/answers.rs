//! What every store of cached answers must do.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;

use crate::answers::{Answers, Key, Kind, Stored, Which};

/// A key that no other number has.
fn key(number: u64) -> Key {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32 * 7) as u8;
    }
    Key(bytes)
}

/// Something of route `chat`, fresh for an hour and kept for two.
fn stored(kind: Kind, client: Option<&str>, body: &[u8]) -> Stored {
    let now = Clock.wall();
    Stored {
        kind,
        route: "chat".into(),
        client: client.map(Arc::from),
        kb_version: None,
        stored: now,
        expires: now + Duration::from_secs(3_600),
        keep_until: now + Duration::from_secs(7_200),
        body: body.into(),
    }
}

async fn body(answers: &dyn Answers, key: Key) -> Option<Vec<u8>> {
    answers.get(&key).await.map(|stored| stored.body.to_vec())
}

/// An empty store with room for some MiB keeps all its promises.
pub async fn answers(answers: &dyn Answers) {
    assert_eq!(answers.get(&key(0)).await, None);
    what_is_put_last_comes_back(answers).await;
    several_come_in_their_order(answers).await;
    what_is_removed_is_gone(answers).await;
    what_is_purged_is_gone_and_the_rest_is_not(answers).await;
    what_is_past_its_time_is_gone(answers).await;
    the_keeping_is_counted(answers).await;
}

async fn what_is_put_last_comes_back(answers: &dyn Answers) {
    let first = Arc::new(Stored {
        kb_version: Some("2026-11".into()),
        body: (0..=255).cycle().take(100_000).collect(),
        ..stored(Kind::Answer, Some("a"), b"")
    });
    answers.put(key(1), first.clone());
    assert_eq!(answers.get(&key(1)).await, Some(first), "as it was, to the last field");
    assert_eq!(answers.get(&key(2)).await, None);
    answers.put(key(1), stored(Kind::Vector, None, b"second").into());
    assert_eq!(body(answers, key(1)).await, Some(b"second".to_vec()));
    answers.put(key(1), stored(Kind::Vector, None, b"").into());
    assert_eq!(body(answers, key(1)).await, Some(Vec::new()), "nothing at all is something too");
}

async fn several_come_in_their_order(answers: &dyn Answers) {
    for number in [10, 12, 13] {
        answers.put(key(number), stored(Kind::Vector, None, &[number as u8]).into());
    }
    let keys = [13, 11, 10, 12, 13].map(key);
    let found = answers.get_many(&keys).await;
    let bodies: Vec<_> = found.iter().map(|stored| stored.as_ref().map(|stored| stored.body.to_vec())).collect();
    assert_eq!(bodies, [Some(vec![13]), None, Some(vec![10]), Some(vec![12]), Some(vec![13])]);
    assert_eq!(answers.get_many(&[]).await, []);
}

async fn what_is_removed_is_gone(answers: &dyn Answers) {
    answers.put(key(20), stored(Kind::Answer, None, b"x").into());
    answers.put(key(21), stored(Kind::Answer, None, b"y").into());
    assert_eq!(answers.remove(&key(20)).await, Ok(true));
    assert_eq!(body(answers, key(20)).await, None);
    assert_eq!(answers.remove(&key(20)).await, Ok(false), "it is not there any more");
    assert_eq!(answers.remove(&key(22)).await, Ok(false), "it never was");
    assert_eq!(body(answers, key(21)).await, Some(b"y".to_vec()));
    let withdrawn = answers.remove(&key(21));
    assert_eq!(body(answers, key(21)).await, None, "gone as soon as asked");
    assert_eq!(withdrawn.await, Ok(true));
    answers.put(key(21), stored(Kind::Answer, None, b"z").into());
    assert_eq!(body(answers, key(21)).await, Some(b"z".to_vec()), "what comes later is another thing");
}

async fn what_is_purged_is_gone_and_the_rest_is_not(answers: &dyn Answers) {
    assert!(answers.purge(&Which::default()).await.is_ok());
    let other_route = Stored { route: "other".into(), ..stored(Kind::Answer, Some("a"), b"4") };
    answers.put(key(30), stored(Kind::Answer, Some("a"), b"0").into());
    answers.put(key(31), stored(Kind::Answer, Some("b"), b"1").into());
    answers.put(key(32), stored(Kind::Answer, None, b"2").into());
    answers.put(key(33), stored(Kind::Ranking, Some("a"), b"3").into());
    answers.put(key(34), other_route.into());
    let left = async || {
        let all = answers.get_many(&[30, 31, 32, 33, 34].map(key)).await;
        (30..).zip(all).filter_map(|(number, stored)| stored.map(|_| number)).collect::<Vec<u64>>()
    };
    assert_eq!(left().await, [30, 31, 32, 33, 34]);
    let (route, client, kind) = (Some("chat".into()), Some("a".into()), Some(Kind::Answer));
    let which = Which { route: route.clone(), client: client.clone(), kind };
    assert_eq!(answers.count(&which).await, Ok(1), "what is counted is still there");
    assert_eq!(answers.count(&Which::default()).await, Ok(5));
    assert_eq!(answers.purge(&which).await, Ok(1));
    assert_eq!(answers.count(&which).await, Ok(0));
    assert_eq!(left().await, [31, 32, 33, 34]);
    assert_eq!(answers.purge(&which).await, Ok(0));
    assert_eq!(answers.purge(&Which { kind, route, client: None }).await, Ok(2), "of whatever client, and of none");
    assert_eq!(left().await, [33, 34]);
    assert_eq!(answers.purge(&Which { client, ..Which::default() }).await, Ok(2));
    answers.put(key(35), stored(Kind::Replay, None, b"5").into());
    assert_eq!(answers.purge(&Which { route: Some("cha".into()), ..Which::default() }).await, Ok(0));
    assert_eq!(answers.purge(&Which::default()).await, Ok(1));
    assert_eq!(answers.get(&key(35)).await, None);
}

async fn what_is_past_its_time_is_gone(answers: &dyn Answers) {
    let now = Clock.wall();
    let stale = Stored { expires: now, ..stored(Kind::Answer, None, b"stale") };
    answers.put(key(40), stale.into());
    let found = answers.get(&key(40)).await;
    assert_eq!(found.map(|stored| stored.is_fresh(now)), Some(false), "stale, and there for those who take it");
    let over = Stored { expires: now, keep_until: now, ..stored(Kind::Answer, None, b"over") };
    answers.put(key(41), over.into());
    assert_eq!(answers.get(&key(41)).await, None);
    assert_eq!(answers.get_many(&[key(40), key(41)]).await.iter().flatten().count(), 1);
}

async fn the_keeping_is_counted(answers: &dyn Answers) {
    assert!(answers.purge(&Which::default()).await.is_ok());
    assert_eq!(answers.stats().memory.entries, 0);
    for number in 50..60 {
        answers.put(key(number), stored(Kind::Vector, None, &[0; 1_000]).into());
    }
    assert!(answers.flush(Duration::from_secs(30)), "a store that is well can be flushed");
    let stats = answers.stats();
    assert_eq!(stats.memory.entries, 10);
    assert_eq!(answers.peek(&key(50)).map(|stored| stored.body.len()), Some(1_000));
    assert_eq!(answers.peek(&key(60)), None);
    assert_eq!(answers.stats().memory.hits, stats.memory.hits, "a glance is no look-up");
    assert!((10_000..20_000).contains(&stats.memory.bytes), "{stats:?}");
    let holdings = answers.holdings();
    let [holding] = &holdings[..] else { return assert_eq!(holdings, []) };
    assert_eq!((holding.kind, &*holding.route), (Kind::Vector, "chat"));
    assert_eq!(holding.memory, (10, stats.memory.bytes));
    if let Some(disk) = stats.disk {
        assert_eq!((disk.entries, holding.disk.0, disk.waiting, disk.trouble), (10, 10, 0, None));
        assert!(holding.disk.1 >= 10_000);
    }
}
