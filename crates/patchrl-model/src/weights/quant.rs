//! GGML's number formats, turned into f32.
//!
//! Owns the block layouts of the formats in which small models are shared. Arithmetic is in f32
//! in the order of the `gguf` package, so that the values are the same to the last bit. Does not
//! quantise.

use half::{bf16, f16};

/// How the numbers of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl Format {
    /// GGML's number of the format, as GGUF writes it.
    pub(crate) fn from_ggml(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Numbers in one block.
    pub(crate) fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block.
    pub(crate) fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Turn whole blocks into numbers. `bytes` and `out` must hold the same number of blocks.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        let blocks = bytes.chunks_exact(self.block_bytes());
        let outs = out.chunks_exact_mut(self.block_len());
        debug_assert_eq!(blocks.len(), outs.len());
        let decode_block = match self {
            Self::F32 => {
                |b: &[u8], o: &mut [f32]| o[0] = f32::from_le_bytes([b[0], b[1], b[2], b[3]])
            }
            Self::F16 => |b: &[u8], o: &mut [f32]| o[0] = half_at(b, 0),
            Self::Bf16 => {
                |b: &[u8], o: &mut [f32]| o[0] = bf16::from_le_bytes([b[0], b[1]]).to_f32()
            }
            Self::Q4_0 => q4_0,
            Self::Q4_1 => q4_1,
            Self::Q5_0 => q5_0,
            Self::Q5_1 => q5_1,
            Self::Q8_0 => q8_0,
            Self::Q4K => q4_k,
            Self::Q5K => q5_k,
            Self::Q6K => q6_k,
        };
        for (block, out) in blocks.zip(outs) {
            decode_block(block, out);
        }
    }
}

fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Scale (2 bytes), 16 bytes of nibbles: low nibbles first, then high ones.
fn q4_0(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for (i, byte) in block[2..18].iter().enumerate() {
        out[i] = d * (f32::from(byte & 15) - 8.0);
        out[i + 16] = d * (f32::from(byte >> 4) - 8.0);
    }
}

/// Scale, minimum, nibbles.
fn q4_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, byte) in block[4..20].iter().enumerate() {
        out[i] = d * f32::from(byte & 15) + m;
        out[i + 16] = d * f32::from(byte >> 4) + m;
    }
}

/// Scale, 32 fifth bits, nibbles.
fn q5_0(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    five_bits(&block[2..22], |i, q| out[i] = d * (f32::from(q) - 16.0));
}

/// Scale, minimum, 32 fifth bits, nibbles.
fn q5_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    five_bits(&block[4..24], |i, q| out[i] = d * f32::from(q) + m);
}

fn five_bits(bytes: &[u8], mut put: impl FnMut(usize, u8)) {
    let high = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    for (i, byte) in bytes[4..20].iter().enumerate() {
        put(i, (byte & 15) | (((high >> i) & 1) as u8) << 4);
        put(i + 16, (byte >> 4) | (((high >> (i + 16)) & 1) as u8) << 4);
    }
}

/// Scale, 32 signed bytes.
fn q8_0(block: &[u8], out: &mut [f32]) {
    let d = half_at(block, 0);
    for (value, byte) in out.iter_mut().zip(&block[2..34]) {
        *value = d * f32::from(byte.cast_signed());
    }
}

/// Super-scale, super-minimum, eight 6-bit scales and minima in 12 bytes, 128 bytes of nibbles.
fn q4_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let (scales, nibbles) = (&block[4..16], &block[16..144]);
    for sub in 0..8 {
        let (scale, min) = six_bit_pair(scales, sub);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        let bytes = &nibbles[sub / 2 * 32..][..32];
        for (value, byte) in out[sub * 32..][..32].iter_mut().zip(bytes) {
            let q = if sub % 2 == 0 { byte & 15 } else { byte >> 4 };
            *value = scale * f32::from(q) - min;
        }
    }
}

