//! Takes an injected key out of what comes back.
//!
//! An upstream that echoes a request (an error page, a debug endpoint) would hand the key to the
//! agent. The key is replaced by as many asterisks, so that lengths stay true.

use bytes::{Bytes, BytesMut};
use hyper::header::{HeaderMap, HeaderValue};

/// Replaces a key in a stream, wherever the stream is cut.
#[derive(Debug)]
pub(crate) struct Scrubber {
    key: Box<[u8]>,
    /// For each length of a matched start of the key: the longest shorter start that also matches
    /// (Knuth, Morris and Pratt).
    fallback: Box<[usize]>,
    /// How many bytes at the end of the stream are the start of a key, and held back.
    matched: usize,
}

/// Below this, a key would be found by chance in ordinary text, and could be guessed anyway.
const SHORTEST_KEY: usize = 8;
const MASK: u8 = b'*';

impl Scrubber {
    /// `None` when the key is too short to be told from ordinary text.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        (key.len() >= SHORTEST_KEY).then(|| Self {
            key: key.into(),
            fallback: fallbacks(key),
            matched: 0,
        })
    }

    /// Takes the next piece and gives what can be passed on now. Only bytes that may be the start
    /// of the key wait for the next piece.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        if self.matched == 0 && !piece.iter().any(|byte| self.key.first() == Some(byte)) {
            return piece;
        }
        let mut out = BytesMut::with_capacity(self.matched + piece.len());
        out.extend_from_slice(self.key.get(..self.matched).unwrap_or_default());
        for byte in piece {
            out.extend_from_slice(&[byte]);
            self.matched = self.advance(byte);
            if self.matched == self.key.len() {
                let start = out.len().saturating_sub(self.matched);
                out.iter_mut().skip(start).for_each(|byte| *byte = MASK);
                self.matched = 0;
            }
        }
        out.truncate(out.len().saturating_sub(self.matched));
        out.freeze()
    }

    /// Gives what was held back, at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        let rest = self.key.get(..self.matched).unwrap_or_default();
        let rest = Bytes::copy_from_slice(rest);
        self.matched = 0;
        rest
    }

    /// Replaces the key in header values.
    pub(crate) fn scrub_headers(&mut self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut scrubbed =
                BytesMut::from(&*self.push(Bytes::copy_from_slice(value.as_bytes())));
            scrubbed.extend_from_slice(&self.finish());
            if scrubbed != value.as_bytes() {
                // The bytes were a header value before and `*` is allowed in one.
                *value = HeaderValue::from_maybe_shared(scrubbed.freeze())
                    .unwrap_or(HeaderValue::from_static("*"));
            }
        }
    }

    /// The length of the longest start of the key that ends with `byte`.
    fn advance(&self, byte: u8) -> usize {
        let mut length = self.matched;
        loop {
            if self.key.get(length) == Some(&byte) {
                return length + 1;
            }
            if length == 0 {
                return 0;
            }
            length = self.fallback.get(length - 1).copied().unwrap_or(0);
        }
    }
}

fn fallbacks(key: &[u8]) -> Box<[usize]> {
    let mut table: Vec<usize> = Vec::with_capacity(key.len());
    let mut length = 0;
    for (index, byte) in key.iter().enumerate() {
        while length > 0 && key.get(length) != Some(byte) {
            length = table.get(length - 1).copied().unwrap_or(0);
        }
        if index > 0 && key.get(length) == Some(byte) {
            length += 1;
        }
        table.push(length);
    }
    table.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrub(key: &str, pieces: &[&[u8]]) -> String {
        let mut scrubber = Scrubber::new(key.as_bytes()).unwrap();
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&scrubber.push(Bytes::copy_from_slice(piece)));
        }
        out.extend_from_slice(&scrubber.finish());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_key_cut_anywhere_is_replaced() {
        let text = b"before sk-secret-1 between sk-sk-secret-1sk-secret-1 after sk-secret-";
        let expected = "before *********** between sk-********************** after sk-secret-";
        for first in 0..text.len() {
            for second in first..text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(scrub("sk-secret-1", &pieces), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn keys_that_repeat_themselves_are_found() {
        assert_eq!(scrub("aabaabaac", &[b"aabaabaabaac"]), "aab*********");
        assert_eq!(scrub("aaaaaaaa", &[b"aaaa", b"aaaaa"]), "********a");
    }

    #[test]
    fn an_event_is_not_held_back() {
        let mut scrubber = Scrubber::new(b"sk-secret-1").unwrap();
        let event = Bytes::from_static(b"data: {\"delta\":\"keys, s\"}\n\n");
        assert_eq!(scrubber.push(event.clone()), event);
        assert_eq!(scrubber.push(Bytes::from_static(b"is s")), "is ");
        assert_eq!(scrubber.push(Bytes::from_static(b"o")), "so");
    }

    #[test]
    fn header_values_are_scrubbed() {
        let mut headers = HeaderMap::new();
        headers.append("location", HeaderValue::from_static("/?key=sk-secret-1"));
        headers.append("x-plain", HeaderValue::from_static("sk-secret-"));
        Scrubber::new(b"sk-secret-1")
            .unwrap()
            .scrub_headers(&mut headers);
        assert_eq!(headers["location"], "/?key=***********");
        assert_eq!(headers["x-plain"], "sk-secret-");
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_replacement(
            key in "[ab]{8,10}",
            text in "[ab]{0,200}",
            cuts in proptest::collection::vec(0usize..200, 0..5),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> =
                cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            let expected = text.replace(&key, &"*".repeat(key.len()));
            proptest::prop_assert_eq!(scrub(&key, &pieces), expected);
        }
    }
}
