//! Whether a reference, `HEAD`, `packed-refs` or a note says what such a file may say, and what that
//! is.

use std::collections::BTreeMap;

use git2::Oid;

use super::super::reason::Reason;

/// What a reference holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An object.
    Id(Oid),
    /// Another reference.
    Link(String),
}

/// Checks the content of the name `rest` below `.git`; other names are not looked at.
pub(crate) fn check(rest: &[u8], content: &[u8]) -> Result<(), Reason> {
    let fine = match rest {
        b"HEAD" => is_head(content),
        b"packed-refs" => content.split(|byte| *byte == b'\n').all(is_packed_line),
        b"FETCH_HEAD" => lines(content).all(is_fetched),
        rest if rest.starts_with(b"refs/") => is_name(rest) && value(content).is_some(),
        rest if rest.starts_with(b"logs/") => lines(content).all(is_logged),
        rest if names_objects(rest) => lines(content).all(is_oid),
        _ => true,
    };
    if fine { Ok(()) } else { Err(broken(rest)) }
}

/// What the content of a loose reference or of `HEAD` says.
pub(crate) fn value(content: &[u8]) -> Option<Value> {
    match content.strip_prefix(b"ref: ") {
        Some(target) => {
            let target = trim(target);
            let text = is_name(target).then(|| std::str::from_utf8(target).ok())??;
            Some(Value::Link(text.to_owned()))
        }
        None => oid(trim(content)).map(Value::Id),
    }
}

/// What `packed-refs` says, line by line; the lines are well-formed.
pub(crate) fn packed(content: &[u8]) -> BTreeMap<String, Oid> {
    let named = lines(content).filter_map(|line| {
        let (id, name) = line.split_at_checked(40)?;
        let name = std::str::from_utf8(name.strip_prefix(b" ")?).ok()?;
        Some((name.to_owned(), oid(id)?))
    });
    named.collect()
}

/// The objects that a note such as `MERGE_HEAD` names; none for messages.
pub(crate) fn noted(rest: &[u8], content: &[u8]) -> Vec<Oid> {
    if rest != b"FETCH_HEAD" && !names_objects(rest) {
        return Vec::new();
    }
    let ids = lines(content).filter_map(|line| oid(line.get(..40)?));
    ids.collect()
}

fn names_objects(rest: &[u8]) -> bool {
    rest == b"AUTO_MERGE" || (rest.ends_with(b"_HEAD") && !rest.contains(&b'/'))
}

fn broken(rest: &[u8]) -> Reason {
    let name = aegis_policies::path::escape(rest);
    Reason::GitBroken(format!(
        "`.git/{name}` does not hold a well-formed reference"
    ))
}

fn is_head(content: &[u8]) -> bool {
    match value(content) {
        Some(Value::Link(target)) => target.starts_with("refs/heads/"),
        Some(Value::Id(_)) => true,
        None => false,
    }
}

/// The format that `git pack-refs` writes (gitformat-pack-refs).
fn is_packed_line(line: &[u8]) -> bool {
    match line {
        [] | [b'#', ..] => true,
        [b'^', id @ ..] => is_oid(id),
        line => match line.split_at_checked(40) {
            Some((id, [b' ', name @ ..])) => is_oid(id) && is_name(name),
            _ => false,
        },
    }
}

/// What `git fetch` notes: an object, whether to merge it, and where it came from.
fn is_fetched(line: &[u8]) -> bool {
    let plain = line
        .iter()
        .all(|byte| *byte == b'\t' || !byte.is_ascii_control());
    let shaped = line.split_at_checked(40);
    plain && shaped.is_some_and(|(id, rest)| is_oid(id) && rest.starts_with(b"\t"))
}

/// A line of a log: what the reference held, what it holds, and who made it so. The message is the
/// first line of a commit's, whatever that is.
fn is_logged(line: &[u8]) -> bool {
    let field = |at: usize| match line.get(at..).and_then(|line| line.split_at_checked(40)) {
        Some((id, [b' ', ..])) => id.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    };
    field(0) && field(41)
}

/// A replacement reference would exchange one object for another behind every command. A branch or
/// tag that starts with a dash is an option to many of them, and one called `HEAD` hides the real
/// one (gitrevisions).
fn is_name(name: &[u8]) -> bool {
    let valid = std::str::from_utf8(name).is_ok_and(git2::Reference::is_valid_name);
    let short = [&b"refs/heads/"[..], b"refs/tags/", b"refs/remotes/"]
        .iter()
        .find_map(|room| name.strip_prefix(*room));
    let honest = short.is_none_or(|short| !short.starts_with(b"-") && short != b"HEAD");
    valid && honest && name.starts_with(b"refs/") && !name.starts_with(b"refs/replace/")
}

fn is_oid(text: &[u8]) -> bool {
    oid(text).is_some()
}

fn oid(text: &[u8]) -> Option<Oid> {
    let digits = text.len() == 40 && text.iter().all(u8::is_ascii_hexdigit);
    let id = digits.then(|| Oid::from_str(std::str::from_utf8(text).ok()?).ok())??;
    (!id.is_zero()).then_some(id)
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = content.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty())
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
            ("MERGE_HEAD", &format!("{OID}\n{OID}\n")),
            (
                "logs/HEAD",
                &format!("{OID} {OID} A <a@b> 0 +0000\tcommit: x\n"),
            ),
            (
                "FETCH_HEAD",
                &format!("{OID}\tnot-for-merge\tbranch 'x' of y\n"),
            ),
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
            ("refs/heads/-x", OID),
            ("refs/heads/HEAD", OID),
            ("refs/tags/HEAD", OID),
            (
                "refs/heads/zero",
                "0000000000000000000000000000000000000000",
            ),
            ("HEAD", "ref: refs/heads/-evil\n"),
            ("FETCH_HEAD", "\x1b]0;title\x07"),
            ("MERGE_HEAD", "garbage"),
            ("ORIG_HEAD", "0123\n"),
            ("logs/HEAD", "0123 4567 A <a@b> 0 +0000\tx\n"),
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
