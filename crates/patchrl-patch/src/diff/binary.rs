//! The data under `GIT binary patch`: base 85 lines around a zlib stream.
//!
//! Owns reading a block of it, and inflating it within bounds. What a block does to a file
//! is in `crate::apply`. As in git the line's first letter is its length, five characters
//! are four bytes, and bytes after the end of the stream do not matter.

use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};

use super::parse::first_line;

/// Most bytes that all binary data of one diff may inflate to. Git has no bound.
pub(crate) const MOST: u64 = 64 << 20;

/// What the bytes of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The new file.
    Literal,
    /// Instructions that make the new file out of the old one.
    Delta,
}

/// One block, still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) method: Method,
    /// Bytes after inflating, as the block says. At most [`MOST`].
    pub(crate) size: u64,
    /// The encoded lines, in the patch's text.
    pub(super) lines: Range<usize>,
}

/// Why a text is not a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockFault {
    /// It does not begin like one.
    None,
    /// Line of the text that is corrupt, from 0.
    Corrupt(usize),
    /// It says that it inflates to more than may be.
    TooLarge,
}

/// Read the block at the start of `text`, whose own place in the patch is `at`. Gives the
/// number of its lines too, and takes what it inflates to off `left`.
pub(super) fn block(text: &str, at: usize, left: &mut u64) -> Result<(Block, usize), BlockFault> {
    let head = first_line(text);
    let (method, size) = method(head).ok_or(BlockFault::None)?;
    *left = left.checked_sub(size).ok_or(BlockFault::TooLarge)?;
    let mut packed = Vec::new();
    let mut end = head.len();
    let mut count = 1;
    loop {
        let line = first_line(&text[end..]);
        // A blank one. As git counts it, also a single letter that ends the patch.
        if line.len() == 1 {
            break;
        }
        decode_line(line.as_bytes(), &mut packed).ok_or(BlockFault::Corrupt(count))?;
        end += line.len();
        count += 1;
    }
    inflate(&packed, size).ok_or(BlockFault::Corrupt(count))?;
    Ok((Block { method, size, lines: at + head.len()..at + end }, count + 1))
}

/// `literal 12` or `delta 12`. No number is as good as zero, and one too large as the
/// largest.
fn method(line: &str) -> Option<(Method, u64)> {
    let (method, text) = if let Some(text) = line.strip_prefix("literal ") {
        (Method::Literal, text)
    } else {
        (Method::Delta, line.strip_prefix("delta ")?)
    };
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let text = text.strip_prefix('+').unwrap_or(text);
    // A negative number wraps around.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let size = match text.strip_prefix('-') {
        Some(text) if text.starts_with(|c: char| c.is_ascii_digit() && c != '0') => u64::MAX,
        _ if digits == 0 => 0,
        _ => text[..digits].parse().unwrap_or(u64::MAX),
    };
    Some((method, size))
}

impl Block {
    /// The inflated bytes. `text` is the patch's.
    pub(super) fn bytes(&self, text: &str) -> Option<Vec<u8>> {
        let mut packed = Vec::new();
        for line in text[self.lines.clone()].split_inclusive('\n') {
            decode_line(line.as_bytes(), &mut packed)?;
        }
        inflate(&packed, self.size)
    }
}

/// One line with its newline: `A` to `Z` are 1 to 26 bytes, `a` to `z` 27 to 52.
fn decode_line(line: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let groups = line.len().checked_sub(2)? / 5;
    if groups == 0 || !(line.len() - 2).is_multiple_of(5) || !line.ends_with(b"\n") {
        return None;
    }
    let length = match line[0] {
        letter @ b'A'..=b'Z' => usize::from(letter - b'A') + 1,
        letter @ b'a'..=b'z' => usize::from(letter - b'a') + 27,
        _ => return None,
    };
    // Filler is at most three bytes.
    if groups * 4 < length || length + 4 <= groups * 4 {
        return None;
    }
    let end = out.len() + length;
    for group in line[1..=groups * 5].chunks(5) {
        let number = group.iter().try_fold(0_u32, |sum, byte| {
            sum.checked_mul(85)?.checked_add(u32::from(digit(*byte)?))
        })?;
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.truncate(end);
    Some(())
}

/// The value of a base 85 digit, in git's alphabet.
fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'A'..=b'Z' => byte - b'A' + 10,
        b'a'..=b'z' => byte - b'a' + 36,
        _ => {
            let others = b"!#$%&()*+-;<=>?@^_`{|}~";
            others.iter().position(|other| *other == byte)? as u8 + 62
        }
    })
}

/// A whole zlib stream of exactly `size` bytes.
fn inflate(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    // Deflate makes at most 1032 bytes of one. The size is a stranger's word.
    let most = size.min(packed.len() as u64 * 1032) + 1;
    let mut out = Vec::with_capacity(usize::try_from(most).ok()?);
    let mut stream = Decompress::new(true);
    let status = stream.decompress_vec(packed, &mut out, FlushDecompress::Finish).ok()?;
    (status == Status::StreamEnd && out.len() as u64 == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_base_85() {
        let decode = |line: &str| {
            let mut out = Vec::new();
            decode_line(line.as_bytes(), &mut out).map(|()| out)
        };
        // From git 2.47: the first bytes of a zlib stream.
        assert_eq!(decode("HcmV?d00001\n").unwrap(), [0x78, 0x01, 0x03, 0, 0, 0, 0, 1]);
        for bad in ["", "\n", "A\n", "A0000\n", "A00000", "E00000\n", "@00000\n", "A\"0000\n"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        // The largest group, and one past it.
        assert_eq!(decode("D|NsC0\n").unwrap(), [0xff; 4]);
        assert_eq!(decode("D|NsC1\n"), None);
    }

    #[test]
    fn sizes_as_strtoul_reads_them() {
        let size = |line| method(line).map(|(_, size)| size);
        assert_eq!(size("literal 12\n"), Some(12));
        assert_eq!(size("delta  +12x\n"), Some(12));
        assert_eq!(size("literal x\n"), Some(0));
        assert_eq!(size("literal -1\n"), Some(u64::MAX));
        assert_eq!(size("literal 99999999999999999999\n"), Some(u64::MAX));
        assert_eq!(size("literal\n"), None);
    }
}
