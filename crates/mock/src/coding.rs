//! Content codings for answers, each piece flushed so that a stream stays a stream.

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::reply::Coding;

impl Coding {
    /// As `content-encoding` names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The pieces in that coding: as many come out as go in (one where none goes in), and the last
    /// one ends the coding.
    #[must_use]
    pub fn encode(self, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let pieces = if pieces.is_empty() { &[b"".as_slice()] } else { pieces };
        match self {
            Self::Gzip => {
                let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
                let mut coded = flushed(&mut coder, pieces, |coder| std::mem::take(coder.get_mut()));
                append(&mut coded, coder.finish().unwrap_or_default());
                coded
            }
            Self::Deflate => {
                let mut coder = ZlibEncoder::new(Vec::new(), Compression::fast());
                let mut coded = flushed(&mut coder, pieces, |coder| std::mem::take(coder.get_mut()));
                append(&mut coded, coder.finish().unwrap_or_default());
                coded
            }
            Self::Brotli => {
                let mut coded: Vec<Vec<u8>> = pieces.iter().map(|piece| stored_brotli(piece)).collect();
                if let Some(first) = coded.first_mut() {
                    // WBITS: the four bits that say 16, then padded by an empty metadata block.
                    first.splice(0..0, BROTLI_HEAD);
                }
                // ISLAST and ISLASTEMPTY.
                append(&mut coded, vec![0b11]);
                coded
            }
            // Frames may follow one another (RFC 8878, section 3.1), so each piece is a frame.
            Self::Zstd => pieces
                .iter()
                .map(|piece| ruzstd::encoding::compress_to_vec(*piece, ruzstd::encoding::CompressionLevel::Fastest))
                .collect(),
        }
    }
}

fn flushed<W: std::io::Write>(coder: &mut W, pieces: &[&[u8]], take: impl Fn(&mut W) -> Vec<u8>) -> Vec<Vec<u8>> {
    pieces
        .iter()
        .map(|piece| {
            // Writing into memory does not fail.
            drop(coder.write_all(piece));
            drop(coder.flush());
            take(coder)
        })
        .collect()
}

fn append(coded: &mut [Vec<u8>], tail: Vec<u8>) {
    if let Some(last) = coded.last_mut() {
        last.extend(tail);
    }
}

/// Window of 16 bits (one bit, 0), then an empty metadata block that fills the byte: ISLAST 0,
/// MNIBBLES 3, reserved 0, MSKIPBYTES 0 (RFC 7932, sections 9.1 and 9.2).
const BROTLI_HEAD: [u8; 1] = [0b0000_1100];

/// Meta-blocks that store at most 64 KiB each: ISLAST 0, MNIBBLES 0 (four), MLEN - 1, ISUNCOMPRESSED 1,
/// padded to the byte (RFC 7932, section 9.2).
fn stored_brotli(piece: &[u8]) -> Vec<u8> {
    let mut coded = Vec::with_capacity(piece.len() + 8);
    for block in piece.chunks(1 << 16) {
        let length = (block.len() as u32).wrapping_sub(1);
        let bits: u32 = (length << 3) | (1 << 19);
        coded.extend(bits.to_le_bytes().into_iter().take(3));
        coded.extend_from_slice(block);
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn each_coding_is_read_back_by_a_decoder_that_did_not_write_it() {
        let long = "你好 world ".repeat(20_000);
        let pieces = [b"data: one\n\n".as_slice(), b"", long.as_bytes(), b"end"];
        let plain = pieces.concat();
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let coded = coding.encode(&pieces);
            assert_eq!(coded.len(), pieces.len());
            let coded = coded.concat();
            let mut read = Vec::new();
            match coding {
                Coding::Gzip => flate2::read::GzDecoder::new(coded.as_slice()).read_to_end(&mut read).unwrap(),
                Coding::Deflate => flate2::read::ZlibDecoder::new(coded.as_slice()).read_to_end(&mut read).unwrap(),
                Coding::Brotli => {
                    brotli_decompressor::Decompressor::new(coded.as_slice(), 4096).read_to_end(&mut read).unwrap()
                }
                Coding::Zstd => {
                    let mut source = coded.as_slice();
                    while !source.is_empty() {
                        let mut frame = ruzstd::decoding::StreamingDecoder::new(&mut source).unwrap();
                        frame.read_to_end(&mut read).unwrap();
                    }
                    0
                }
            };
            assert!(read == plain, "{coding:?}");
        }
    }

    #[test]
    fn an_empty_body_is_coded_too() {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            assert_eq!(coding.encode(&[]).len(), 1);
        }
    }
}
