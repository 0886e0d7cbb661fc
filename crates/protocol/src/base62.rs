//! Fixed-width base62, in ASCII order so that encoded ids sort as their numbers do.

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Digits that 128 bits need.
pub(crate) const WIDTH: usize = 22;

/// Writes `number` as 22 digits.
pub(crate) fn encode(mut number: u128) -> String {
    let mut out = [b'0'; WIDTH];
    for slot in out.iter_mut().rev() {
        let digit = usize::try_from(number % 62).unwrap_or(0);
        *slot = DIGITS.get(digit).copied().unwrap_or(b'0');
        number /= 62;
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
        for number in [0, 1, 61, 62, u128::MAX] {
            assert_eq!(decode(&encode(number)), Some(number));
        }
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
