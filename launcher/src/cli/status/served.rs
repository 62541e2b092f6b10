//! How a session's tree is served, in words.

use aegisfs::fuse::{Features, Transport};

/// Titles and contents, one per line.
#[must_use]
pub fn lines(features: Option<&Features>) -> Vec<(&'static str, String)> {
    let Some(features) = features else {
        return Vec::new();
    };
    let mut lines = vec![("served", carried(features))];
    for (is_wanted, word) in [(true, "with"), (false, "without")] {
        let those = features.features.iter();
        for feature in those.filter(|feature| feature.in_force == is_wanted) {
            let note = match feature.note.as_ref() {
                "" => String::new(),
                note => format!(" ({note})"),
            };
            lines.push(("", format!("{word} {}{note}", feature.name)));
        }
    }
    lines
}

fn carried(features: &Features) -> String {
    let transport = match features.transport {
        Transport::Device | Transport::Auto => "over /dev/fuse",
        Transport::IoUring => "over io_uring",
        Transport::Fuser => "over /dev/fuse by the fuser library",
    };
    let threads = match features.threads {
        1 => "one thread".to_owned(),
        several => format!("{several} threads"),
    };
    let protocol = features
        .protocol
        .map(|[major, minor]| format!(", FUSE {major}.{minor}"));
    format!(
        "{transport} by {threads}, {} KiB in one write{}",
        features.largest_write >> 10,
        protocol.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use aegisfs::fuse::Feature;

    use super::*;

    #[test]
    fn what_is_in_force_and_what_is_not_is_said() {
        let features = Features {
            transport: Transport::Device,
            protocol: Some([7, 45]),
            threads: 2,
            largest_write: 1 << 20,
            features: vec![
                Feature::off("io_uring", "`fuse.enable_uring` is 0"),
                Feature::on("nameless files", ""),
            ],
        };
        let text: Vec<_> = lines(Some(&features))
            .into_iter()
            .map(|(_, line)| line)
            .collect();
        assert_eq!(
            text,
            [
                "over /dev/fuse by 2 threads, 1024 KiB in one write, FUSE 7.45",
                "with nameless files",
                "without io_uring (`fuse.enable_uring` is 0)",
            ]
        );
        assert!(lines(None).is_empty());
    }
}
