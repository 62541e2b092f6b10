//! One spelling for all that some file system takes for the same name.

use unicode_normalization::UnicodeNormalization as _;

/// What a name becomes on a file system that knows neither letter case nor Unicode form: the
/// canonical decomposition with full case folding and without what shows nothing (ext4 and f2fs
/// with `casefold`, APFS, HFS+). Names with the same fold are one name there.
///
/// Bytes that are not UTF-8 stay as they are.
#[must_use]
pub fn fold(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let mut folded = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        folded.extend_from_slice(fold_text(chunk.valid()).as_bytes());
        folded.extend_from_slice(chunk.invalid());
    }
    folded
}

/// The code points that show nothing (Unicode's Default_Ignorable_Code_Point): HFS+ and the
/// `casefold` of Linux leave them out when they compare names, and git refuses `.git` written with
/// them for the same reason (CVE-2014-9390).
#[must_use]
pub const fn is_ignorable(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Lower, upper and lower again: `ß` and the ligatures fold to several letters through their upper
/// case, `ſ` has no other partner, and the capital `ẞ` gets there through the small one.
fn fold_text(text: &str) -> String {
    let lower: String = text.nfd().flat_map(char::to_lowercase).collect();
    let folded = lower
        .chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase);
    folded
        .nfd()
        .filter(|character| !is_ignorable(*character))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_name_has_one_fold() {
        for (one, other) in [
            ("README", "readme"),
            ("caf\u{e9}", "CAFE\u{301}"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{1e9e}h", "ssh"),
            ("\u{212a}ey", "key"),
            ("\u{17f}h", "sh"),
            ("con\u{fb01}g", "config"),
            ("\u{fb03}", "ffi"),
            ("\u{fb05}", "st"),
            ("\u{1f0}", "j\u{30c}"),
        ] {
            assert_eq!(fold(one.as_bytes()), fold(other.as_bytes()), "{one}");
        }
        assert_ne!(fold(b"a"), fold("\u{430}".as_bytes()));
    }

    #[test]
    fn what_shows_nothing_is_left_out() {
        let ignored = ('\0'..=char::MAX).filter(|character| is_ignorable(*character));
        for character in ignored {
            let name = format!(".g{character}it");
            assert_eq!(fold(name.as_bytes()), b".git", "{:x}", u32::from(character));
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        assert_eq!(fold(b"A\xff\xc3"), b"a\xff\xc3");
    }
}
