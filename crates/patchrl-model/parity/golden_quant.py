"""Golden numbers for src/weights/quant.rs: two blocks of fixed bytes, dequantised by the `gguf` package.

    pip install gguf
    python golden_quant.py

Byte i of a block is (i * 37 + 11) % 256, except the half-precision scales, which would be huge or NaN:
they are 0.0125 and, for the minimum, -0.75 (first block), twice that (second block).
Prints, for each format, the FNV-1a hash of the values' little-endian float32 bytes and three of the values.
"""

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import dequantize

HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2],
          T.Q6_K: [208], T.F16: [0], T.BF16: []}
BYTES = {T.Q4_0: 18, T.Q4_1: 20, T.Q5_0: 22, T.Q5_1: 24, T.Q8_0: 34, T.Q4_K: 144, T.Q5_K: 176, T.Q6_K: 210, T.F16: 2,
         T.BF16: 2}

for kind, size in BYTES.items():
    blocks = []
    for block in range(2):
        data = np.array([(i * 37 + 11) % 256 for i in range(size)], dtype=np.uint8)
        for at, value in zip(HALVES[kind], (0.0125, -0.75)):
            data[at:at + 2] = np.frombuffer(np.float16(value * (block + 1)).tobytes(), dtype=np.uint8)
        blocks.append(data)
    values = dequantize(np.concatenate(blocks)[None, :], kind).astype("<f4").ravel()
    hash_ = 0xCBF29CE484222325
    for byte in values.tobytes():
        hash_ = ((hash_ ^ byte) * 0x100000001B3) % 2**64
    picks = [float(values[at]) for at in (0, len(values) // 2 - 1, len(values) - 1)]
    print(f"{kind.name:5} {hash_:#018x} {picks}")
