//! Files: who needs which bytes, lists, ends, mounts.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    id::{FileId, ResourceId, SessionId},
    session::MountPath,
};
use outlast_session::{
    Proposal,
    body::{Config, Mounted},
};

use super::fixture::World;
use crate::{
    Append, AppendError, Blob, FileQuery, Order, Output, ReadError, StoredFile, WriteError,
};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    bytes_stay_as_long_as_a_file_names_them(&world().await).await;
    lists_have_filters_and_pages(&world().await).await;
    files_end_and_are_forgotten(&world().await).await;
    an_output_keeps_its_id(&world().await).await;
    mounts_are_copies(&world().await).await;
    a_source_must_be_there(&world().await).await;
    blobs_of_the_living_are_not_loose(&world().await).await;
    a_blob_that_was_given_up_gets_no_name(&world().await).await;
}

fn id(world: &World) -> FileId {
    FileId::mint(world.clock.now(), &*world.entropy)
}

fn file(world: &World) -> StoredFile {
    let id = id(world);
    StoredFile {
        id,
        created_at: world.clock.now(),
        name: "a \u{1f980}".to_owned(),
        mime_type: "a/b".to_owned(),
        bytes: 7,
        downloadable: false,
        expires_at: None,
        scope: None,
        mounted: false,
        output: None,
        blob: Some(id),
    }
}

async fn stored(world: &World, file: StoredFile) -> StoredFile {
    let blob = file.blob.unwrap();
    world
        .store
        .begin_blob(blob.into(), world.process)
        .await
        .unwrap();
    world.store.insert_file(file.clone(), None).await.unwrap();
    file
}

async fn loose(world: &World) -> Vec<FileId> {
    let found = world.store.loose_blobs(10).await.unwrap();
    let files = found.into_iter().map(|blob| match blob {
        Blob::File(file) => file,
        Blob::Session { key, .. } => panic!("not of a file: {key}"),
    });
    files.collect()
}

async fn gone(world: &World, id: FileId) {
    let missing = world.store.file(id).await.unwrap_err();
    assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
}

async fn bytes_stay_as_long_as_a_file_names_them(world: &World) {
    let one = stored(world, file(world)).await;
    assert_eq!(world.store.file(one.id).await.unwrap(), one);
    // Whoever lost the answer of an insert may give the blob up.
    assert!(!world.store.drop_blob(one.id.into()).await.unwrap());
    assert_eq!(loose(world).await, []);
    let session = world.started().await;
    let resource = mounted(world, one.id, "/a");
    let (copy, by) = (resource.file, world.key);
    let mount = Proposal::Mount { resource, by };
    world.append(session, mount).await.unwrap();
    world.store.remove_file(one.id).await.unwrap();
    gone(world, one.id).await;
    let again = world.store.remove_file(one.id).await.unwrap_err();
    assert!(matches!(again, WriteError::NotFound(_)), "{again}");
    assert_eq!(loose(world).await, []);
    assert_eq!(world.store.file(copy).await.unwrap().blob, one.blob);
    world.end(session).await;
    assert_eq!(loose(world).await, [one.id]);
    world.store.forget_blob(one.id.into()).await.unwrap();
    assert_eq!(loose(world).await, []);
}

/// Of a name and a removal that meet, one comes to nothing.
async fn a_blob_that_was_given_up_gets_no_name(world: &World) {
    let session = world.started().await;
    let files = [file(world), output(world, session, "1")];
    let store = |file: StoredFile| async move {
        match file.output {
            Some(_) => world.store.publish_file(file).await.map(drop),
            None => world.store.insert_file(file, None).await,
        }
    };
    for file in &files {
        let blob = Blob::from(file.id);
        let never = store(file.clone()).await.unwrap_err();
        assert!(matches!(never, WriteError::Unavailable(_)), "{never}");
        let begun = world.store.begin_blob(blob.clone(), world.process);
        begun.await.unwrap();
        assert!(world.store.drop_blob(blob.clone()).await.unwrap());
        let late = store(file.clone()).await.unwrap_err();
        assert!(matches!(late, WriteError::Unavailable(_)), "{late}");
        assert_eq!(loose(world).await, [file.id]);
        gone(world, file.id).await;
        world.store.forget_blob(blob).await.unwrap();
    }
    // Its writer was declared dead and knows nothing of it.
    let begun = world.store.begin_blob(files[0].id.into(), world.process);
    begun.await.unwrap();
    world.store.declare_dead(world.process).await.unwrap();
    assert_eq!(loose(world).await, [files[0].id]);
    let late = store(files[0].clone()).await.unwrap_err();
    assert!(matches!(late, WriteError::Unavailable(_)), "{late}");
    assert_eq!(loose(world).await, [files[0].id]);
}

