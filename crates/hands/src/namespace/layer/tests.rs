use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::PathBuf,
};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, lsetxattr, mknodat,
    utimensat,
};

use super::*;

/// A folder for the layer, one for the copy, and the ids.
struct World {
    room: tempfile::TempDir,
    ids: Ids,
}

impl World {
    fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        fs::create_dir(room.path().join("layer")).unwrap();
        Self {
            room,
            ids: Ids::detect(),
        }
    }

    fn layer(&self) -> PathBuf {
        self.room.path().join("layer")
    }

    fn copy(&self) -> PathBuf {
        let at = self.room.path().join("copy");
        fs::create_dir_all(&at).unwrap();
        at
    }

    fn pack(&self) -> (Sum, Vec<u8>) {
        let mut file = tempfile::tempfile_in(self.room.path()).unwrap();
        let sum = pack(&self.layer(), &mut file, &self.ids, &Stop::default()).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(sum.bytes, bytes.len() as u64);
        (sum, bytes)
    }

    fn there_and_back(&self) -> Sum {
        let (sum, bytes) = self.pack();
        unpack(&bytes[..], &sum, &self.copy(), &self.ids).unwrap();
        sum
    }
}

/// By path.
type Seen = BTreeMap<Vec<u8>, (u32, u64, i64, i64, Vec<u8>)>;

/// What can be seen of a tree: by path, type and permissions, size, time, content or target.
fn seen(at: &Path) -> Seen {
    let mut found = BTreeMap::new();
    look(at, at, &mut found);
    found
}

fn look(root: &Path, at: &Path, found: &mut Seen) {
    let meta = fs::symlink_metadata(at).unwrap();
    let kind = meta.file_type();
    let content = if kind.is_symlink() {
        fs::read_link(at).unwrap().as_os_str().as_bytes().to_owned()
    } else if kind.is_file() && meta.len() < 1 << 20 {
        fs::read(at).unwrap()
    } else {
        Vec::new()
    };
    let size = if kind.is_dir() { 0 } else { meta.len() };
    let name = at.strip_prefix(root).unwrap().as_os_str().as_bytes();
    let value = (meta.mode(), size, meta.mtime(), meta.mtime_nsec(), content);
    found.insert(name.to_owned(), value);
    if kind.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            look(root, &entry.unwrap().path(), found);
        }
    }
}

