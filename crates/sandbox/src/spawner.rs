//! The thread that is the parent of every sandbox.
//!
//! The kernel sends the death signal when the *thread* that made a child ends, so sandboxes are
//! made by one thread that lives as long as any of them, never by a pool's.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
};

use crate::Image;

/// One order to the thread.
struct Order {
    helper: Arc<Image>,
    socket: OwnedFd,
    answer: mpsc::SyncSender<io::Result<Child>>,
}

/// Starts helpers; dropping the last handle ends the thread, and with it every sandbox.
#[derive(Debug)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn new() -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("sandbox-parent".to_owned())
            .spawn(move || {
                for order in inbox {
                    // Whoever asked may have gone; the helper then meets a closed socket and ends.
                    drop(order.answer.send(spawn(&order.helper, order.socket)));
                }
            })?;
        Ok(Self { orders })
    }

    /// Starts a helper whose descriptor 0 is `socket`. Blocks.
    pub(crate) fn spawn(&self, helper: &Arc<Image>, socket: OwnedFd) -> io::Result<Child> {
        let (answer, answered) = mpsc::sync_channel(1);
        let order = Order {
            helper: Arc::clone(helper),
            socket,
            answer,
        };
        let gone = || io::Error::other("the thread that parents sandboxes has ended");
        self.orders.send(order).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

/// Executes the helper with nothing of this process but the socket.
fn spawn(helper: &Image, socket: OwnedFd) -> io::Result<Child> {
    Command::new(helper.path())
        .env_clear()
        .current_dir("/")
        .stdin(socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
