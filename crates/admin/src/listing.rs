//! Lists that are given out page by page, and the times in them.

use std::time::Duration;

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;

/// How many things of a list are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "u16")]
#[schema(value_type = u16, minimum = 1, maximum = 500, default = 100)]
pub struct Limit(u16);

impl Default for Limit {
    fn default() -> Self {
        Self(100)
    }
}

impl TryFrom<u16> for Limit {
    type Error = String;

    fn try_from(limit: u16) -> Result<Self, String> {
        if (1..=500).contains(&limit) { Ok(Self(limit)) } else { Err(format!("is {limit}, but must be 1 to 500")) }
    }
}

impl Limit {
    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A part of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page<T> {
    /// What is asked for.
    pub data: Vec<T>,
    /// Give it as `after` to go on; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The first of `found`, of which one more than asked for says that it goes on.
    pub fn of(found: impl IntoIterator<Item = T>, limit: Limit, name: impl FnOnce(&T) -> String) -> Self {
        Self::up_to(limit.get(), found, name)
    }

    /// The first `most` of `found`, of which one more says that it goes on.
    pub(crate) fn up_to(most: usize, found: impl IntoIterator<Item = T>, name: impl FnOnce(&T) -> String) -> Self {
        let mut data: Vec<T> = found.into_iter().take(most.saturating_add(1)).collect();
        let goes_on = data.len() > most;
        data.truncate(most);
        let next = data.last().filter(|_| goes_on).map(name);
        Self { data, next }
    }
}

/// Bytes of a page's things at most, about; there is room for one, however large it is.
const MOST_BYTES: usize = 8 << 20;

impl<T> Page<T> {
    /// The first of `found` that have room in one answer.
    pub(crate) fn of_size(
        found: impl IntoIterator<Item = T>,
        limit: Limit,
        size: impl Fn(&T) -> usize,
        name: impl FnOnce(&T) -> String,
    ) -> Self {
        let (mut data, mut bytes, mut goes_on) = (Vec::new(), 0_usize, false);
        for thing in found {
            bytes = bytes.saturating_add(size(&thing));
            goes_on = data.len() >= limit.get() || (bytes > MOST_BYTES && !data.is_empty());
            if goes_on {
                break;
            }
            data.push(thing);
        }
        let next = data.last().filter(|_| goes_on).map(name);
        Self { data, next }
    }
}

impl<T> Page<T> {
    /// A part of a list whose things have no names to go on from: `after` is a place in it.
    ///
    /// # Errors
    /// 400 for an `after` that is no `next`.
    pub fn numbered(found: impl IntoIterator<Item = T>, limit: Limit, after: Option<&str>) -> Result<Self, Error> {
        let wrong = |_| Error::of("after", "`after` must be `next` of the page before");
        let from = after.map(str::parse::<usize>).transpose().map_err(wrong)?.unwrap_or(0);
        let mut found = found.into_iter().skip(from);
        let data: Vec<T> = found.by_ref().take(limit.get()).collect();
        let next = found.next().map(|_| from.saturating_add(data.len()).to_string());
        Ok(Self { data, next })
    }
}

/// A time since the Unix epoch as answers write it: RFC 3339 in UTC, with milliseconds.
#[must_use]
pub fn time(since_epoch: Duration) -> String {
    let milliseconds = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    let at = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A time in a query: an instant, or a day in UTC, whose end counts where a period ends with it.
///
/// # Errors
/// 400 that names the parameter.
pub fn instant(name: &str, written: &str, is_end: bool) -> Result<Duration, Error> {
    let of_day = |day: Date| {
        let day = if is_end { day.checked_add(1.day()).unwrap_or(day) } else { day };
        day.in_tz("UTC").map(|midnight| midnight.timestamp()).ok()
    };
    let timestamp = match (written.parse::<u64>(), written.len()) {
        (Ok(seconds), 9..) => return Ok(Duration::from_secs(seconds)),
        (_, 10) => written.parse::<Date>().ok().and_then(of_day),
        _ => written.parse::<Timestamp>().ok(),
    };
    let since_epoch = timestamp.and_then(|timestamp| Duration::try_from(timestamp.as_duration()).ok());
    since_epoch.ok_or_else(|| {
        Error::of(
            name,
            format!(
                "`{name}` is `{written}`, but must be a day such as `2026-11-30`, or an instant such as \
                 `2026-11-30T12:00:00Z`"
            ),
        )
    })
}

/// That a span of time is one: what ends before it begins holds nothing.
///
/// # Errors
/// 400 that names the parameter of the end.
pub fn in_order((begin, from): (&str, Option<Duration>), (end, to): (&str, Option<Duration>)) -> Result<(), Error> {
    if from.zip(to).is_some_and(|(from, to)| to <= from) {
        return Err(Error::of(end, format!("`{end}` must be later than `{begin}`")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins_and_the_last_one_does_not() {
        let page = |from: u16, limit| Page::of(from..6, Limit(limit), u16::to_string);
        assert_eq!((page(1, 3).data, page(1, 3).next), (vec![1, 2, 3], Some("3".to_owned())));
        assert_eq!((page(4, 2).data, page(4, 2).next), (vec![4, 5], None));
        assert_eq!((page(6, 2).data, page(6, 2).next), (vec![], None));
    }

    #[test]
    fn a_page_ends_where_its_bytes_do_and_goes_on_with_the_next() {
        let page = |from: usize, size: usize| {
            let page = Page::of_size(from..8, Limit(5), |_| size, usize::to_string);
            (page.data, page.next)
        };
        assert_eq!(page(1, MOST_BYTES / 2), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(page(3, MOST_BYTES + 1), (vec![3], Some("3".to_owned())), "one is given out however large it is");
        assert_eq!(page(6, MOST_BYTES / 2), (vec![6, 7], None));
        assert_eq!(page(1, 1), (vec![1, 2, 3, 4, 5], Some("5".to_owned())));
    }

    #[test]
    fn a_list_without_names_goes_on_from_a_place_in_it() {
        let page = |after| Page::numbered(["a", "b", "c"], Limit(2), after).unwrap();
        assert_eq!((page(None).data, page(None).next), (vec!["a", "b"], Some("2".to_owned())));
        assert_eq!((page(Some("2")).data, page(Some("2")).next), (vec!["c"], None));
        assert_eq!((page(Some("9")).data, page(Some("9")).next), (vec![], None));
        assert!(Page::numbered(["a"], Limit(2), Some("b")).is_err());
    }

    #[test]
    fn a_time_that_ends_before_it_begins_is_told_with_its_end() {
        let wrong = |from, to| {
            let [from, to] = [from, to].map(|at: Option<u64>| at.map(Duration::from_secs));
            matches!(in_order(("since", from), ("until", to)), Err(Error::Invalid { param: Some(name), .. }) if name == "until")
        };
        assert!(wrong(Some(5), Some(4)) && wrong(Some(5), Some(5)));
        assert!(!wrong(Some(5), Some(6)) && !wrong(Some(5), None) && !wrong(None, Some(0)));
    }

    #[test]
    fn times_are_written_with_milliseconds_and_read_as_days_or_instants() {
        assert_eq!(time(Duration::from_millis(1_795_996_800_005)), "2026-11-30T00:00:00.005Z");
        let read = |written, is_end| instant("since", written, is_end).unwrap().as_secs();
        assert_eq!(read("2026-11-30", false), 1_795_996_800);
        assert_eq!(read("2026-11-30", true), 1_796_083_200, "the last day is in it");
        assert_eq!(read("2026-11-30T08:00:00+08:00", true), 1_795_996_800);
        assert_eq!(read("1795996800", true), 1_795_996_800);
        assert_eq!(read("2999-12-31T00:00:00Z", true), 32_503_593_600, "a time that is far off");
        assert_eq!(instant("since", &time(Duration::from_millis(5)), false).unwrap(), Duration::from_millis(5));
        for wrong in ["yesterday", "2026-13-01", "2026", "-5", "1969-01-01"] {
            assert!(instant("since", wrong, false).is_err(), "{wrong}");
        }
    }
}