fn set_time(at: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(CWD, at, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[test]
fn everything_comes_back_as_it_was() {
    let world = World::new();
    let layer = world.layer();
    let strange: [&[u8]; 6] = [
        b"\xff\xfe\n",
        b" a b ",
        b"-rf",
        b"%3D=",
        b"\\",
        &[b'n'; 255],
    ];
    for name in strange {
        let at = layer.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(&at).unwrap();
        fs::write(at.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(layer.join("empty"), "").unwrap();
    fs::create_dir(layer.join("empty-folder")).unwrap();
    fs::write(layer.join("one"), "one").unwrap();
    fs::hard_link(layer.join("one"), layer.join("empty-folder/two")).unwrap();
    symlink("one", layer.join("link")).unwrap();
    fs::hard_link(layer.join("link"), layer.join("link-again")).unwrap();
    symlink("/etc//../etc/./passwd/", layer.join("absolute")).unwrap();
    symlink("x".repeat(3_000), layer.join("far")).unwrap();
    let (fifo, mode) = (layer.join("fifo"), Mode::RUSR | Mode::WUSR);
    mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
    for (name, mode) in [("closed", 0o000), ("set", 0o6755), ("read", 0o444)] {
        fs::write(layer.join(name), name).unwrap();
        fs::set_permissions(layer.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir_all(layer.join("shut/in")).unwrap();
    fs::set_permissions(layer.join("shut"), fs::Permissions::from_mode(0o1000)).unwrap();
    let mut deep = layer.join("deep");
    for _ in 0..100 {
        deep.push("d".repeat(30));
    }
    fs::create_dir_all(&deep).unwrap();
    for (name, at, part) in [
        ("one", -1, 5),
        ("link", 7, 0),
        ("empty-folder", 1, 999_999_999),
    ] {
        set_time(&layer.join(name), at, part);
    }
    set_time(&layer, 77, 7);
    let before = seen(&layer);
    let sum = world.there_and_back();
    assert_eq!(seen(&world.copy()), before);
    assert_eq!(sum.entries, before.len() as u64);
    let number = |name: &str| fs::symlink_metadata(world.copy().join(name)).unwrap().ino();
    assert_eq!(number("one"), number("empty-folder/two"));
    assert_eq!(number("link"), number("link-again"));
    fs::set_permissions(layer.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_the_overlay_notes_goes_along_and_sockets_do_not() {
    let world = World::new();
    let layer = world.layer();
    mknodat(
        CWD,
        layer.join("gone"),
        FileType::CharacterDevice,
        Mode::empty(),
        0,
    )
    .unwrap();
    let folder = layer.join("folder");
    fs::create_dir(&folder).unwrap();
    let value = [0, b'\n', 255];
    let names = [
        ("user.overlay.opaque", true),
        ("user.overlay.overlay.opaque", true),
        ("user.a=b", true),
        ("user.overlay.origin", false),
        ("user.overlay.impure", false),
    ];
    for (name, _) in names {
        lsetxattr(&folder, name, &value, XattrFlags::empty()).unwrap();
    }
    let _listener = UnixListener::bind(layer.join("socket")).unwrap();
    let sum = world.there_and_back();
    assert_eq!(sum.entries, 3);
    let copy = world.copy();
    let gone = fs::symlink_metadata(copy.join("gone")).unwrap();
    assert_eq!((gone.rdev(), gone.mode() & 0o170_000), (0, 0o020_000));
    for (name, kept) in names {
        let mut buffer = [0; 3];
        let found = lgetxattr(copy.join("folder"), name, &mut buffer);
        assert_eq!(found.is_ok(), kept, "{name}");
        assert!(!kept || buffer == value);
    }
    assert!(!copy.join("socket").exists());
}

#[test]
fn holes_stay_holes_however_large() {
    let world = World::new();
    let sizes = [("large", 1_u64 << 30), ("huge", 1 << 42), ("hole", 1 << 20)];
    for (name, size) in sizes {
        let file = File::create(world.layer().join(name)).unwrap();
        file.set_len(size).unwrap();
        if name != "hole" {
            for at in [1 << 19, (1 << 19) + 100_000, size - 9] {
                file.write_all_at(b"something", at).unwrap();
            }
        }
    }
    let sum = world.there_and_back();
    assert!(sum.bytes < 100_000, "{sum:?}");
    for (name, size) in sizes {
        let file = File::open(world.copy().join(name)).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), size);
        assert!(meta.blocks() < 1000, "{name}: {}", meta.blocks());
        if name != "hole" {
            for at in [1 << 19, (1 << 19) + 100_000, size - 9] {
                let mut read = [0; 9];
                file.read_exact_at(&mut read, at).unwrap();
                assert_eq!(&read, b"something", "{name} at {at}");
            }
        }
    }
}

#[test]
fn access_control_lists_come_back_with_the_ids_of_the_sandbox() {
    let world = World::new();
    let (folder, file) = (world.layer().join("folder"), world.layer().join("file"));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "x").unwrap();
    let (user, _) = world.ids.inside();
    let list = acl::tests::list(world.ids.behind(user, user).0);
    let name = |at: usize| std::str::from_utf8(acl::NAMES[at]).unwrap();
    for (at, name) in [(&file, name(0)), (&folder, name(1))] {
        if lsetxattr(at, name, &list, XattrFlags::empty()).is_err() {
            // A file system without them.
            return;
        }
    }
    // What is made in a folder would inherit its list, also while it is unpacked.
    fs::write(world.layer().join("plain"), "x").unwrap();
    fs::create_dir(folder.join("in")).unwrap();
    rustix::fs::lremovexattr(folder.join("in"), name(0)).unwrap();
    rustix::fs::lremovexattr(folder.join("in"), name(1)).unwrap();
    let before = seen(&world.layer());
    world.there_and_back();
    assert_eq!(seen(&world.copy()), before);
    let read = |at: &str, name: &str| {
        let mut buffer = [0; 256];
        let found = lgetxattr(world.copy().join(at), name, &mut buffer);
        found.map(|length| buffer[..length].to_owned())
    };
    assert_eq!(read("file", name(0)).unwrap(), list);
    assert_eq!(read("folder", name(1)).unwrap(), list);
    for (at, name) in [
        ("plain", name(0)),
        ("folder/in", name(0)),
        ("folder/in", name(1)),
    ] {
        assert_eq!(
            read(at, name),
            Err(rustix::io::Errno::NODATA),
            "{at} {name}"
        );
    }
}

#[test]
fn a_pack_that_was_changed_is_refused() {
    let world = World::new();
    fs::write(world.layer().join("a"), vec![7; 100_000]).unwrap();
    let (sum, bytes) = world.pack();
    let refused = |bytes: &[u8], sum: &Sum| {
        let at = world.copy();
        let error = unpack(bytes, sum, &at, &world.ids).unwrap_err();
        fs::remove_dir_all(&at).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    };
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        refused(&changed, &sum);
    }
    refused(&bytes[..bytes.len() - 1], &sum);
    refused(&[&bytes[..], b"x"].concat(), &sum);
    let entries = sum.entries + 1;
    refused(
        &bytes,
        &Sum {
            entries,
            ..sum.clone()
        },
    );
    unpack(&bytes[..], &sum, &world.copy(), &world.ids).unwrap();
    fs::remove_dir_all(world.copy()).unwrap();
    let digest = "0".repeat(64);
    refused(&bytes, &Sum { digest, ..sum });
}

#[test]
fn nothing_leads_out_of_the_folder() {
    let world = World::new();
    let outside = world.room.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let to = outside.as_os_str().as_bytes().to_owned();
    let folder = || (entry::ROOT.to_vec(), entry::Kind::Folder);
    let link = (b"link".to_vec(), entry::Kind::Symlink { to });
    let file = |path: &[u8]| (path.to_vec(), entry::Kind::File { size: 0 });
    let hard = |to: &[u8]| (b"hard".to_vec(), entry::Kind::Link { to: to.to_vec() });
    fs::write(outside.join("secret"), "").unwrap();
    for bad in [
        vec![folder(), file(b"../evil")],
        vec![folder(), file(b"/evil")],
        vec![folder(), file(b"a//evil")],
        vec![folder(), file(b"a/evil")],
        vec![folder(), link.clone(), file(b"link/evil")],
        vec![folder(), link, hard(b"link/secret")],
        vec![folder(), hard(b"../outside/secret")],
        vec![folder(), file(b"twice"), file(b"twice")],
        vec![file(b"no-layer")],
    ] {
        let (sum, bytes) = made_of(&bad);
        let at = world.copy();
        unpack(&bytes[..], &sum, &at, &world.ids).unwrap_err();
        fs::remove_dir_all(&at).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{bad:?}");
    }
}

/// Makes a pack of entries without content.
fn made_of(entries: &[(Vec<u8>, entry::Kind)]) -> (Sum, Vec<u8>) {
    let mut archive = Vec::new();
    for (path, kind) in entries {
        let entry = entry::Entry {
            path: path.clone(),
            kind: kind.clone(),
            attributes: entry::Attributes::default(),
        };
        let (header, records) = header::encode(&entry, 0).unwrap();
        assert!(pax::encode(&records).is_empty());
        archive.write_all(header.as_bytes()).unwrap();
    }
    archive.write_all(&[0; 1024]).unwrap();
    let bytes = zstd::encode_all(&archive[..], 1).unwrap();
    let mut counted = Counted::new(&bytes[..]);
    io::copy(&mut counted, &mut io::sink()).unwrap();
    let sum = counted.sum(entries.len() as u64);
    (sum, bytes)
}

#[test]
fn a_pack_that_nobody_wants_ends() {
    let world = World::new();
    let stop = Stop::default();
    stop.stop();
    let mut file = tempfile::tempfile_in(world.room.path()).unwrap();
    pack(&world.layer(), &mut file, &world.ids, &stop).unwrap_err();
}

#[test]
fn the_usual_tools_read_a_pack() {
    let world = World::new();
    let name = "x".repeat(200);
    fs::write(world.layer().join(&name), "content").unwrap();
    let sparse = File::create(world.layer().join("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    sparse.write_all_at(b"end", (10 << 20) - 3).unwrap();
    let (_, bytes) = world.pack();
    let archive = zstd::decode_all(&bytes[..]).unwrap();
    let path = world.room.path().join("pack.tar");
    fs::write(&path, archive).unwrap();
    let other = world.room.path().join("other");
    fs::create_dir(&other).unwrap();
    let mut tar = std::process::Command::new("tar");
    let tar = tar.arg("-xf").arg(&path).arg("-C").arg(&other);
    assert!(tar.status().unwrap().success());
    assert_eq!(fs::read_to_string(other.join(&name)).unwrap(), "content");
    let sparse = fs::read(other.join("sparse")).unwrap();
    assert!(sparse.len() == 10 << 20 && sparse.ends_with(b"end"));
}
