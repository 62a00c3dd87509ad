//! Bodies of requests and answers on their way in: read within bounds, and unpacked.

pub mod decompress;
pub mod read;
