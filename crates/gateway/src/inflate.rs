//! Compressed bodies, made readable: upstreams are asked for none and some send them all the same.

use std::io::{self, Write};

use bytes::Bytes;
use http::{HeaderMap, header};

/// A decompressor that is fed pieces and never holds more than its bound.
pub struct Inflate {
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

impl Inflate {
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
}

impl Zstd {
    fn unfold(&mut self, bound: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while self.begun || self.has_head() {
            self.begun = true;
            self.unfold_frame(&mut out, bound)?;
            if !self.decoder.is_finished() {
                break;
            }
            self.decoder = ruzstd::decoding::FrameDecoder::default();
            self.begun = false;
        }
        Ok(out)
    }

    /// Whether a frame's header is here whole (RFC 8878, section 3.1.1.1); the decoder wants it so.
    fn has_head(&self) -> bool {
        let Some(descriptor) = self.carried.get(4).copied() else { return false };
        let is_single = descriptor & 0b0010_0000 != 0;
        let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 0b11)).copied().unwrap_or(0);
        let size = match descriptor >> 6 {
            0 => usize::from(is_single),
            flag => 1 << flag,
        };
        self.carried.len() >= 5 + usize::from(!is_single) + dictionary + size
    }

    fn unfold_frame(&mut self, out: &mut Vec<u8>, bound: usize) -> io::Result<()> {
        let mut room = vec![0; 64 << 10];
        loop {
            let (read, written) = self
                .decoder
                .decode_from_to(&self.carried, &mut room)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if read > self.carried.len() {
                // The checksum behind the last block is still on its way.
                return Ok(());
            }
            self.carried.drain(..read);
            out.extend_from_slice(room.get(..written).unwrap_or_default());
            if out.len() > bound {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the decompressed body is too large"));
            }
            if read == 0 && written == 0 {
                return Ok(());
            }
        }
    }
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

    fn inflate(coding: &'static str, bound: usize) -> Inflate {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, http::HeaderValue::from_static(coding));
        Inflate::of(&headers, bound).unwrap().unwrap()
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
        assert_eq!(Inflate::of(&headers, 1).err().as_deref(), Some("lzw"));
    }
}
