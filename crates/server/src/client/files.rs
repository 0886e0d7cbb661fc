//! Files: their bytes go and come in a stream.

use std::{path::Path, time::Duration};

use outlast_protocol::mime;
use reqwest::{Method, header::CONTENT_TYPE};
use rustix::fs::OFlags;
use serde_json::Value;
use tokio::{
    fs::OpenOptions,
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_util::io::ReaderStream;

use super::{Client, Error, accepted, repeat_key};

/// Bytes that are read at once.
const CHUNK: usize = 256 * 1024;

/// How long a download may stand still.
const PAUSE: Duration = Duration::from_secs(60);

impl Client {
    /// Uploads a file under the last part of its path.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or as for [`Client::get`].
    pub async fn upload(&self, path: &Path, expiry: Option<u64>) -> Result<Value, Error> {
        let unreadable = |error: std::io::Error| Error::Here {
            what: path.display().to_string(),
            reason: error.to_string(),
        };
        // A pipe must not keep us waiting for its other end.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .await;
        let file = opened.map_err(unreadable)?;
        let about = file.metadata().await.map_err(unreadable)?;
        if !about.is_file() {
            return Err(unreadable(std::io::Error::other("is no regular file")));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let boundary = repeat_key();
        let mut head = String::new();
        if let Some(seconds) = expiry {
            head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"expires_in_seconds\"\
                 \r\n\r\n{seconds}\r\n"
            );
        }
        head.push_str(&format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             content-type: {}\r\n\r\n",
            quoted(&name),
            mime::of_name(&name),
        ));
        let tail = format!("\r\n--{boundary}--\r\n");
        let length = about.len() + (head.len() + tail.len()) as u64;
        let content = std::io::Cursor::new(head)
            .chain(file.take(about.len()))
            .chain(std::io::Cursor::new(tail));
        let body = reqwest::Body::wrap_stream(ReaderStream::with_capacity(content, CHUNK));
        let request = self
            .request(Method::POST, "/v1/files", &[])
            .header(
                CONTENT_TYPE,
                format!("multipart/form-data; boundary={boundary}"),
            )
            .header("content-length", length)
            .body(body);
        self.once(request).await
    }

    /// Downloads a file into `target`; returns how many bytes it has.
    ///
    /// # Errors
    ///
    /// If `target` cannot be written, or as for [`Client::get`].
    pub async fn download(
        &self,
        id: &str,
        target: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, Error> {
        let path = format!("/v1/files/{id}/content");
        let request = self.request(Method::GET, &path, &[]);
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let mut response = accepted(response).await?;
        let broken = |reason: &dyn std::fmt::Display| Error::Form {
            what: format!("the download of `{id}` broke off: {reason}"),
        };
        let mut bytes = 0;
        // A body that is shorter than was announced is an error of its own.
        while let Some(chunk) = timeout(PAUSE, response.chunk())
            .await
            .map_err(|_| broken(&"nothing came for a minute"))?
            .map_err(|error| broken(&error.without_url()))?
        {
            let written = target.write_all(&chunk).await;
            written.map_err(|error| Error::Here {
                what: "the download".to_owned(),
                reason: error.to_string(),
            })?;
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }
}

/// Writes a name so that it stays one line and ends where it ends.
fn quoted(name: &str) -> String {
    let sign = |sign: char| match sign {
        '"' => "%22".to_owned(),
        sign if sign.is_control() => "_".to_owned(),
        sign => sign.to_string(),
    };
    name.chars().map(sign).collect()
}
