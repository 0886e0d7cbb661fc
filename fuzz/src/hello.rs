//! What begins a tunnel.

use bytes::Bytes;
use futures::executor::block_on;
use outlast_reach::Host;
use tokio::io::AsyncReadExt as _;

use crate::{
    hand::{
        hello::{Start, is_for, look},
        stream::Rewind,
    },
    pieces::{Wire, cuts},
};

/// Looks at the beginning of a tunnel. However it is cut it is the same one, nothing that was looked at
/// is lost, and a name that is let through is the host that the tunnel leads to.
pub fn hello(data: &[u8]) {
    let starts = cuts(data).into_iter().map(|pieces| start(data, &pieces));
    let starts: Vec<_> = starts.collect();
    assert!(starts.windows(2).all(|two| two[0] == two[1]), "{starts:?}");
    let Some(Start::Tls(name)) = starts.first() else {
        return;
    };
    let Some(name) = name else { return };
    let hosts = ["a.example", "xn--bcher-kva.example", "127.0.0.1", "::1"];
    for host in hosts {
        let host: Host = host.parse().unwrap();
        if is_for(Some(name), &host) {
            assert!(host.address().is_none() && name.parse::<Host>().as_ref() == Ok(&host));
        }
    }
}

fn start(data: &[u8], pieces: &[&[u8]]) -> Start {
    let (wire, _) = Wire::new(pieces);
    let mut client = Rewind::new(Bytes::new(), wire);
    block_on(async {
        let start = look(&mut client).await.unwrap();
        assert!(data.starts_with(client.seen()));
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, data);
        start
    })
}
