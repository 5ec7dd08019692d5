//! Lengths of commands and replies in the Redis protocol.

/// Returns the length of the first reply in `bytes` (RESP2 or RESP3); `None` if it is incomplete.
pub(super) fn reply_len(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    let mut left = 1_u64;
    while left > 0 {
        left -= 1;
        let (kind, number, line) = line(bytes.get(end..)?)?;
        end += line;
        match kind {
            b'$' | b'!' | b'=' => end += usize::try_from(number).map_or(0, |length| length + 2),
            b'*' | b'~' | b'>' => left += u64::try_from(number).unwrap_or(0),
            b'%' => left += 2 * u64::try_from(number).unwrap_or(0),
            // The attributed reply follows.
            b'|' => left += 2 * u64::try_from(number).unwrap_or(0) + 1,
            _ => {}
        }
    }
    (end <= bytes.len()).then_some(end)
}

/// Returns the length of the first command in `bytes`: a list of strings, or a line.
pub(super) fn command_len(bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&b'*') { reply_len(bytes) } else { line(bytes).map(|(.., line)| line) }
}

/// Returns the name of a command in capitals.
pub(super) fn name(command: &[u8]) -> String {
    let mut words = command.split(|&byte| byte == b'\n');
    let word = if command.first() == Some(&b'*') { words.nth(2) } else { words.next() };
    let word = word.unwrap_or_default().split(|byte| byte.is_ascii_whitespace()).next();
    String::from_utf8_lossy(word.unwrap_or_default()).to_ascii_uppercase()
}

/// Parses the first line: its type byte, the number after it (0 if there is none), and its length with line break.
fn line(bytes: &[u8]) -> Option<(u8, i64, usize)> {
    let end = bytes.windows(2).position(|window| window == b"\r\n")?;
    let number = bytes[..end].get(1..).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Some((bytes[0], number.unwrap_or(0), end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_replies_are_exact() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-7\r\n",
            "$5\r\na\r\nbc\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
            "%1\r\n+a\r\n*1\r\n_\r\n",
            "|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
            "~1\r\n#t\r\n",
            "=7\r\ntxt:abc\r\n",
        ] {
            let more = format!("{reply}+next\r\n");
            assert_eq!(reply_len(more.as_bytes()), Some(reply.len()), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(reply_len(&reply.as_bytes()[..cut]), None, "{:?}", &reply[..cut]);
            }
        }
    }

    #[test]
    fn lengths_and_names_of_commands_are_exact() {
        for (command, called) in [("*2\r\n$7\r\nevalsha\r\n$2\r\n\r\n\r\n", "EVALSHA"), ("PING\r\n", "PING")] {
            assert_eq!(command_len(format!("{command}*1\r\n").as_bytes()), Some(command.len()));
            assert_eq!(name(command.as_bytes()), called);
        }
    }
}
