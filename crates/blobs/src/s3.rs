//! Blobs in a bucket of an S3-compatible service.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, TryStreamExt as _, stream::FuturesUnordered};
use object_store::{
    ClientOptions, GetOptions, GetRange, MultipartUpload, ObjectStore as _, ObjectStoreExt as _,
    RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::StreamReader;

use crate::{Away, Blobs, Error, Key, Reader};

/// Bytes of one part of a large upload. Services take ten thousand of them, and some want all to
/// be of one size.
const PART: usize = 16 << 20;

/// Parts on their way while the next one is read.
const IN_FLIGHT: usize = 2;

/// The longest silence of the service.
const SILENCE: Duration = Duration::from_secs(60);

/// The longest that a request is tried again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the bucket is and what opens it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `s3://bucket` or `s3://bucket/prefix`.
    pub url: String,
    /// Where the service is, such as `https://minio.example:9000`; the hosted one if absent.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` if absent.
    pub region: Option<String>,
    /// The id of the key; without it and the secret the usual `AWS_` variables and the machine's own
    /// role are asked.
    pub access_key_id: Option<String>,
    /// The key.
    pub secret_access_key: Option<SecretString>,
    /// What goes with a temporary key.
    pub session_token: Option<SecretString>,
}

/// What is wrong with the options.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadOptions {
    /// The address names no bucket.
    #[error("`{0}` is not of the form s3://bucket/prefix")]
    Url(String),
    /// One half of a key.
    #[error("access_key_id and secret_access_key go together")]
    HalfAKey,
    /// The client refuses them.
    #[error("{0}")]
    Client(String),
}

/// Keeps each blob as an object at its key below a prefix of one bucket.
///
/// What is put is durable when the service says so. Large blobs are uploaded in parts; parts of an
/// upload that a crash cut off are the bucket's to expire, by its lifecycle rule for incomplete
/// uploads.
#[derive(Clone)]
pub struct S3 {
    store: AmazonS3,
    bucket: String,
    /// Ends in a slash unless it is empty.
    prefix: String,
}

impl fmt::Debug for S3 {
    /// Leaves out the client, which knows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bucket, prefix) = (&self.bucket, &self.prefix);
        f.debug_struct("S3")
            .field("bucket", bucket)
            .field("prefix", prefix)
            .finish_non_exhaustive()
    }
}

impl S3 {
    /// Makes a client; sends nothing yet.
    ///
    /// # Errors
    ///
    /// If the options cannot be. No secret is in the words.
    pub fn new(options: &Options) -> Result<Self, BadOptions> {
        let (bucket, prefix) = address(&options.url)?;
        let plain = options.endpoint.as_deref().unwrap_or_default();
        let client = ClientOptions::new()
            .with_allow_http(plain.starts_with("http://"))
            .with_timeout_disabled()
            .with_connect_timeout(Duration::from_secs(10))
            .with_read_timeout(SILENCE);
        let retry = RetryConfig {
            max_retries: 5,
            retry_timeout: PATIENCE,
            ..RetryConfig::default()
        };
        let mut builder = match (&options.access_key_id, &options.secret_access_key) {
            (Some(id), Some(secret)) => AmazonS3Builder::new()
                .with_access_key_id(id)
                .with_secret_access_key(secret.expose_secret()),
            (None, None) => AmazonS3Builder::from_env(),
            (Some(_), None) | (None, Some(_)) => return Err(BadOptions::HalfAKey),
        };
        if let Some(token) = &options.session_token {
            builder = builder.with_token(token.expose_secret());
        }
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let region = options.region.as_deref().unwrap_or("us-east-1");
        let store = builder
            .with_bucket_name(&bucket)
            .with_region(region)
            .with_client_options(client)
            .with_retry(retry)
            .build()
            .map_err(|error| BadOptions::Client(error.to_string()))?;
        Ok(Self {
            store,
            bucket,
            prefix,
        })
    }

    fn path(&self, key: &Key) -> Result<Path, Error> {
        let text = format!("{}{key}", self.prefix);
        Path::parse(text).map_err(|error| unavailable(key, &error))
    }

    /// Returns the key of an object; `None` of one that is no blob of ours.
    fn key(&self, path: &Path) -> Option<Key> {
        Key::new(path.as_ref().strip_prefix(&self.prefix)?).ok()
    }

    /// Uploads what is too large for one request.
    async fn upload(&self, key: &Key, first: Bytes, mut content: Reader) -> Result<u64, Error> {
        let path = self.path(key)?;
        let begun = self.store.put_multipart(&path).await;
        let mut upload = begun.map_err(|error| told(key, error))?;
        match parts(key, &mut *upload, first, &mut content).await {
            Ok(bytes) => {
                let done = upload.complete().await;
                done.map_err(|error| told(key, error))?;
                Ok(bytes)
            }
            Err(error) => {
                // What went wrong is told; parts that stay are the bucket's to expire.
                drop(upload.abort().await);
                Err(error)
            }
        }
    }
}

/// Uploads the parts.
async fn parts(
    key: &Key,
    upload: &mut dyn MultipartUpload,
    first: Bytes,
    content: &mut Reader,
) -> Result<u64, Error> {
    let mut flying = FuturesUnordered::new();
    let (mut part, mut bytes) = (first, 0);
    while !part.is_empty() {
        bytes += part.len() as u64;
        let last = part.len() < PART;
        flying.push(upload.put_part(part.into()));
        if flying.len() > IN_FLIGHT
            && let Some(done) = flying.next().await
        {
            done.map_err(|error| told(key, error))?;
        }
        part = if last {
            Bytes::new()
        } else {
            fill(content)
                .await
                .map_err(|error| unavailable(key, &error))?
        };
    }
    while let Some(done) = flying.next().await {
        done.map_err(|error| told(key, error))?;
    }
    Ok(bytes)
}

