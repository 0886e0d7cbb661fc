//! Which credential is chosen.

use outlast_protocol::credential::normal;
use proptest::prelude::*;

use crate::support::{World, bearer};

#[tokio::test]
async fn the_first_vault_that_has_the_url_wins() {
    let world = World::new();
    let vault = world.vault().await;
    let (one, other) = (world.family().await, world.family().await);
    let url = "https://mcp.example.com/mcp";
    world
        .credential(
            &vault,
            one,
            &bearer("https://MCP.example.com:443/mcp/", "token-of-one"),
        )
        .await;
    world
        .credential(&vault, other, &bearer(url, "token-of-other"))
        .await;
    for (vaults, expected) in [
        (vec![one, other], Some("token-of-one")),
        (vec![other, one], Some("token-of-other")),
        (vec![], None),
    ] {
        let found = vault.bearer(&vaults, url).await.unwrap();
        assert_eq!(found.as_ref().map(|found| found.token.expose()), expected);
    }
    for elsewhere in [
        "http://mcp.example.com/mcp",
        "https://mcp.example.com/Mcp",
        "https://mcp.example.com:8443/mcp",
        "https://a.mcp.example.com/mcp",
        "https://mcp.example.com/mcp/more",
        "https://mcp.example.com",
    ] {
        let found = vault.bearer(&[one, other], elsewhere).await.unwrap();
        assert!(found.is_none(), "{elsewhere}");
    }
    let found = vault.bearer(&[one], url).await.unwrap().unwrap();
    vault.renewed(&found).await.unwrap_err();
    let told = format!("{found:?}");
    assert!(!told.contains("token-of"), "{told}");
}

proptest! {
    #[test]
    fn what_does_not_count_does_not_count(
        host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}",
        path in "(/[a-zA-Z0-9]{1,6}){0,3}",
        port in prop::option::of(1_024..65_535_u16),
        slash: bool,
        upper: bool,
        default: bool,
    ) {
        let shown = port.map(|port| format!(":{port}")).unwrap_or_default();
        let plain = format!("https://{host}{shown}{path}");
        let host = if upper { host.to_uppercase() } else { host };
        let shown = if default && port.is_none() { ":443".to_owned() } else { shown };
        let slash = if slash { "/" } else { "" };
        let other = format!("HTTPS://{host}{shown}{path}{slash}");
        prop_assert_eq!(&normal(&plain), &plain);
        prop_assert_eq!(&normal(&other), &plain);
        prop_assert_eq!(normal(&normal(&other)), normal(&other));
        prop_assert_ne!(normal(&format!("{plain}x")), plain);
    }
}
