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

    /// The pieces in that coding; as many pieces come out as go in, the last one ends the coding.
    #[must_use]
    pub fn encode(self, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
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

fn append(coded: &mut Vec<Vec<u8>>, tail: Vec<u8>) {
    match coded.last_mut() {
        Some(last) => last.extend(tail),
        None => coded.push(tail),
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
