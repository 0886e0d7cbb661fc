//! Fixed-width base62, in ASCII order so that encoded ids sort as their numbers do.

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Digits that 128 bits need.
pub(crate) const WIDTH: usize = 22;

/// Digits that 64 bits hold.
const CHUNK: usize = 10;

/// 62 to the power of [`CHUNK`].
const BASE: u128 = 62_u128.pow(10);

/// Writes `number` as 22 digits.
pub(crate) fn encode(mut number: u128) -> String {
    let mut out = [b'0'; WIDTH];
    // Divisions of 128 bits are slow and every record has ids: one does for ten digits.
    for chunk in out.rchunks_mut(CHUNK) {
        let mut rest = u64::try_from(number % BASE).unwrap_or(0);
        number /= BASE;
        for slot in chunk.iter_mut().rev() {
            let digit = usize::try_from(rest % 62).unwrap_or(0);
            *slot = DIGITS.get(digit).copied().unwrap_or(b'0');
            rest /= 62;
        }
    }
    out.iter().map(|byte| char::from(*byte)).collect()
}

/// Reads 22 digits; `None` for another length, another character or a number above 128 bits.
pub(crate) fn decode(text: &str) -> Option<u128> {
    if text.len() != WIDTH {
        return None;
    }
    text.bytes().try_fold(0_u128, |sum, byte| {
        let digit = DIGITS.binary_search(&byte).ok()?;
        sum.checked_mul(62)?
            .checked_add(u128::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_the_extremes() {
        let edges = [
            0,
            1,
            61,
            62,
            BASE - 1,
            BASE,
            BASE * BASE - 1,
            BASE * BASE,
            u128::MAX,
        ];
        for number in edges {
            assert_eq!(decode(&encode(number)), Some(number));
        }
    }

    #[test]
    fn the_largest_number_has_these_digits() {
        assert_eq!(encode(u128::MAX), "7n42DGM5Tflk9n8mt7Fhc7");
        assert_eq!(encode(62), "0000000000000000000010");
    }

    #[test]
    fn keeps_the_order_of_numbers() {
        assert!(encode(7) < encode(70));
        assert!(encode(u128::MAX - 1) < encode(u128::MAX));
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in ["", "0", "zzzzzzzzzzzzzzzzzzzzzz", "00000000000000000000-0"] {
            assert_eq!(decode(text), None);
        }
    }
}
