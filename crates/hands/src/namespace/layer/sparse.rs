//! Files with holes: the map of what they hold, in the form 1.0 of GNU tar.

use std::{
    fs::File,
    io::{self, Read},
};

use rustix::fs::{SeekFrom, seek};

use super::broken;

/// Holes shorter than this are written as zeroes, which the packer takes care of.
const SHORTEST: u64 = 64 << 10;

/// The map is filled up to a multiple of this.
const BLOCK: usize = 512;

/// Parts of one file that a map may name.
const MOST: u64 = 1 << 24;

/// What is in a file: (offset, length), in order, not touching.
pub(super) type Map = Vec<(u64, u64)>;

/// Finds out what a file holds; `None` if it has no hole worth a map.
pub(super) fn map(file: &File, size: u64) -> io::Result<Option<Map>> {
    let mut map = Map::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < size => start,
            // A hole up to the end.
            Ok(_) | Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?.min(size);
        match map.last_mut() {
            Some((offset, length)) if start - (*offset + *length) < SHORTEST => {
                *length = at - *offset;
            }
            _ => map.push((start, at - start)),
        }
    }
    let held: u64 = map.iter().map(|(_, length)| length).sum();
    Ok((size - held >= SHORTEST).then_some(map))
}

/// Writes a map.
pub(super) fn encode(map: &Map) -> Vec<u8> {
    let mut text = format!("{}\n", map.len()).into_bytes();
    for (offset, length) in map {
        text.extend_from_slice(format!("{offset}\n{length}\n").as_bytes());
    }
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    text
}

/// Reads a map of a file of `size` bytes, and leaves the reader behind it.
pub(super) fn decode(data: &mut dyn Read, size: u64) -> io::Result<Map> {
    let mut numbers = Numbers {
        block: [0; BLOCK],
        at: BLOCK,
    };
    let count = numbers.next(data)?;
    if count > MOST {
        return Err(broken("a map that is too long"));
    }
    let (mut map, mut end) = (Map::new(), 0);
    for _ in 0..count {
        let (offset, length) = (numbers.next(data)?, numbers.next(data)?);
        if offset < end || offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(broken("a map out of order"));
        }
        end = offset + length;
        map.push((offset, length));
    }
    Ok(map)
}

/// Reads numbers, each on its line, block by block.
struct Numbers {
    block: [u8; BLOCK],
    at: usize,
}

impl Numbers {
    fn next(&mut self, data: &mut dyn Read) -> io::Result<u64> {
        let mut number: Option<u64> = None;
        loop {
            match (self.byte(data)?, number) {
                (b'\n', Some(number)) => return Ok(number),
                (digit @ b'0'..=b'9', seen) => {
                    let more = seen.unwrap_or(0).checked_mul(10);
                    let more = more.and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
                    number = Some(more.ok_or_else(|| broken("a number"))?);
                }
                (_, _) => return Err(broken("a map")),
            }
        }
    }

    fn byte(&mut self, data: &mut dyn Read) -> io::Result<u8> {
        if self.at == BLOCK {
            data.read_exact(&mut self.block)?;
            self.at = 0;
        }
        let byte = self.block.get(self.at).copied();
        self.at += 1;
        byte.ok_or_else(|| broken("a map"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_come_back() {
        for map in [
            Map::new(),
            vec![(0, 1)],
            (0..2000).map(|at| (at * 100, 7)).collect(),
        ] {
            let text = encode(&map);
            assert_eq!(text.len() % BLOCK, 0);
            let mut data = &text[..];
            assert_eq!(decode(&mut data, 1 << 20).unwrap(), map);
            assert!(data.is_empty());
        }
        for text in [
            &b"x"[..],
            b"1\n0\n",
            b"1\n5\n9\n",
            b"2\n0\n4\n2\n1\n",
            b"99999999999999\n",
        ] {
            let mut block = text.to_owned();
            block.resize(BLOCK, 0);
            assert!(decode(&mut &block[..], 10).is_err(), "{text:?}");
        }
    }
}
