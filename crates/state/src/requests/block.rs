//! Blocks of records: what they are made of, as bytes.
//!
//! A block's **body** holds its records one behind the other, each with its length in front. Words and names stand
//! there as numbers, counted in the block's **summary**, which also says which of them are clients, routes, upstreams,
//! outcomes and caches of some record: what a search needs to pass the whole block over. The **prints** are eight bytes
//! for each record, in their order, made of its id: what finding one needs.

use std::sync::Arc;
use std::time::Duration;

/// Bytes of a body from which on it is a block of its own.
pub const FULL: usize = 256 << 10;

/// What a name is to some record of its block.
pub mod role {
    /// Its client.
    pub const CLIENT: u8 = 1;
    /// Its route.
    pub const ROUTE: u8 = 2;
    /// An upstream that it went to.
    pub const UPSTREAM: u8 = 4;
    /// Its outcome.
    pub const OUTCOME: u8 = 8;
    /// What its cache came to.
    pub const CACHE: u8 = 16;
}

/// Records that are kept together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Later ones are greater.
    pub id: u64,
    /// The first arrival among its requests, from the Unix epoch.
    pub first: Duration,
    /// The last one.
    pub last: Duration,
    /// How many they are.
    pub count: u32,
    /// Eight bytes each, see [`print`].
    pub prints: Vec<u8>,
    /// Names and statuses.
    pub summary: Vec<u8>,
    /// The records.
    pub body: Vec<u8>,
}

impl Block {
    /// Bytes that it takes in memory, about.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.prints.len() + self.summary.len() + self.body.len()
    }
}

/// By what a request's id is found: FNV-1a, the same in every version. Two ids may have one print.
#[must_use]
pub fn print(request_id: &str) -> [u8; 8] {
    let step = |print: u64, byte: u8| (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    request_id.bytes().fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes()
}

/// The places of a print among others, the last one first.
pub fn places<'a>(prints: &'a [u8], wanted: &'a [u8; 8]) -> impl Iterator<Item = u32> + 'a {
    let (prints, _) = prints.as_chunks::<8>();
    let places = prints.iter().enumerate().rev().filter(move |(_, print)| *print == wanted);
    places.filter_map(|(place, _)| u32::try_from(place).ok())
}

/// A block's names, each with what it is, and statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// In the order of their numbers.
    pub names: Vec<(u8, Arc<str>)>,
    /// In no order.
    pub statuses: Vec<u16>,
}

impl Summary {
    /// Reads one; `None` where these bytes are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let mut summary = Self::default();
        for _ in 0..bytes.number()? {
            let role = bytes.byte()?;
            summary.names.push((role, bytes.text()?.into()));
        }
        for _ in 0..bytes.number()? {
            summary.statuses.push(u16::try_from(bytes.number()?).ok()?);
        }
        Some(summary)
    }

    /// The number of a name that is this to some record.
    #[must_use]
    pub fn number(&self, role: u8, name: &str) -> Option<u64> {
        self.names.iter().position(|(roles, known)| roles & role != 0 && **known == *name).map(|at| at as u64)
    }
}

/// Writes a number in as few bytes as it needs.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a text, its length in front.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes being read. Whatever they are, it ends with `None` and nothing worse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    pub fn time(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    /// The next record, and the rest behind it.
    pub fn record(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        Some(record)
    }
}