/// As `Q4_K`, with 32 bytes of fifth bits before the nibbles: bit `sub` belongs to sub-block `sub`.
fn q5_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let (scales, high, nibbles) = (&block[4..16], &block[16..48], &block[48..176]);
    for sub in 0..8 {
        let (scale, min) = six_bit_pair(scales, sub);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        let bytes = &nibbles[sub / 2 * 32..][..32];
        for (i, value) in out[sub * 32..][..32].iter_mut().enumerate() {
            let low = if sub % 2 == 0 { bytes[i] & 15 } else { bytes[i] >> 4 };
            let q = low | ((high[i] >> sub) & 1) << 4;
            *value = scale * f32::from(q) - min;
        }
    }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, super-scale.
fn q6_k(block: &[u8], out: &mut [f32]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = half_at(block, 208);
    for (i, value) in out.iter_mut().enumerate() {
        // Each half of 128 is four runs of 32; two runs share a byte of nibbles, four a byte of
        // bit pairs.
        let (half, run, at) = (i / 128, i % 128 / 32, i % 32);
        let byte = low[half * 64 + run % 2 * 32 + at];
        let nibble = if run < 2 { byte & 15 } else { byte >> 4 };
        let pair = (high[half * 32 + at] >> (run * 2)) & 3;
        let scale = d * f32::from(scales[i / 16].cast_signed());
        *value = scale * (f32::from(nibble | pair << 4) - 32.0);
    }
}

/// Scale and minimum of sub-block `sub`: the first four lie in the low 6 bits of bytes 0 to 7,
/// the others are put together from bytes 8 to 11 and the top bits of the first eight.
fn six_bit_pair(bytes: &[u8], sub: usize) -> (u8, u8) {
    if sub < 4 {
        return (bytes[sub] & 63, bytes[sub + 4] & 63);
    }
    let scale = (bytes[sub + 4] & 15) | (bytes[sub - 4] >> 6) << 4;
    let min = (bytes[sub + 4] >> 4) | (bytes[sub] >> 6) << 4;
    (scale, min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks as `parity/golden_quant.py` makes them; the hashes are its output.
    #[test]
    fn every_format_equals_the_gguf_package_bit_for_bit() {
        let golden: [(Format, &[usize], u64); 10] = [
            (Format::Q4_0, &[0], 0x763a_f56c_af43_ad43),
            (Format::Q4_1, &[0, 2], 0x1ba7_2ddf_fde9_9c85),
            (Format::Q5_0, &[0], 0x96af_e200_9388_b2ef),
            (Format::Q5_1, &[0, 2], 0x4217_d51a_f94c_2505),
            (Format::Q8_0, &[0], 0x372e_8e6d_1531_1f68),
            (Format::Q4K, &[0, 2], 0x9e6f_d0a9_5d10_41e8),
            (Format::Q5K, &[0, 2], 0x875f_f8a6_e5d3_7044),
            (Format::Q6K, &[208], 0x747f_52fc_208a_b413),
            (Format::F16, &[0], 0x5afd_476f_22ea_0795),
            (Format::Bf16, &[], 0x6bb1_2775_7b88_8f55),
        ];
        for (format, halves, hash) in golden {
            let mut bytes = Vec::new();
            for block in 1..=2 {
                let start = bytes.len();
                bytes.extend((0..format.block_bytes()).map(|i| ((i * 37 + 11) % 256) as u8));
                for (at, value) in halves.iter().zip([0.0125, -0.75]) {
                    let half = f16::from_f64(value * f64::from(block)).to_le_bytes();
                    bytes[start + at..][..2].copy_from_slice(&half);
                }
            }
            let mut values = vec![0.0; 2 * format.block_len()];
            format.decode(&bytes, &mut values);
            let bytes = values.iter().flat_map(|value: &f32| value.to_le_bytes());
            let got = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            assert_eq!(got, hash, "{format:?}: {values:?}");
        }
    }
}
