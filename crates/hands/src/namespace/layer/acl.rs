//! POSIX access control lists: extended attributes that name users and groups, as owners do.

use outlast_sandbox::Ids;

/// The two lists that a file may have: its own, and that of what is made in a folder.
pub(super) const NAMES: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// The one version of the form there is.
const VERSION: [u8; 4] = [2, 0, 0, 0];

/// Entries that name a user, and that name a group.
const USER: [u8; 2] = [0x02, 0];
const GROUP: [u8; 2] = [0x08, 0];

/// Which way ids are translated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    /// From the host's to those that the sandbox sees.
    In,
    /// And back.
    Out,
}

/// Tells whether an extended attribute is a list.
pub(super) fn is_list(name: &[u8]) -> bool {
    NAMES.contains(&name)
}

/// Translates the ids in a list; `None` if it is none.
pub(super) fn translate(list: &[u8], ids: &Ids, way: Way) -> Option<Vec<u8>> {
    let entries = list.strip_prefix(&VERSION)?;
    let (entries, []) = entries.as_chunks::<8>() else {
        return None;
    };
    let mut translated = VERSION.to_vec();
    for [tag @ .., a, b, c, d, e, f] in entries {
        let id = u32::from_le_bytes([*c, *d, *e, *f]);
        let both = match way {
            Way::In => ids.seen(id, id),
            Way::Out => ids.behind(id, id),
        };
        let id = match *tag {
            USER => both.0,
            GROUP => both.1,
            // The owner, the mask, all others: they name nobody.
            _ => id,
        };
        translated.extend_from_slice(tag);
        translated.extend_from_slice(&[*a, *b]);
        translated.extend_from_slice(&id.to_le_bytes());
    }
    Some(translated)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A list whose named user and group have this id.
    pub(crate) fn list(id: u32) -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let entries = [
            (0x01_u16, 6_u16, NOBODY),
            (0x02, 4, id),
            (0x04, 4, NOBODY),
            (0x08, 5, id),
            (0x10, 5, NOBODY),
            (0x20, 0, NOBODY),
        ];
        let mut bytes = VERSION.to_vec();
        for (tag, rights, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn named_users_and_groups_are_translated_and_nobody_else() {
        let ids = Ids::detect();
        let (user, _) = ids.inside();
        let (host, _) = ids.behind(user, user);
        let (inside, outside) = (list(user), list(host));
        assert_eq!(translate(&outside, &ids, Way::In), Some(inside.clone()));
        assert_eq!(translate(&inside, &ids, Way::Out), Some(outside));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let ids = Ids::detect();
        let whole = list(1);
        for odd in [&whole[..whole.len() - 1], &whole[1..], b"", b"\x03\0\0\0"] {
            assert_eq!(translate(odd, &ids, Way::In), None, "{odd:?}");
        }
        let empty = &VERSION[..];
        assert_eq!(translate(empty, &ids, Way::In), Some(empty.to_vec()));
    }
}
