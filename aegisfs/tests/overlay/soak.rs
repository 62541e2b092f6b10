//! How much the random tests try.

/// What `make soak SOAK=n` counts in: the ends of the server in an ordinary run of `boundaries`.
pub const ENDS: u32 = 60;

/// As many as usual, or in the proportion of `AEGIS_SOAK` to [`ENDS`] more.
pub fn soak(usual: u32) -> u32 {
    let asked = std::env::var("AEGIS_SOAK").ok();
    let asked = asked.and_then(|ends| ends.parse::<u32>().ok());
    let times = u64::from(asked.unwrap_or(ENDS).max(ENDS));
    u32::try_from(u64::from(usual) * times / u64::from(ENDS)).unwrap_or(u32::MAX)
}
