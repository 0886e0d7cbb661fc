//! Good archives of every kind, and bad ones.

use std::{
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::*;

/// What an entry is: path, kind, content or target, mode.
type Entry<'a> = (&'a str, EntryType, &'a str, u32);

const FILE: EntryType = EntryType::Regular;
const FOLDER: EntryType = EntryType::Directory;

/// Makes an archive; paths are written as they are, whatever they are.
fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, kind, content, mode) in entries {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_mtime(1_700_000_000);
        let is_file = *kind == FILE;
        header.set_size(if is_file { content.len() as u64 } else { 0 });
        if !is_file && !content.is_empty() {
            header.as_gnu_mut().unwrap().linkname[..content.len()]
                .copy_from_slice(content.as_bytes());
        }
        header.set_cksum();
        let content = if is_file { content.as_bytes() } else { b"" };
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn sum(bytes: &[u8]) -> String {
    digest::of(bytes).unwrap()
}

struct World {
    dir: tempfile::TempDir,
    images: Images,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(dir.path().join("images"));
        Self { dir, images }
    }

    fn import(&self, bytes: &[u8]) -> Result<PathBuf, ImportError> {
        let file = self.dir.path().join("archive");
        fs::write(&file, bytes).unwrap();
        let listed = self.images.import("x", &file, None)?;
        Ok(self.images.place(&listed.digest).join("root"))
    }

    /// An archive that must be refused, without a trace.
    #[track_caller]
    fn refused(&self, bytes: &[u8]) -> String {
        let words = self.import(bytes).unwrap_err().to_string();
        assert_eq!(self.images.names().unwrap(), [""; 0], "{words}");
        let left: Vec<_> = fs::read_dir(self.dir.path().join("images"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["lock"], "{words}");
        words
    }
}

/// Three layers: a base, one that changes it, one that takes away.
fn layers() -> [Vec<u8>; 3] {
    [
        archive(&[
            ("usr/", FOLDER, "", 0o755),
            ("usr/bin/", FOLDER, "", 0o755),
            ("usr/bin/su", FILE, "su", 0o4755),
            ("bin", EntryType::Symlink, "usr/bin", 0o777),
            ("etc/old/a", FILE, "a", 0o644),
            ("etc/old/b", FILE, "b", 0o644),
            ("gone", FILE, "gone", 0o644),
            ("dev/sda", EntryType::Block, "", 0o666),
        ]),
        gzip(&archive(&[
            // Through a link of the layer below.
            ("bin/tool", FILE, "tool", 0o755),
            ("usr/bin/again", EntryType::Link, "usr/bin/tool", 0o755),
            ("gone", FOLDER, "", 0o700),
            ("gone/inner", FILE, "x", 0o600),
        ])),
        zstd::encode_all(
            &archive(&[
                ("etc/old/c", FILE, "c", 0o644),
                ("etc/old/.wh..wh..opq", FILE, "", 0o644),
                ("usr/.wh.nothing", FILE, "", 0o644),
                (".wh.gone", FILE, "", 0o644),
            ])[..],
            1,
        )
        .unwrap(),
    ]
}

#[track_caller]
fn as_layered(root: &Path) {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert_eq!(
        (read("usr/bin/tool"), read("usr/bin/again")),
        ("tool".into(), "tool".into())
    );
    assert_eq!(
        fs::read_link(root.join("bin")).unwrap(),
        Path::new("usr/bin")
    );
    let mode = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("usr/bin/su"), mode("usr/bin/tool")), (0o755, 0o755));
    let names: Vec<_> = fs::read_dir(root.join("etc/old")).unwrap().collect();
    assert_eq!((names.len(), read("etc/old/c")), (1, "c".to_owned()));
    assert!(!root.join("gone").exists() && !root.join("dev/sda").exists());
}

/// What images call this kind of machine.
const HERE: &str = if cfg!(target_arch = "x86_64") {
    "amd64"
} else {
    "arm64"
};

/// The layers as an OCI layout: path and content of each file.
fn layout() -> Vec<(String, Vec<u8>)> {
    layout_for(Some(HERE), &json!({"architecture": HERE, "os": "linux"}))
}

