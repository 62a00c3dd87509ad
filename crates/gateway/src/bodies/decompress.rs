//! Compressed bodies, made readable: upstreams are asked for none and some send them all the same.

use std::io::{self, Write};

use bytes::Bytes;
use http::{HeaderMap, header};

/// A decompressor that is fed pieces and never holds more than its bound.
pub struct Decompress {
    kind: Kind,
    bound: usize,
}

enum Kind {
    Gzip(Box<flate2::write::MultiGzDecoder<Bounded>>),
    Deflate(Box<flate2::write::ZlibDecoder<Bounded>>),
    Brotli(Box<brotli_decompressor::DecompressorWriter<Bounded>>),
    Zstd(Box<Zstd>),
}

/// A buffer that refuses to grow beyond its bound.
struct Bounded {
    out: Vec<u8>,
    bound: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.len() + bytes.len() > self.bound {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the decompressed body is too large"));
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decompress {
    /// What the `content-encoding` asks for: `Ok(None)` where the body is plain.
    ///
    /// # Errors
    /// The coding's name, when it is none of gzip, deflate, br and zstd.
    pub fn of(headers: &HeaderMap, bound: usize) -> Result<Option<Self>, String> {
        let Some(coding) = headers.get(header::CONTENT_ENCODING) else { return Ok(None) };
        let bounded = || Bounded { out: Vec::new(), bound };
        let kind = match coding.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => return Ok(None),
            b"gzip" | b"x-gzip" => Kind::Gzip(Box::new(flate2::write::MultiGzDecoder::new(bounded()))),
            b"deflate" => Kind::Deflate(Box::new(flate2::write::ZlibDecoder::new(bounded()))),
            b"br" => Kind::Brotli(Box::new(brotli_decompressor::DecompressorWriter::new(bounded(), 4096))),
            b"zstd" => Kind::Zstd(Box::default()),
            other => return Err(String::from_utf8_lossy(other).into_owned()),
        };
        Ok(Some(Self { kind, bound }))
    }

    /// What one piece unfolds to, possibly nothing yet.
    ///
    /// # Errors
    /// Data that is not of the coding, or more than the bound at once.
    pub fn feed(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let out = match &mut self.kind {
            Kind::Gzip(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
                std::mem::take(&mut decoder.get_mut().out)
            }
            Kind::Deflate(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
                std::mem::take(&mut decoder.get_mut().out)
            }
            Kind::Brotli(decoder) => {
                decoder.write_all(piece)?;
                std::mem::take(&mut decoder.get_mut().out)
            }
            Kind::Zstd(zstd) => {
                zstd.carried.extend_from_slice(piece);
                zstd.unfold(self.bound)?
            }
        };
        Ok(out.into())
    }

    /// What is still held at the end of the body.
    ///
    /// # Errors
    /// Data that stops half-way.
    pub fn finish(&mut self) -> io::Result<Bytes> {
        let out = match &mut self.kind {
            Kind::Gzip(decoder) => {
                decoder.try_finish()?;
                std::mem::take(&mut decoder.get_mut().out)
            }
            Kind::Deflate(decoder) => {
                decoder.try_finish()?;
                std::mem::take(&mut decoder.get_mut().out)
            }
            Kind::Brotli(decoder) => {
                decoder.close()?;
                std::mem::take(&mut decoder.get_mut().out)
            }
            Kind::Zstd(zstd) => {
                let out = zstd.unfold(self.bound)?;
                if zstd.begun || !zstd.carried.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                out
            }
        };
        Ok(out.into())
    }
}

/// Zstandard: frames, one after the other (RFC 8878, section 3.1).
#[derive(Default)]
struct Zstd {
    decoder: ruzstd::decoding::FrameDecoder,
    /// What has come and is no whole block yet.
    carried: Vec<u8>,
    /// In the middle of a frame.
    begun: bool,
    /// The frame ends with a checksum of four bytes.
    checked: bool,
}

/// What a sender may ask a receiver to look back upon (RFC 9659, section 3). The decoder holds as much.
const WIDEST_WINDOW: u64 = 8 << 20;

impl Zstd {
    /// Unfolds what is whole, block by block: three bytes may stand for 128 KiB, so the bound is
    /// looked at after each.
    fn unfold(&mut self, bound: usize) -> io::Result<Vec<u8>> {
        let mut bounded = Bounded { out: Vec::new(), bound };
        let carried = std::mem::take(&mut self.carried);
        let mut rest = carried.as_slice();
        while self.step(&mut rest)? {
            self.decoder.collect_to_writer(&mut bounded)?;
        }
        self.carried.extend_from_slice(rest);
        Ok(bounded.out)
    }

    /// Takes a frame's head or one block from the front of `rest`; `false` when it is not there whole.
    fn step(&mut self, rest: &mut &[u8]) -> io::Result<bool> {
        let broken = |error: ruzstd::decoding::errors::FrameDecoderError| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        };
        if !self.begun {
            let Some(descriptor) = head(rest) else { return Ok(false) };
            self.checked = descriptor & 0b0000_0100 != 0;
            self.decoder.set_max_window_size(WIDEST_WINDOW);
            self.decoder.reset(rest).map_err(broken)?;
            self.begun = true;
            return Ok(true);
        }
        if block(rest, self.checked).is_none_or(|length| rest.len() < length) {
            return Ok(false);
        }
        let one = ruzstd::decoding::BlockDecodingStrategy::UptoBlocks(1);
        self.begun = !self.decoder.decode_blocks(rest, one).map_err(broken)?;
        Ok(true)
    }
}

