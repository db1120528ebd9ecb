//! A binary change onto one file, as `git apply` does it.
//!
//! Owns what the `index` line must say, and git's delta instructions. Git also takes the
//! new file from its object store if it has it there; here only the diff's own data counts.

use sha1::{Digest as _, Sha1};

use crate::diff::{FilePatch, Method, Patch};
use crate::fault::ApplyFault;
use crate::work::Work;

/// Hexadecimal digits of a full SHA-1.
const HASH: usize = 40;

/// The new bytes of `file`, whose old ones are `before`.
pub(super) fn patched(
    patch: &Patch,
    file: &FilePatch,
    before: &[u8],
    work: &mut Work,
) -> Result<Vec<u8>, ApplyFault> {
    let path = || file.path().to_owned();
    let malformed = |why| ApplyFault::Malformed { path: path(), why };
    let (old, new) = file.blobs();
    let is_full = |id: &str| id.len() == HASH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_full(old) || !is_full(new) {
        return Err(ApplyFault::Binary { path: path() });
    }
    work.spend(before.len() as u64)?;
    let is_as_stated = if file.old.is_some() { blob_id(before) == old } else { before.is_empty() };
    if !is_as_stated {
        return Err(ApplyFault::WrongBlob { path: path() });
    }
    if new.bytes().all(|byte| byte == b'0') {
        return Ok(Vec::new());
    }
    let Some(data) = file.data() else { return Err(ApplyFault::Binary { path: path() }) };
    work.spend(data.size)?;
    let bytes = patch.inflated(data).ok_or_else(|| malformed("corrupt binary data"))?;
    let after = match data.method {
        Method::Literal => bytes,
        Method::Delta => apply_delta(before, &bytes, work)?
            .ok_or_else(|| malformed("a delta that does not fit"))?,
    };
    work.spend(after.len() as u64)?;
    if blob_id(&after) == new { Ok(after) } else { Err(malformed("binary data of another file")) }
}

/// The name git gives these bytes.
fn blob_id(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The shortest delta git reads.
const SHORTEST: usize = 4;

/// Follow a delta's instructions. `None` if they do not fit `before` or are cut off.
fn apply_delta(
    before: &[u8],
    delta: &[u8],
    work: &mut Work,
) -> Result<Option<Vec<u8>>, ApplyFault> {
    let mut delta = delta;
    if delta.len() < SHORTEST || size(&mut delta) != Some(before.len() as u64) {
        return Ok(None);
    }
    let Some(length) = size(&mut delta) else { return Ok(None) };
    work.spend(length)?;
    Ok(instructions(before, delta, length))
}

fn instructions(before: &[u8], mut delta: &[u8], length: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((code, rest)) = delta.split_first() {
        delta = rest;
        let piece = match code {
            // Kept for what may come.
            0 => return None,
            1..=127 => {
                let (piece, rest) = delta.split_at_checked(usize::from(*code))?;
                delta = rest;
                piece
            }
            _ => {
                let start = number(*code, &mut delta, 4)? as usize;
                let count = match number(code >> 4, &mut delta, 3)? as usize {
                    0 => 0x1_0000,
                    count => count,
                };
                before.get(start..start.checked_add(count)?)?
            }
        };
        out.extend_from_slice(piece);
        if out.len() as u64 > length {
            return None;
        }
    }
    (out.len() as u64 == length).then_some(out)
}

/// The bytes that the low bits of `code` announce, low byte first.
fn number(code: u8, delta: &mut &[u8], most: u32) -> Option<u32> {
    let mut number = 0;
    for bit in 0..most {
        if code & 1 << bit != 0 {
            let (byte, rest) = delta.split_first()?;
            *delta = rest;
            number |= u32::from(*byte) << (8 * bit);
        }
    }
    Some(number)
}

/// A size in groups of seven bits, low ones first.
fn size(delta: &mut &[u8]) -> Option<u64> {
    let mut size = 0_u64;
    let mut shift = 0;
    loop {
        let Some((byte, rest)) = delta.split_first() else {
            // Git stops at the end of the data, whatever the last byte said.
            return (shift > 0).then_some(size);
        };
        *delta = rest;
        size |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_as_git_reads_them() {
        let run = |delta: &[u8]| apply_delta(b"hello", delta, &mut Work::new()).unwrap();
        let copies_and_adds = [5, 7, 0x91, 1, 3, 4, b'a', b'b', b'c', b'd'];
        assert_eq!(
            run(&copies_and_adds).unwrap(),
            b"elloabcd"[..3].iter().chain(b"abcd").copied().collect::<Vec<u8>>()
        );
        assert_eq!(run(&[5, 5, 0x90, 5]).unwrap(), b"hello");
        // Another source, another length, a copy past the end, cut off, code zero.
        for bad in [
            &[4, 5, 0x90, 5][..],
            &[5, 6, 0x90, 5],
            &[5, 4, 0x90, 5],
            &[5, 5, 0x91, 1, 5],
            &[5, 5, 0x90],
            &[5, 1, 2, b'a'],
            &[5, 1, 0, b'a'],
            &[5, 0],
        ] {
            assert_eq!(run(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_name_of_an_empty_file() {
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }
}