/// The same, with what the index and the configuration say of machines.
fn layout_for(indexed: Option<&str>, config: &serde_json::Value) -> Vec<(String, Vec<u8>)> {
    let config = config.to_string().into_bytes();
    let blob = |bytes: &[u8]| format!("blobs/{}", sum(bytes).replace(':', "/"));
    let layers = layers();
    let listed: Vec<_> = layers
        .iter()
        .map(|layer| json!({"digest": sum(layer), "size": layer.len()}))
        .collect();
    let described = json!({"digest": sum(&config), "size": config.len()});
    let manifest = json!({"schemaVersion": 2, "config": described, "layers": listed})
        .to_string()
        .into_bytes();
    let mut this = json!({"digest": sum(&manifest)});
    if let Some(indexed) = indexed {
        this["platform"] = json!({"os": "linux", "architecture": indexed});
    }
    let index = json!({"manifests": [
        {"digest": sum(b"other"), "platform": {"os": "linux", "architecture": "s390x"}},
        this,
    ]});
    let mut files = vec![
        (
            "oci-layout".to_owned(),
            b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec(),
        ),
        (blob(&manifest), manifest),
        (blob(&config), config),
    ];
    files.extend(layers.map(|layer| (blob(&layer), layer)));
    files.push(("index.json".to_owned(), index.to_string().into_bytes()));
    files
}

fn packed(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, path, &content[..])
            .unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn an_oci_layout_is_taken_as_folder_and_as_archive() {
    let world = World::new();
    let root = world.import(&packed(&layout())).unwrap();
    as_layered(&root);
    let folder = world.dir.path().join("layout");
    for (path, content) in layout() {
        fs::create_dir_all(folder.join(&path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), content).unwrap();
    }
    let again = world.images.import("y", &folder, None).unwrap();
    assert_eq!(
        world.images.place(&again.digest).join("root"),
        root,
        "one image, two names"
    );
    assert!(world.images.remove("x").unwrap() && root.exists());
    assert!(world.images.remove("y").unwrap() && !root.exists());
    assert!(!world.images.remove("y").unwrap());
    as_layered(&world.import(&gzip(&packed(&layout()))).unwrap());
}

#[test]
fn an_image_for_other_machines_is_refused_wherever_that_is_said() {
    let world = World::new();
    let foreign = json!({"architecture": "riscv64", "os": "linux"});
    let other = json!({"architecture": HERE, "os": "windows"});
    for (indexed, config, words) in [
        (
            None,
            &foreign,
            "it was made for linux/riscv64, and this machine is linux/",
        ),
        (Some(HERE), &foreign, "it was made for linux/riscv64"),
        (None, &other, "it was made for windows/"),
        (Some("riscv64"), &foreign, "it has nothing for linux/"),
    ] {
        let told = world.refused(&packed(&layout_for(indexed, config)));
        assert!(told.contains(words), "{told}");
    }
    let diffs: Vec<_> = plain().iter().map(|layer| sum(layer)).collect();
    let told = world.refused(&saved(&diffs, Some("riscv64")));
    assert!(told.contains("it was made for linux/riscv64"), "{told}");
    // Who says nothing of it is taken at its word.
    as_layered(
        &world
            .import(&packed(&layout_for(None, &json!({}))))
            .unwrap(),
    );
}

/// The layers, unpacked.
fn plain() -> [Vec<u8>; 3] {
    layers().map(|layer| match layer[0] {
        0x1f => {
            let mut text = Vec::new();
            io::copy(&mut flate2::read::GzDecoder::new(&layer[..]), &mut text).unwrap();
            text
        }
        0x28 => zstd::decode_all(&layer[..]).unwrap(),
        _ => layer,
    })
}

/// The layers as `docker save` writes them, with what the configuration says of them.
fn saved(diffs: &[String], architecture: Option<&str>) -> Vec<u8> {
    let mut config = json!({"rootfs": {"type": "layers", "diff_ids": diffs}});
    if let Some(architecture) = architecture {
        config["architecture"] = architecture.into();
    }
    let config = config.to_string();
    let name = format!(
        "{}.json",
        sum(config.as_bytes()).trim_start_matches("sha256:")
    );
    let manifest =
        json!([{"Config": name, "Layers": ["1/layer.tar", "2/layer.tar", "3/layer.tar"]}]);
    let mut files: Vec<_> = (1..)
        .zip(plain())
        .map(|(number, layer)| (format!("{number}/layer.tar"), layer))
        .collect();
    files.push((name, config.into_bytes()));
    files.push((
        "manifest.json".to_owned(),
        manifest.to_string().into_bytes(),
    ));
    packed(&files)
}