/// Reads one part; a short one is the last.
async fn fill(content: &mut Reader) -> std::io::Result<Bytes> {
    let mut part = BytesMut::with_capacity(64 << 10);
    let mut bounded = content.take(PART as u64);
    while bounded.read_buf(&mut part).await? > 0 {
        if part.len() == part.capacity() {
            part.reserve(part.len().min(PART - part.len()));
        }
    }
    Ok(part.freeze())
}

/// Takes an address apart.
fn address(url: &str) -> Result<(String, String), BadOptions> {
    let bad = || BadOptions::Url(url.to_owned());
    let rest = url.strip_prefix("s3://").ok_or_else(bad)?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_end_matches('/');
    if bucket.is_empty() || (!prefix.is_empty() && Key::new(prefix).is_err()) {
        return Err(bad());
    }
    let slash = if prefix.is_empty() { "" } else { "/" };
    Ok((bucket.to_owned(), format!("{prefix}{slash}")))
}

fn unavailable(key: &Key, reason: &dyn fmt::Display) -> Error {
    Error::Unavailable {
        key: key.clone(),
        reason: Away::other(reason),
    }
}

/// Puts an error of the service into ours.
fn told(key: &Key, error: object_store::Error) -> Error {
    if is_absent(&error) {
        Error::NotFound(key.clone())
    } else {
        unavailable(key, &error)
    }
}

fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
}

#[async_trait]
impl Blobs for S3 {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let done = self.store.put(&self.path(key)?, bytes.into()).await;
        done.map(drop).map_err(|error| told(key, error))
    }

    async fn put_from(&self, key: &Key, mut content: Reader) -> Result<u64, Error> {
        let first = fill(&mut content).await;
        let first = first.map_err(|error| unavailable(key, &error))?;
        if first.len() == PART {
            return self.upload(key, first, content).await;
        }
        let bytes = first.len() as u64;
        self.put(key, first).await?;
        Ok(bytes)
    }

    async fn open(&self, key: &Key, from: u64) -> Result<Reader, Error> {
        let path = self.path(key)?;
        let mut options = GetOptions::default();
        if from > 0 {
            let meta = self.store.head(&path).await;
            // A range that begins behind the end would be refused.
            if from >= meta.map_err(|error| told(key, error))?.size {
                return Ok(Box::pin(tokio::io::empty()));
            }
            options.range = Some(GetRange::Offset(from));
        }
        let found = self.store.get_opts(&path, options).await;
        let found = found.map_err(|error| told(key, error))?;
        let stream = found.into_stream().map_err(std::io::Error::other);
        Ok(Box::pin(StreamReader::new(stream)))
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        let found = self.store.get(&self.path(key)?).await;
        let found = found.map_err(|error| told(key, error))?;
        found.bytes().await.map_err(|error| told(key, error))
    }

    async fn delete(&self, key: &Key) -> Result<(), Error> {
        match self.store.delete(&self.path(key)?).await {
            Err(error) if !is_absent(&error) => Err(told(key, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn delete_prefix(&self, prefix: &Key, limit: usize) -> Result<usize, Error> {
        let keys = self.list(prefix, None, limit).await?;
        let paths = keys.iter().map(|key| self.path(key));
        let paths: Vec<_> = paths.collect::<Result<_, _>>()?;
        let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut gone = self.store.delete_stream(paths);
        while let Some(done) = gone.next().await {
            if let Err(error) = done
                && !is_absent(&error)
            {
                return Err(told(prefix, error));
            }
        }
        Ok(keys.len())
    }

    async fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Error> {
        let path = self.path(prefix)?;
        let mut found = Vec::new();
        // Listing is of what lies below; the blob at the prefix itself comes before all that.
        if limit > 0 && after.is_none_or(|after| after < prefix) {
            match self.store.head(&path).await {
                Ok(_) => found.push(prefix.clone()),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(told(prefix, error)),
            }
        }
        let mut below = match after {
            Some(after) => self.store.list_with_offset(Some(&path), &self.path(after)?),
            None => self.store.list(Some(&path)),
        };
        while found.len() < limit
            && let Some(next) = below.next().await
        {
            let next = next.map_err(|error| told(prefix, error))?;
            found.extend(self.key(&next.location));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            ..Options::default()
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        for (url, expected) in [
            ("s3://b", Some(("b", ""))),
            ("s3://b/", Some(("b", ""))),
            ("s3://b/p/q/", Some(("b", "p/q/"))),
            ("s3://", None),
            ("s3:///p", None),
            ("s3://b/../p", None),
            ("b/p", None),
            ("https://b/p", None),
        ] {
            let expected = expected.map(|(b, p): (&str, &str)| (b.to_owned(), p.to_owned()));
            assert_eq!(address(url).ok(), expected, "{url}");
        }
    }

    #[test]
    fn half_a_key_is_refused_and_no_secret_is_shown() {
        let canary = "canary-6f1d";
        let half = Options {
            secret_access_key: Some(canary.into()),
            ..of("s3://b")
        };
        assert_eq!(S3::new(&half).unwrap_err(), BadOptions::HalfAKey);
        let whole = Options {
            access_key_id: Some("id".to_owned()),
            session_token: Some(canary.into()),
            ..half
        };
        let s3 = S3::new(&whole).unwrap();
        let shown = format!("{s3:?} {whole:?}");
        assert!(!shown.contains(canary), "{shown}");
    }
}
