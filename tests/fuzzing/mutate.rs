//! Changes of inputs.

use fastrand::Rng;

/// Pieces that matter to the parsers.
const PIECES: [&[u8]; 49] = [
    b"",
    b"\0",
    b"\r\n",
    b"\n",
    b" ",
    b"\t",
    b",",
    b";",
    b":",
    b"/",
    b"//",
    b"/.",
    b"/..",
    b"/..;a",
    b"%2e",
    b"%2F",
    b"%5C",
    b"%00",
    b"%",
    b"\\",
    b"@",
    b"*",
    b"http://",
    b"Host: a\n",
    b"Transfer-Encoding: chunked\n",
    b"Content-Length: 1\n",
    b"chunked",
    b"10.0.0.2",
    b"[::1]:80",
    b"::ffff:10.0.0.3",
    b"for=",
    b"PROXY TCP4 ",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11",
    b"\"",
    b"*2\r\n",
    b":1\r\n",
    b":-1\r\n",
    b"$-1\r\n",
    b":9223372036854775807\r\n",
    b"eyJhbGciOiJub25lIn0",
    b".",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"70000",
    b"\\r\\n",
];

/// Maximum length of an input.
const MAX_BYTES: usize = 2048;

/// Returns an input of the corpus with one to four changes.
pub fn mutate(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(..=input.len());
        let end = random.usize(at..=input.len().min(at + 16));
        match random.u8(..6) {
            0 => drop(input.drain(at..end)),
            1 => input.splice(at..at, PIECES[random.usize(..PIECES.len())].iter().copied()).for_each(drop),
            2 => input.splice(at..end, PIECES[random.usize(..PIECES.len())].iter().copied()).for_each(drop),
            3 => {
                let copy = input[at..end].to_vec();
                let to = random.usize(..=input.len());
                input.splice(to..to, copy).for_each(drop);
            }
            4 => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.u8(..8);
                }
            }
        }
    }
    input.truncate(MAX_BYTES);
    input
}
