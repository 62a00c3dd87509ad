//! Prices of calls, by hand.

use super::*;

fn price(tiers: Vec<Tier>, unit: Option<f64>) -> Price {
    Price { currency: "USD".into(), tiers, unit: unit.and_then(Rate::per_one) }
}

fn tier(over: u64, prompt: f64, cached: Option<f64>, completion: Option<f64>) -> Tier {
    let rate = |price: Option<f64>| price.and_then(Rate::per_million);
    Tier { over, prompt: rate(Some(prompt)), cached: rate(cached), completion: rate(completion) }
}

fn nanos(price: &Price, prompt: u64, cached: u64, completion: u64) -> Option<u64> {
    price.of(Usage { prompt, cached, completion, ..Usage::default() }).map(|cost| cost.nanos)
}

#[test]
fn tokens_read_cached_and_written_have_prices_of_their_own() {
    let price = price(vec![tier(0, 0.15, Some(0.075), Some(0.6))], None);
    assert_eq!(nanos(&price, 1_000_000, 0, 0), Some(150_000_000));
    assert_eq!(nanos(&price, 1_000, 400, 100), Some(600 * 150 + 400 * 75 + 100 * 600));
    assert_eq!(nanos(&price, 0, 0, 0), Some(0));
}

#[test]
fn one_cheap_token_is_not_free() {
    assert_eq!(nanos(&price(vec![tier(0, 0.02, None, None)], None), 1, 0, 0), Some(20));
    assert_eq!(nanos(&price(vec![tier(0, 0.000_6, None, None)], None), 1, 0, 0), Some(1), "to the nearest");
}

#[test]
fn what_is_not_known_is_not_free() {
    let embedding = price(vec![tier(0, 0.02, None, None)], None);
    assert_eq!(nanos(&embedding, 100, 0, 0), Some(2_000));
    assert_eq!(nanos(&embedding, 100, 0, 1), None, "nobody knows what a written token costs");
    assert_eq!(nanos(&embedding, 100, 50, 0), Some(2_000), "a cached token costs at most as much as any other");
    assert_eq!(nanos(&price(vec![], None), 1, 0, 0), None);
}

#[test]
fn long_prompts_have_rates_of_their_own() {
    let price = price(vec![tier(0, 2.0, None, Some(10.0)), tier(272_000, 4.0, None, Some(15.0))], None);
    assert_eq!(nanos(&price, 272_000, 0, 1), Some(272_000 * 2_000 + 10_000));
    assert_eq!(nanos(&price, 272_001, 0, 1), Some(272_001 * 4_000 + 15_000));
}

#[test]
fn rerankers_are_billed_by_search_units() {
    let price = price(vec![], Some(0.002));
    let usage = Usage { prompt: 50_000, units: 3, ..Usage::default() };
    assert_eq!(price.of(usage).map(|cost| cost.nanos), Some(6_000_000));
}

#[test]
fn rates_are_shown_as_they_were_written() {
    for price in [0.0, 0.02, 0.15, 1.25, 15.0] {
        assert_eq!(Rate::per_million(price).map(Rate::of_a_million), Some(price));
        assert_eq!(Rate::per_one(price).map(Rate::of_one), Some(price));
    }
}

#[test]
fn nonsense_is_no_rate_and_no_sum_overflows() {
    assert_eq!([-1.0, f64::NAN, f64::INFINITY, 1e11].map(Rate::per_million), [None; 4]);
    let dear = price(vec![tier(0, 1e9, None, Some(1e9))], None);
    assert_eq!(nanos(&dear, u64::MAX, 0, u64::MAX), Some(u64::MAX));
}