/// The descriptor of the frame whose header is here whole (RFC 8878, section 3.1.1.1); the decoder
/// wants it so.
fn head(bytes: &[u8]) -> Option<u8> {
    let descriptor = bytes.get(4).copied()?;
    let is_single = descriptor & 0b0010_0000 != 0;
    let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 0b11)).copied().unwrap_or(0);
    let size = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    (bytes.len() >= 5 + usize::from(!is_single) + dictionary + size).then_some(descriptor)
}

/// The length of the block that begins here, with the frame's checksum behind the last one
/// (RFC 8878, section 3.1.1.2).
fn block(bytes: &[u8], checked: bool) -> Option<usize> {
    let [one, two, three] = *bytes.first_chunk()?;
    let head = u32::from_le_bytes([one, two, three, 0]);
    let is_run = head >> 1 & 0b11 == 1;
    let content = if is_run { 1 } else { usize::try_from(head >> 3).ok()? };
    Some(3 + content + if checked && head & 1 == 1 { 4 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(coding: &str, text: &[u8]) -> Vec<u8> {
        match coding {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            _ => ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest),
        }
    }

    fn inflate(coding: &'static str, bound: usize) -> Decompress {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, http::HeaderValue::from_static(coding));
        Decompress::of(&headers, bound).unwrap().unwrap()
    }

    #[test]
    fn byte_by_byte_gives_the_same_text_as_at_once() {
        let text = "data: {\"choices\":[]}\n\n你好，世界🙂 ".repeat(400);
        for coding in ["gzip", "deflate", "zstd"] {
            let mut inflate = inflate(coding, 1 << 20);
            let mut out = Vec::new();
            for byte in packed(coding, text.as_bytes()) {
                out.extend_from_slice(&inflate.feed(&[byte]).unwrap());
            }
            out.extend_from_slice(&inflate.finish().unwrap());
            assert_eq!(out, text.as_bytes(), "{coding}");
        }
    }

    #[test]
    fn frames_of_zstandard_may_follow_one_another() {
        let pieces = [b"data: one\n\n".as_slice(), b"", b"x", b"data: [DONE]\n\n"];
        let frames: Vec<u8> = pieces.iter().flat_map(|piece| packed("zstd", piece)).collect();
        for size in [1, 5, 1000] {
            let mut inflate = inflate("zstd", 1 << 20);
            let mut out = Vec::new();
            for part in frames.chunks(size) {
                out.extend_from_slice(&inflate.feed(part).unwrap());
            }
            out.extend_from_slice(&inflate.finish().unwrap());
            assert_eq!(out, pieces.concat(), "{size}");
        }
    }

    #[test]
    fn a_bomb_is_refused_within_its_bound() {
        let zeros = vec![0; 4 << 20];
        for coding in ["gzip", "deflate", "zstd"] {
            let mut inflate = inflate(coding, 1 << 20);
            assert!(inflate.feed(&packed(coding, &zeros)).is_err(), "{coding}");
        }
    }

    #[test]
    fn a_bomb_of_few_bytes_is_refused_before_it_goes_off() {
        // A frame of 100,000 runs, each of 128 KiB of one byte: 13 GB in 400 KB.
        let mut bomb = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
        bomb.extend(b"\x02\x00\x10a".repeat(100_000));
        let error = inflate("zstd", 10 << 20).feed(&bomb).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_window_wider_than_a_sender_may_ask_for_is_refused() {
        // 2^30 bytes and more to look back upon.
        assert!(inflate("zstd", 10 << 20).feed(b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00").is_err());
    }

    #[test]
    fn many_empty_blocks_and_frames_take_no_longer_than_their_bytes() {
        let mut blocks = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
        blocks.extend(b"\x00\x00\x00".repeat(300_000));
        blocks.extend(b"\x01\x00\x00");
        blocks.extend(b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00".repeat(100_000));
        let mut inflate = inflate("zstd", 10 << 20);
        assert_eq!(inflate.feed(&blocks).unwrap(), "");
        assert_eq!(inflate.finish().unwrap(), "");
    }

    #[test]
    fn garbage_and_a_half_body_are_errors() {
        for coding in ["gzip", "deflate", "zstd"] {
            assert!(inflate(coding, 1 << 20).feed(b"this is not compressed at all").is_err(), "{coding}");
            let whole = packed(coding, b"some text that is long enough to be cut in two");
            let mut half = inflate(coding, 1 << 20);
            let fed = half.feed(&whole[..whole.len() / 2]);
            assert!(fed.is_err() || half.finish().is_err(), "{coding}");
        }
    }

    #[test]
    fn an_unknown_coding_is_named() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, http::HeaderValue::from_static("lzw"));
        assert_eq!(Decompress::of(&headers, 1).err().as_deref(), Some("lzw"));
    }
}
