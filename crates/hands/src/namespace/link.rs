//! The channel to PID 1.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
};

use outlast_init::{
    frame::{Decoder, FromInit, ToInit, encode},
    outlet,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
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

    /// Receives the first frame, `None` if PID 1 is gone, and the descriptor that came with it.
    pub(super) async fn greeting(&mut self) -> io::Result<(Option<FromInit>, Option<OwnedFd>)> {
        let Reader {
            stream,
            decoder,
            buffer,
        } = &mut self.reader;
        let stream: &UnixStream = (*stream).as_ref();
        let take = || outlet::take(stream, &mut *buffer);
        let (length, came) = stream.async_io(Interest::READABLE, take).await?;
        decoder.push(buffer.get(..length).unwrap_or_default());
        if length == 0 {
            return Ok((None, None));
        }
        Ok((self.reader.receive().await?, came))
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

/// Takes what PID 1 handed out.
pub(super) fn listener(came: Option<OwnedFd>) -> io::Result<TcpListener> {
    let listener = TcpListener::from(came.ok_or(io::ErrorKind::NotFound)?);
    if listener.local_addr()? != SocketAddr::V4(outlet::ADDRESS) {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    // Of all descriptors of it: whoever accepts does not wait in a call.
    listener.set_nonblocking(true)?;
    Ok(listener)
}