#[test]
fn what_docker_saves_is_taken() {
    let world = World::new();
    let mut wrong: Vec<_> = plain().iter().map(|layer| sum(layer)).collect();
    let right = wrong.clone();
    wrong.swap(0, 1);
    assert!(
        world
            .refused(&saved(&wrong, None))
            .contains("a layer has the digest sha256:")
    );
    as_layered(&world.import(&saved(&right, Some(HERE))).unwrap());
}

#[test]
fn a_root_file_system_is_pinned_by_the_digest_of_its_archive() {
    let world = World::new();
    let bytes = gzip(&layers()[0]);
    let file = world.dir.path().join("rootfs.tgz");
    fs::write(&file, &bytes).unwrap();
    let other = format!("sha256:{}", "0".repeat(64));
    let error = world.images.import("x", &file, Some(&other)).unwrap_err();
    assert!(matches!(error, ImportError::Other { .. }), "{error}");
    let listed = world.images.import("x", &file, Some(&sum(&bytes))).unwrap();
    assert_eq!((listed.digest.clone(), listed.entries), (sum(&bytes), 7));
    assert_eq!(world.images.list().unwrap(), [listed]);
    let ids = Ids::detect();
    assert_eq!(world.images.trees("x", &ids).unwrap().len(), 2);
    assert_eq!(
        world.images.trees("z", &ids).unwrap_err(),
        "there is none of that name here; known: x"
    );
    for name in ["", "../x", "/x", "a b", "x\n", &"x".repeat(65)] {
        let error = world.images.import(name, &file, None).unwrap_err();
        assert!(matches!(error, ImportError::Name(_)), "{name:?}");
    }
}

#[test]
fn a_changed_blob_is_refused() {
    for at in 1..6 {
        let world = World::new();
        let mut files = layout();
        let last = files[at].1.len() - 1;
        files[at].1[last] ^= 1;
        let words = world.refused(&packed(&files));
        assert!(
            words.contains("the archive cannot be taken"),
            "{at}: {words}"
        );
        let mut files = layout();
        files.remove(at);
        assert!(
            world.refused(&packed(&files)).contains("is missing"),
            "{at}"
        );
    }
}

#[test]
fn hostile_archives_reach_nothing() {
    let world = World::new();
    let outside = world.dir.path().join("outside");
    fs::write(&outside, "mine").unwrap();
    let inode = fs::metadata(&outside).unwrap().ino();
    let absolute = outside.display().to_string();
    let out = world.dir.path().display().to_string();
    // Refused: a path upwards.
    for path in ["../evil", "a/../../evil", "usr/.."] {
        let words = world.refused(&archive(&[(path, FILE, "x", 0o644)]));
        assert!(words.contains("leads out of the image"), "{path}: {words}");
    }
    // Refused: a second name for what is no part of it.
    for to in ["../../../outside", absolute.as_str(), "etc/shadow"] {
        world.refused(&archive(&[("x", EntryType::Link, to, 0o644)]));
    }
    // Links are kept as they are, and what goes through them stays inside.
    let root = world.import(&archive(&[
        ("evil", EntryType::Symlink, &out, 0o777),
        ("evil/outside", FILE, "theirs", 0o644),
        ("up", EntryType::Symlink, "../../../..", 0o777),
        ("up/outside", FILE, "theirs", 0o644),
        ("self", EntryType::Symlink, &absolute, 0o777),
        ("self", FILE, "theirs", 0o644),
        ("/absolute", FILE, "x", 0o644),
        (".wh.", FILE, "", 0o644),
        (".wh...", FILE, "", 0o644),
        ("pipe", EntryType::Fifo, "", 0o644),
    ]));
    // The folder that the first link leads to does not exist inside: either way nothing is outside.
    drop(root);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    assert_eq!(fs::metadata(&outside).unwrap().ino(), inode);
    assert!(!world.dir.path().join("evil").exists());
    for bytes in [&b""[..], b"no archive at all", &gzip(b""), &[0; 10_240]] {
        drop(world.import(bytes).unwrap_err());
    }
    let text = b"words \x1b[31m\n".repeat(100);
    let xz = [b"\xfd7zXZ\0".as_slice(), &[0xab; 1_000]].concat();
    for bytes in [&text, &xz, &gzip(&text), &gzip(&xz)] {
        let words = world.refused(bytes);
        assert!(
            words.contains("it is no tar archive; gzip and zstd are unpacked"),
            "{words}"
        );
        assert!(
            !words.contains(char::is_control) && words.is_ascii(),
            "{words:?}"
        );
    }
}
