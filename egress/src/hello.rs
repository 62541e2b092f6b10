//! The TLS ClientHello at the start of a tunnel (RFC 8446, section 4.1.2).
//!
//! A tunnel is allowed for a name. The name that the client tells the server must be that name:
//! many servers answer for thousands of others at the same address ("domain fronting").

use crate::name::Host;

/// What a ClientHello says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The names in its server_name extension, as sent.
    pub(crate) names: Vec<Vec<u8>>,
    /// Whether it carries an encrypted ClientHello, real or decoy.
    pub(crate) encrypted: bool,
}

/// Why a hello is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HelloError {
    /// The bytes are not a ClientHello.
    #[error("the TLS handshake does not start with a well-formed ClientHello")]
    Malformed,
    /// It is longer than any client sends.
    #[error("the TLS ClientHello is too long")]
    TooLong,
    /// A name was asked for, but the hello holds none.
    #[error("the TLS ClientHello names no server")]
    Unnamed,
    /// It holds another name.
    #[error("the TLS ClientHello names another server")]
    OtherName,
    /// It carries an encrypted ClientHello, and the session's options refuse that.
    #[error("the TLS ClientHello is encrypted")]
    Encrypted,
}

impl ClientHello {
    /// Reads the body of a ClientHello message, without the four bytes of its header.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, HelloError> {
        Self::read(body).ok_or(HelloError::Malformed)
    }

    fn read(body: &[u8]) -> Option<Self> {
        let mut fields = Reader(body);
        let (_version, _random) = (fields.take(2)?, fields.take(32)?);
        let (_session, _suites) = (fields.vector8()?, fields.vector16()?);
        let _compression = fields.vector8()?;
        let mut hello = Self {
            names: Vec::new(),
            encrypted: false,
        };
        if fields.0.is_empty() {
            return Some(hello);
        }
        let mut extensions = Reader(fields.vector16()?);
        let mut named = false;
        while !extensions.0.is_empty() {
            let (kind, content) = (extensions.number16()?, extensions.vector16()?);
            match kind {
                // RFC 8446, section 4.2: no extension stands twice.
                SERVER_NAME if named => return None,
                SERVER_NAME => {
                    named = true;
                    hello.names = server_names(content)?;
                }
                ENCRYPTED_CLIENT_HELLO => hello.encrypted = true,
                _ => {}
            }
        }
        fields.0.is_empty().then_some(hello)
    }

    /// Whether the hello is for `host` and nothing else. A literal address is not sent as a name
    /// (RFC 6066, section 3), so there a hello without a name is the normal one.
    pub(crate) fn check(&self, host: &Host) -> Result<(), HelloError> {
        match (self.names.as_slice(), host) {
            ([], Host::Address(_)) => Ok(()),
            ([], Host::Name(_)) => Err(HelloError::Unnamed),
            ([name], host) if Host::parse(name).is_ok_and(|named| named == *host) => Ok(()),
            _ => Err(HelloError::OtherName),
        }
    }
}

/// The host_name entries of a server_name extension; other types of names do not exist.
fn server_names(content: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut extension = Reader(content);
    let mut list = Reader(extension.vector16()?);
    let mut names = Vec::new();
    while !list.0.is_empty() {
        let (kind, name) = (list.take(1)?, list.vector16()?);
        if kind != [0] {
            return None;
        }
        names.push(name.to_vec());
    }
    (extension.0.is_empty() && !names.is_empty()).then_some(names)
}

/// Takes fields from the front of a message; `None` when it is too short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(usize::from(length))
    }

    fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(usize::from(length))
    }
}

const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The body of a ClientHello with these extensions.
    pub(crate) fn body(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        let mut all = Vec::new();
        for (kind, content) in extensions {
            all.extend(kind.to_be_bytes());
            all.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
            all.extend(content);
        }
        body.extend(u16::try_from(all.len()).unwrap().to_be_bytes());
        body.extend(all);
        body
    }

    pub(crate) fn server_name(names: &[&str]) -> (u16, Vec<u8>) {
        let mut list = Vec::new();
        for name in names {
            list.push(0);
            list.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            list.extend(name.as_bytes());
        }
        let mut content = u16::try_from(list.len()).unwrap().to_be_bytes().to_vec();
        content.extend(list);
        (SERVER_NAME, content)
    }

    fn check(names: &[&str], host: &str) -> Result<(), HelloError> {
        let extensions = if names.is_empty() {
            vec![]
        } else {
            vec![server_name(names)]
        };
        ClientHello::parse(&body(&extensions))?.check(&Host::parse(host.as_bytes()).unwrap())
    }

    #[test]
    fn the_name_must_be_the_allowed_one() {
        assert_eq!(check(&["a.example"], "a.example"), Ok(()));
        assert_eq!(check(&["A.Example."], "a.example"), Ok(()));
        assert_eq!(
            check(&["evil.test"], "a.example"),
            Err(HelloError::OtherName)
        );
        assert_eq!(
            check(&["a.example", "evil.test"], "a.example"),
            Err(HelloError::OtherName)
        );
        assert_eq!(
            check(&["a.example\0.evil.test"], "a.example"),
            Err(HelloError::OtherName)
        );
        assert_eq!(check(&[""], "a.example"), Err(HelloError::OtherName));
        assert_eq!(check(&[], "a.example"), Err(HelloError::Unnamed));
        assert_eq!(check(&[], "127.0.0.1"), Ok(()));
        assert_eq!(
            check(&["evil.test"], "127.0.0.1"),
            Err(HelloError::OtherName)
        );
    }

    #[test]
    fn an_encrypted_hello_is_seen() {
        let hello = body(&[server_name(&["a.example"]), (0xfe0d, vec![0; 40])]);
        assert!(ClientHello::parse(&hello).unwrap().encrypted);
        assert!(
            !ClientHello::parse(&body(&[(16, vec![0])]))
                .unwrap()
                .encrypted
        );
    }

    #[test]
    fn malformed_hellos_are_refused() {
        let good = body(&[server_name(&["a.example"])]);
        for length in 0..good.len() {
            // Without any extension a hello is complete behind its compression methods.
            let complete = length == 41;
            assert_eq!(
                ClientHello::parse(&good[..length]).is_ok(),
                complete,
                "{length}"
            );
        }
        assert!(ClientHello::parse(&[&good[..], b"x"].concat()).is_err());
        let name = server_name(&["a.example"]);
        assert!(ClientHello::parse(&body(&[name.clone(), name])).is_err());
        let empty_list = (SERVER_NAME, vec![0, 0]);
        assert!(ClientHello::parse(&body(&[empty_list])).is_err());
        let other_type = (SERVER_NAME, vec![0, 4, 1, 0, 1, b'a']);
        assert!(ClientHello::parse(&body(&[other_type])).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken_calmly(bytes: Vec<u8>) {
            let _ = ClientHello::parse(&bytes);
        }
    }
}
