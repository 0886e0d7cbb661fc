//! Pages of lists that are ordered by creation.

use outlast_kernel::Order as Way;
use outlast_protocol::{
    Micros, Problem,
    page::{self, List, Place, Side},
    query::{Order, Query, TimeRange},
};

/// What marks a place whose own entry belongs to the page: the page before it was empty.
const INCLUSIVE: char = '=';

/// One request for a page.
#[derive(Debug)]
pub(crate) struct Page {
    list: List,
    owner: String,
    order: Order,
    cursor: Option<Place>,
    /// At most so many entries.
    pub(crate) limit: usize,
}

impl Page {
    /// Reads `limit` and `page`.
    ///
    /// The cursor must be one of this list and order, and lie within `within`: else the page that
    /// it begins would not be the next one.
    pub(crate) fn read(
        query: &mut Query,
        (list, owner): (List, &str),
        (default, max): (u32, u32),
        order: Order,
        within: &TimeRange,
    ) -> Result<Self, Problem> {
        let limit = query.limit(default, max)?;
        let cursor = query
            .page()?
            .map(|text| page::decode::<Place>(list, owner, &text));
        let cursor = cursor.transpose()?;
        if let Some(place) = &cursor {
            place.check_order(order)?;
            if !within.contains(Micros(place.at)) {
                return Err(Problem::invalid(
                    "page: lies outside of the `created_at` filter, which must not be narrowed \
                     past the cursor between pages",
                ));
            }
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Self {
            list,
            owner: owner.to_owned(),
            order,
            cursor,
            limit,
        })
    }

    /// Returns the way to read: that of the list, or against it for a page before the cursor.
    pub(crate) fn way(&self) -> Way {
        let backwards = (self.order == Order::Desc) != self.is_back();
        if backwards {
            Way::Backwards
        } else {
            Way::Forwards
        }
    }

    /// Returns the entry behind which to read, in the direction of [`Page::way`].
    pub(crate) fn after(&self) -> Option<(Micros, String)> {
        let place = self.cursor.as_ref()?;
        let id = match (place.id.strip_suffix(INCLUSIVE), self.way()) {
            (None, _) => place.id.clone(),
            (Some(id), Way::Forwards) => neighbour(id, b'0', b'z', previous),
            (Some(id), Way::Backwards) => neighbour(id, b'z', b'0', following),
        };
        Some((Micros(place.at), id))
    }

    /// Puts what was read into the order of the list.
    pub(crate) fn arrange<T>(&self, items: &mut [T]) {
        if self.is_back() {
            items.reverse();
        }
    }

    /// Returns the cursors of the page behind this one and of the page before it.
    ///
    /// `edges` are creation and id of the first and the last entry, in the order of the list;
    /// `more` tells whether reading could have gone on.
    pub(crate) fn cursors(
        &self,
        edges: Option<((Micros, String), (Micros, String))>,
        more: bool,
    ) -> (Option<String>, Option<String>) {
        let (behind, before) = match (&self.cursor, self.is_back()) {
            (None, _) => (more, false),
            (Some(_), false) => (more, true),
            // There is the page that the client came from.
            (Some(_), true) => (true, more),
        };
        let next = behind.then(|| self.edge(edges.as_ref().map(|(_, last)| last), Side::Next));
        let prev = before.then(|| self.edge(edges.as_ref().map(|(first, _)| first), Side::Prev));
        (next.flatten(), prev.flatten())
    }

    fn edge(&self, entry: Option<&(Micros, String)>, side: Side) -> Option<String> {
        let (at, id) = match (entry, &self.cursor) {
            (Some((at, id)), _) => (at.0, id.clone()),
            // Nothing lies on this side of the cursor: its own entry begins the other side.
            (None, Some(place)) => {
                let id = place.id.trim_end_matches(INCLUSIVE);
                (place.at, format!("{id}{INCLUSIVE}"))
            }
            (None, None) => return None,
        };
        let place = Place {
            order: self.order,
            side,
            at,
            id,
        };
        Some(page::encode(self.list, &self.owner, &place))
    }

    fn is_back(&self) -> bool {
        self.cursor
            .as_ref()
            .is_some_and(|place| place.side == Side::Prev)
    }
}

/// Returns the id next to `id`: its last digit moved one on, with a carry past `end` to `start`.
fn neighbour(id: &str, end: u8, start: u8, step: fn(u8) -> u8) -> String {
    let mut digits = id.as_bytes().to_vec();
    for digit in digits.iter_mut().rev() {
        if *digit != end {
            *digit = step(*digit);
            break;
        }
        *digit = start;
    }
    String::from_utf8(digits).unwrap_or_default()
}

/// Returns the base62 digit before one that is not the first.
fn previous(digit: u8) -> u8 {
    match digit {
        b'A' => b'9',
        b'a' => b'Z',
        digit => digit.saturating_sub(1),
    }
}

/// Returns the base62 digit behind one that is not the last.
fn following(digit: u8) -> u8 {
    match digit {
        b'9' => b'A',
        b'Z' => b'a',
        digit => digit.saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_an_id_are_the_next_ones_in_order() {
        for (low, high) in [
            ("x_10", "x_11"),
            ("x_19", "x_1A"),
            ("x_1Z", "x_1a"),
            ("x_1zz", "x_200"),
        ] {
            assert_eq!(neighbour(low, b'z', b'0', following), high);
            assert_eq!(neighbour(high, b'0', b'z', previous), low);
            assert!(low < high);
        }
    }
}
