"""The streams of the programs of the load test, computed here from their description: packages stream and program."""

import struct

M48, M64 = (1 << 48) - 1, (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & M64
    return x ^ x >> 31


def of(seed, session, process, run, name):
    """Returns the key of a stream."""
    h = mix(seed ^ 0x74726F757065)
    for text in (session, process, name):
        h = mix(h ^ len(text))
        for i in range(0, len(text), 8):
            h = mix(h ^ int.from_bytes(text[i : i + 8].encode(), "little"))
    return mix(h ^ run) & M48


def run_key(key, run, name):
    return of(key, "", "", run, name)


def spread(x):
    """Returns 48 bits as 8 characters from '0' on, the lowest six bits first."""
    return sum((48 + (x >> 6 * i & 63)) << 8 * i for i in range(8))


def content(key, size):
    """Returns the first size bytes of a stream."""
    cells = []
    for number in range((size + 15) // 16):
        x = ((number + 0x5BD1E9955BD1) * 0x9E3779B97F4B) & M48
        x ^= x >> 24
        x = x * 0xD6E8FEB86659 & M48
        a = spread(x ^ x >> 24)
        b = spread((mix(x ^ x >> 24) ^ key) & M48)
        cells.append(struct.pack("<QQ", a, b))
    return b"".join(cells)[:size]


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = _table()


def crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF


def parse_line(key, line):
    """Returns the number and the body of a line, whose check sum is right."""
    assert line.endswith(b"\n")
    text, sum_ = line[:-9], line[-9:-1]
    assert int(sum_, 16) == crc(struct.pack(">Q", key) + text), line
    return int(text[:10]), text[28:-1]


HELLO, END = 38 + 6 + 16 + 1 + 10, 1 + 38 + 4 + 20


def check(key, output, size, stream="stdout"):
    """Checks the output of a run of burst or flood: a hello, the content, an end."""
    stream_key = run_key(key, 1, stream)
    if stream == "stdout":
        assert parse_line(key, output[:HELLO])[1].startswith(b"hello 0000000000000001 ")
        output = output[HELLO:]
    assert output[:-END] == content(stream_key, size)
    assert output[-END:-END + 1] == b"\n"
    assert parse_line(stream_key, output[-END + 1 :])[1] == b"end %020d" % size


def digest(data):
    """Returns the digest that upload prints of its stdin: FNV-1a, with 0 for nothing."""
    h = 14695981039346656037
    for byte in data:
        h = (h ^ byte) * 1099511628211 & M64
    return h ^ 14695981039346656037
