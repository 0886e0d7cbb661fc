//! The vault as a custodian.

use outlast_protocol::credential::{Auth, Location, Networking};
use outlast_vault::{Brought, Custodian, Declined, Order, Use, custodian::conformance};

use crate::support::World;

#[tokio::test]
async fn a_vault_keeps_what_a_custodian_promises() {
    let world = World::new();
    let vault = world.vault().await;
    conformance::run(&vault, &vault, &world.store).await;
}

/// Who owns the process that asks could else send a secret that it cannot see to a host of its own.
#[tokio::test]
async fn a_wary_vault_widens_no_secret_that_is_kept() {
    let world = World::new();
    for (wary, hosts, brought, taken) in [
        (true, &["a.example", "evil.example"][..], false, false),
        (true, &["a.example", "evil.example"], true, true),
        (true, &[], false, true),
        (false, &["evil.example"], false, true),
    ] {
        let vault = world.wary_vault(wary).await;
        let use_at = |hosts: &[&str]| {
            Use::Credential(Auth::EnvironmentVariable {
                secret_name: "KEY".to_owned(),
                networking: Networking::Limited {
                    allowed_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                },
                injection_location: Location {
                    header: true,
                    body: true,
                },
            })
        };
        let secret = outlast_vault::Secret::from("canary-of-the-custodian");
        let first = Order {
            owner: "vcrd_1".to_owned(),
            parent: "vlt_1".to_owned(),
            revision: 1,
            purpose: use_at(&["a.example"]),
            brought: Brought::from(&secret),
            before: None,
        };
        let custodian: &dyn Custodian = &vault;
        let before = custodian.secure(first.clone()).await.unwrap();
        let next = Order {
            revision: 2,
            purpose: use_at(hosts),
            brought: match brought {
                true => Brought::from(&secret),
                false => Brought::default(),
            },
            before: Some(before),
            ..first
        };
        let done = custodian.secure(next).await;
        assert_eq!(done.is_ok(), taken, "{hosts:?}");
        if let Err(declined) = done {
            assert!(matches!(declined, Declined::Invalid(_)), "{declined}");
        }
    }
}
