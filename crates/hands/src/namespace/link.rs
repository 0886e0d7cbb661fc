//! The channel to PID 1.

use std::io;

use outlast_init::frame::{Decoder, FromInit, ToInit, encode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};

/// Both directions.
#[derive(Debug)]
pub(super) struct Link {
    reader: Reader,
    writer: OwnedWriteHalf,
}

/// What comes from PID 1.
#[derive(Debug)]
pub(super) struct Reader {
    stream: OwnedReadHalf,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Link {
    /// Takes our end of the channel.
    pub(super) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(stream)?.into_split();
        let reader = Reader {
            stream: reader,
            decoder: Decoder::default(),
            buffer: vec![0; 64 * 1024],
        };
        Ok(Self { reader, writer })
    }

    /// Sends one frame.
    pub(super) async fn send(&mut self, frame: &ToInit) -> io::Result<()> {
        self.writer.write_all(&encode(frame)?).await
    }

    /// Receives one frame; `None` if PID 1 is gone.
    pub(super) async fn receive(&mut self) -> io::Result<Option<FromInit>> {
        self.reader.receive().await
    }

    /// Takes the directions apart.
    pub(super) fn split(self) -> (Reader, OwnedWriteHalf) {
        (self.reader, self.writer)
    }
}

impl Reader {
    /// Receives one frame; `None` if PID 1 is gone.
    pub(super) async fn receive(&mut self) -> io::Result<Option<FromInit>> {
        loop {
            if let Some(frame) = self.decoder.take()? {
                return Ok(Some(frame));
            }
            let length = self.stream.read(&mut self.buffer).await?;
            if length == 0 {
                return Ok(None);
            }
            self.decoder
                .push(self.buffer.get(..length).unwrap_or_default());
        }
    }
}

/// Writes frames until nobody sends any more. What cannot be written is noticed by the reader: the
/// other end is gone.
pub(super) async fn write(
    mut writer: OwnedWriteHalf,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    while let Some(frame) = frames.recv().await {
        if writer.write_all(&frame).await.is_err() {
            return;
        }
    }
}