fn query(world: &World) -> FileQuery {
    FileQuery {
        scope: None,
        ids: None,
        now: world.clock.now(),
        order: Order::Backwards,
        after: None,
        limit: 10,
    }
}

async fn ids(world: &World, query: &FileQuery) -> (Vec<FileId>, bool) {
    let page = world.store.files(query).await.unwrap();
    (page.items.iter().map(|file| file.id).collect(), page.more)
}

async fn lists_have_filters_and_pages(world: &World) {
    let session = world.session_id();
    let mut files = Vec::new();
    for number in 0..4 {
        world.pass(Duration::from_secs(1));
        let scope = (number == 2).then_some(session);
        let new = StoredFile {
            scope,
            ..file(world)
        };
        files.push(stored(world, new).await);
    }
    let of = |numbers: &[usize]| -> Vec<FileId> { numbers.iter().map(|n| files[*n].id).collect() };
    let all = query(world);
    assert_eq!(ids(world, &all).await, (of(&[3, 2, 1, 0]), false));
    let two = FileQuery {
        limit: 2,
        ..all.clone()
    };
    assert_eq!(ids(world, &two).await, (of(&[3, 2]), true));
    let after = Some((files[2].created_at, files[2].id));
    assert_eq!(
        ids(
            world,
            &FileQuery {
                after,
                ..two.clone()
            }
        )
        .await,
        (of(&[1, 0]), false)
    );
    let order = Order::Forwards;
    assert_eq!(
        ids(
            world,
            &FileQuery {
                order,
                after,
                ..two
            }
        )
        .await,
        (of(&[3]), false)
    );
    let scope = Some(session);
    assert_eq!(
        ids(
            world,
            &FileQuery {
                scope,
                ..all.clone()
            }
        )
        .await,
        (of(&[2]), false)
    );
    let some = Some(vec![files[0].id, id(world), files[3].id]);
    assert_eq!(
        ids(
            world,
            &FileQuery {
                ids: some,
                ..all.clone()
            }
        )
        .await,
        (of(&[3, 0]), false)
    );
    let none = Some(Vec::new());
    assert_eq!(
        ids(world, &FileQuery { ids: none, ..all }).await,
        (of(&[]), false)
    );
}

async fn files_end_and_are_forgotten(world: &World) {
    let (now, hour) = (world.clock.now(), Duration::from_secs(3_600));
    let ends = StoredFile {
        expires_at: Some(now.after(hour)),
        ..file(world)
    };
    let ends = stored(world, ends).await;
    let stays = stored(world, file(world)).await;
    assert_eq!(world.store.expire_files(now, Micros(0)).await.unwrap(), 0);
    let later = world.pass(hour);
    assert_eq!(ids(world, &query(world)).await.0, [stays.id]);
    assert_eq!(world.store.expire_files(later, now).await.unwrap(), 1);
    assert_eq!(world.store.expire_files(later, now).await.unwrap(), 0);
    assert_eq!(loose(world).await, [ends.id]);
    let remembered = world.store.file(ends.id).await.unwrap();
    assert_eq!(
        remembered,
        StoredFile {
            blob: None,
            ..ends.clone()
        }
    );
    assert_eq!(world.store.expire_files(later, later).await.unwrap(), 1);
    gone(world, ends.id).await;
}

fn output(world: &World, session: SessionId, version: &str) -> StoredFile {
    StoredFile {
        scope: Some(session),
        downloadable: true,
        output: Some(Output {
            path: "sub/a".to_owned(),
            version: version.to_owned(),
        }),
        ..file(world)
    }
}

async fn published(world: &World, new: &StoredFile) -> Option<FileId> {
    let blob = new.blob.unwrap();
    world
        .store
        .begin_blob(blob.into(), world.process)
        .await
        .unwrap();
    world.store.publish_file(new.clone()).await.unwrap()
}

async fn an_output_keeps_its_id(world: &World) {
    let session = world.started().await;
    let first = output(world, session, "1");
    assert_eq!(published(world, &first).await, Some(first.id));
    world.pass(Duration::from_secs(1));
    let second = StoredFile {
        bytes: 8,
        ..output(world, session, "2")
    };
    assert_eq!(published(world, &second).await, Some(first.id));
    let now = StoredFile {
        id: first.id,
        created_at: first.created_at,
        ..second.clone()
    };
    assert_eq!(world.store.file(first.id).await.unwrap(), now);
    assert_eq!(loose(world).await, [first.id], "the older bytes");
    assert_eq!(world.store.outputs(session).await.unwrap(), [now]);
    world.store.remove_file(first.id).await.unwrap();
    gone(world, first.id).await;
    assert_eq!(ids(world, &query(world)).await.0, []);
    // The same version does not come back, the next one is another file.
    let same = output(world, session, "2");
    assert_eq!(published(world, &same).await, None);
    assert!(loose(world).await.contains(&same.id));
    let third = output(world, session, "3");
    assert_eq!(published(world, &third).await, Some(third.id));
    assert_eq!(world.store.outputs(session).await.unwrap(), [third]);
    world.end(session).await;
    let late = output(world, session, "4");
    let begun = world.store.begin_blob(late.id.into(), world.process);
    begun.await.unwrap();
    let refused = world.store.publish_file(late).await.unwrap_err();
    assert!(matches!(refused, WriteError::NotFound(_)), "{refused}");
    assert_eq!(world.store.outputs(session).await.unwrap(), []);
}

