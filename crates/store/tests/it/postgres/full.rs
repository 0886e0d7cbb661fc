//! A database without room: what it says itself is told from its other troubles.

use outlast_store::{AppendError, WriteError};
use outlast_testkit::postgres::Syncs;

use super::kit::Kit;

/// Has the database say what it says when it cannot make a file larger.
const FULL: &str = "CREATE FUNCTION lacks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                    RAISE EXCEPTION 'could not extend file: No space left on device' \
                    USING ERRCODE = '53100'; END $$; \
                    CREATE TRIGGER lacks BEFORE INSERT ON records EXECUTE FUNCTION lacks(); \
                    CREATE TRIGGER lacks BEFORE UPDATE ON probes EXECUTE FUNCTION lacks()";

const ROOM: &str = "DROP FUNCTION lacks() CASCADE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_database_is_told_as_such() {
    let kit = Kit::start(Syncs::None);
    let (_store, world) = kit.world("postgres", "only").await;
    let session = world.session().await;
    kit.cluster.tell(FULL).unwrap();
    let refused = world
        .propose(session, world.message("x"))
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, AppendError::Unavailable(away) if away.is_full()),
        "{refused}"
    );
    let refused = world.store.probe().await.unwrap_err();
    assert!(
        matches!(&refused, WriteError::Unavailable(away) if away.is_full()),
        "{refused}"
    );
    kit.cluster.tell(ROOM).unwrap();
    world.store.probe().await.unwrap();
    world.send(session, "y").await;
}
