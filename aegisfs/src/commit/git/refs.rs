//! Whether a reference, `HEAD`, `packed-refs` or a log says what such a file may say.

use super::super::reason::Reason;

/// Checks the content of the name `rest` below `.git`; other names are not looked at.
pub(crate) fn check(rest: &[u8], content: &[u8]) -> Result<(), Reason> {
    let fine = match rest {
        b"HEAD" => is_head(content),
        b"packed-refs" => content.split(|byte| *byte == b'\n').all(is_packed_line),
        rest if rest.starts_with(b"refs/") => is_name(rest) && is_value(content),
        _ => true,
    };
    if fine { Ok(()) } else { Err(broken(rest)) }
}

fn broken(rest: &[u8]) -> Reason {
    let name = aegis_policies::path::escape(rest);
    Reason::GitBroken(format!(
        "`.git/{name}` does not hold a well-formed reference"
    ))
}

fn is_head(content: &[u8]) -> bool {
    match content.strip_prefix(b"ref: ") {
        Some(target) => {
            let target = trim(target);
            target.starts_with(b"refs/heads/") && is_name(target)
        }
        None => is_oid(trim(content)),
    }
}

fn is_value(content: &[u8]) -> bool {
    match content.strip_prefix(b"ref: ") {
        Some(target) => is_name(trim(target)),
        None => is_oid(trim(content)),
    }
}

/// The format that `git pack-refs` writes (gitformat-pack-refs).
fn is_packed_line(line: &[u8]) -> bool {
    match line {
        [] | [b'#', ..] => true,
        [b'^', oid @ ..] => is_oid(oid),
        line => match line.split_at_checked(40) {
            Some((oid, [b' ', name @ ..])) => is_oid(oid) && is_name(name),
            _ => false,
        },
    }
}

/// A replacement reference would exchange one object for another behind every command.
fn is_name(name: &[u8]) -> bool {
    let valid = std::str::from_utf8(name).is_ok_and(git2::Reference::is_valid_name);
    valid && name.starts_with(b"refs/") && !name.starts_with(b"refs/replace/")
}

fn is_oid(text: &[u8]) -> bool {
    text.len() == 40 && text.iter().all(u8::is_ascii_hexdigit)
}

fn trim(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn well_formed_references_pass() {
        let packed = format!("# pack-refs with: peeled\n{OID} refs/tags/a\n^{OID}\n");
        for (rest, content) in [
            ("HEAD", "ref: refs/heads/main\n"),
            ("HEAD", OID),
            ("refs/heads/a/b", &format!("{OID}\n")),
            (
                "refs/remotes/origin/HEAD",
                "ref: refs/remotes/origin/main\n",
            ),
            ("packed-refs", &packed),
            ("COMMIT_EDITMSG", "anything"),
        ] {
            assert_eq!(check(rest.as_bytes(), content.as_bytes()), Ok(()), "{rest}");
        }
    }

    #[test]
    fn malformed_references_are_refused() {
        let replaced = format!("{OID} refs/replace/{OID}\n");
        for (rest, content) in [
            ("HEAD", "ref: ../../outside\n"),
            ("HEAD", "ref: refs/heads/a..b\n"),
            ("HEAD", "ref: refs/tags/x\n"),
            ("refs/heads/x", "--upload-pack=evil\n"),
            ("refs/heads/-x y", OID),
            ("packed-refs", &replaced),
            ("packed-refs", "short refs/heads/x\n"),
        ] {
            assert!(
                check(rest.as_bytes(), content.as_bytes()).is_err(),
                "{rest} {content}"
            );
        }
    }
}