fn mounted(world: &World, source: FileId, path: &str) -> Mounted {
    let now = world.clock.now();
    Mounted {
        id: ResourceId::mint(now, &*world.entropy),
        file: id(world),
        source,
        path: MountPath::parse(path).unwrap(),
        at: now,
    }
}

impl World {
    async fn started(&self) -> SessionId {
        let new = self.create();
        let id = new.id;
        self.append(id, Proposal::Create(Box::new(new)))
            .await
            .unwrap();
        id
    }

    async fn end(&self, session: SessionId) {
        self.append(session, Proposal::Delete(self.key))
            .await
            .unwrap();
    }

    async fn append(
        &self,
        session: SessionId,
        proposal: Proposal,
    ) -> Result<crate::Outcome, AppendError> {
        let receipt = None;
        self.store
            .append(session, Append { proposal, receipt })
            .await
    }
}

async fn mounts_are_copies(world: &World) {
    let source = StoredFile {
        expires_at: Some(world.clock.now().after(Duration::from_secs(10))),
        ..file(world)
    };
    let source = stored(world, source).await;
    let (one, two) = (
        mounted(world, source.id, "/a"),
        mounted(world, source.id, "/b"),
    );
    let mut new = world.create();
    new.config = std::sync::Arc::new(Config {
        resources: vec![one.clone()],
        ..(*new.config).clone()
    });
    let (session, by) = (new.id, world.key);
    world
        .append(session, Proposal::Create(Box::new(new)))
        .await
        .unwrap();
    let resource = two.clone();
    let outcome = world
        .append(session, Proposal::Mount { resource, by })
        .await
        .unwrap();
    let config = outcome.state.config.clone().unwrap();
    assert_eq!(config.resources, [one.clone(), two.clone()]);
    assert_eq!(
        world.store.head(session).await.unwrap().config,
        Some(config)
    );
    for copy in [&one, &two] {
        let expected = StoredFile {
            id: copy.file,
            created_at: copy.at,
            expires_at: None,
            scope: Some(session),
            mounted: true,
            ..source.clone()
        };
        assert_eq!(world.store.file(copy.file).await.unwrap(), expected);
        let refused = world.store.remove_file(copy.file).await.unwrap_err();
        assert!(matches!(refused, WriteError::Referenced(_)), "{refused}");
    }
    world.store.remove_file(source.id).await.unwrap();
    let resource = one.id;
    world
        .append(session, Proposal::Unmount { resource, by })
        .await
        .unwrap();
    gone(world, one.file).await;
    assert_eq!(loose(world).await, []);
    world.append(session, Proposal::Archive(by)).await.unwrap();
    world.store.file(two.file).await.unwrap();
    world.end(session).await;
    gone(world, two.file).await;
    assert_eq!(loose(world).await, [source.id]);
}

async fn a_source_must_be_there(world: &World) {
    let session = world.started().await;
    let ended = StoredFile {
        expires_at: Some(world.clock.now()),
        ..file(world)
    };
    let ended = stored(world, ended).await;
    for source in [id(world), ended.id] {
        let resource = mounted(world, source, "/a");
        let by = world.key;
        let tail = world.store.head(session).await.unwrap().tail;
        let refused = world
            .append(session, Proposal::Mount { resource, by })
            .await;
        assert!(
            matches!(refused, Err(AppendError::Missing(_))),
            "{refused:?}"
        );
        assert_eq!(world.store.head(session).await.unwrap().tail, tail);
    }
}

async fn blobs_of_the_living_are_not_loose(world: &World) {
    let (begun, dropped) = (id(world), id(world));
    world
        .store
        .begin_blob(begun.into(), world.process)
        .await
        .unwrap();
    world
        .store
        .begin_blob(dropped.into(), world.process)
        .await
        .unwrap();
    world.store.drop_blob(dropped.into()).await.unwrap();
    assert_eq!(loose(world).await, [dropped]);
    // The next process declares this one dead.
    let next = world.process();
    world.store.register(next, world.clock.now()).await.unwrap();
    let mut found = loose(world).await;
    found.sort_unstable();
    let mut all = vec![begun, dropped];
    all.sort_unstable();
    assert_eq!(found, all);
}
