//! Files: uploaded by clients, made by agents.

mod range;

use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use outlast_kernel::{FilePage, FileQuery, Order as Way, StoredFile, shown};
use outlast_protocol::{
    ErrorCode, Problem,
    id::{FileId, SessionId},
    limits, mime,
    page::List,
    query::{Order, Query, TimeRange},
};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use self::range::Range;
use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    connection::Connection,
    extract::{Caller, Named, Params, Submission},
    failure::Failure,
    listing::Page,
    once::{Attempt, Form, Sending, Ticket},
    upload::Upload,
};

/// Bytes that a download reads at once.
const CHUNK: usize = 256 * 1024;

/// Keeps browsers from taking a file for what it does not say it is.
const NO_SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// `POST /v1/files`.
///
/// A repeat is told by what the form says and by the hash of its file: the bytes of the body differ
/// with every attempt, because each draws a boundary of its own.
pub(crate) async fn upload(
    State(app): State<Shared>,
    Caller(by): Caller,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    Query::parse(parts.uri.query().unwrap_or_default())?.finish()?;
    let upload = Upload::read(&app.kernel, &app.intake, &parts.headers, body).await?;
    let (method, path) = (&parts.method, parts.uri.path());
    let attempt = Attempt::read(&parts.headers, by, method, path, &upload.sum())?;
    let sending = attempt.map(|attempt| Sending {
        attempt,
        over: parts.extensions.get::<Connection>().cloned(),
    });
    let work = app.clone();
    let work = move |ticket: Option<Ticket>| async move {
        let Upload {
            received,
            name,
            mime_type,
            expiry,
        } = upload;
        let file = work.kernel.upload(&received, (name, mime_type), expiry);
        let text = answer::text(&shown(&file))?;
        let receipt = ticket.map(|ticket| ticket.body(&text));
        work.kernel.keep(received, file, receipt).await?;
        Ok(text)
    };
    app.once(sending, Form::Stored, work).await
}

/// `GET /v1/files`, newest first.
pub(crate) async fn list(
    State(app): State<Shared>,
    Params(mut query): Params,
    headers: HeaderMap,
) -> Answer {
    let style = Style::of(&headers);
    let scope = query.text("scope_id")?;
    // An id of another form names no session, like any id that was never given out.
    let known = scope.as_deref().map(SessionId::parse);
    let ids = query.list("ids", limits::FILE_IDS_SENT)?;
    if !ids.is_empty() {
        return app.by_ids(query, known, ids, style).await;
    }
    let bounds = (limits::PAGE, limits::EVENT_PAGE_MAX);
    let all = TimeRange::default();
    let page = Page::read(&mut query, (List::Files, ""), bounds, Order::Desc, &all)?;
    let edge = (query.text("after_id")?, query.text("before_id")?);
    query.finish()?;
    let Some(scope) = known.map_or(Some(None), |known| known.map(Some)) else {
        return view(&[], false, None, style);
    };
    let edge = app.edge(edge).await?;
    let (order, after) = match &edge {
        Some((order, after)) => (*order, Some(*after)),
        None => (
            page.way(),
            page.after()
                .and_then(|(at, id)| Some((at, FileId::parse(&id)?))),
        ),
    };
    let query = FileQuery {
        scope,
        ids: None,
        now: app.kernel.now(),
        order,
        after,
        limit: page.limit,
    };
    let FilePage { mut items, more } = app.kernel.files(&query).await?;
    if order == Way::Forwards {
        items.reverse();
    }
    let key = |file: &StoredFile| (file.created_at, file.id.to_string());
    let edges = items.first().map(key).zip(items.last().map(key));
    let next = if order == Way::Forwards {
        None
    } else {
        page.cursors(edges, more).0
    };
    view(&items, more, next, style)
}

/// `GET /v1/files/{file_id}`.
pub(crate) async fn retrieve(
    State(app): State<Shared>,
    Named(id): Named<FileId>,
    Params(query): Params,
) -> Answer {
    query.finish()?;
    answer::view(&shown(&app.kernel.file(id).await?))
}

/// `DELETE /v1/files/{file_id}`.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Named(id): Named<FileId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    app.kernel.remove_file(id).await?;
    Ok(answer::json(answer::deleted(&id, "file_deleted")))
}

/// `GET /v1/files/{file_id}/content`.
pub(crate) async fn content(
    State(app): State<Shared>,
    Named(id): Named<FileId>,
    Params(query): Params,
    headers: HeaderMap,
) -> Answer {
    query.finish()?;
    let file = app.kernel.file(id).await?;
    if !file.downloadable {
        let words = format!(
            "file `{id}` is not downloadable: only what an agent made is given out, what was \
             uploaded is not"
        );
        return Err(Problem::new(ErrorCode::FileNotDownloadable, words).into());
    }
    let part = match Range::of(&headers, file.bytes) {
        Range::Whole => None,
        Range::Part { from, length } => Some((from, length)),
        Range::Beyond => return Ok(beyond(&file)),
    };
    let (from, length) = part.unwrap_or((0, file.bytes));
    let content = app.kernel.open_file(&file, from).await?;
    let body = ReaderStream::with_capacity(content.take(length), CHUNK);
    let mut response = Body::from_stream(body).into_response();
    describe(&mut response, &file, length);
    if part.is_some() {
        let last = from.saturating_add(length).saturating_sub(1);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        if let Ok(value) = HeaderValue::from_str(&format!("bytes {from}-{last}/{}", file.bytes)) {
            response.headers_mut().insert(header::CONTENT_RANGE, value);
        }
    }
    Ok(response)
}

fn describe(response: &mut Response, file: &StoredFile, length: u64) {
    let headers = response.headers_mut();
    let kind = HeaderValue::from_str(&file.mime_type);
    let kind = kind.unwrap_or_else(|_| HeaderValue::from_static(mime::BINARY));
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
}

/// Says that a file ends before the part that was asked for.
fn beyond(file: &StoredFile) -> Response {
    let words = format!(
        "Range: file `{}` has {} bytes, and none of them is asked for",
        file.id, file.bytes
    );
    let problem = Problem::new(ErrorCode::RangeNotSatisfiable, words);
    let mut response = Failure(problem).into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{}", file.bytes)) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response
}

/// How a page says what follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Style {
    /// By a cursor.
    Cursor,
    /// By the ids at its edges, as clients of the older version read it.
    Edges,
}

impl Style {
    fn of(headers: &HeaderMap) -> Self {
        let version = headers.get("anthropic-version");
        if version.is_some_and(|version| version == "2023-06-01") {
            Self::Edges
        } else {
            Self::Cursor
        }
    }
}

/// Makes a page of files.
fn view(items: &[StoredFile], more: bool, next: Option<String>, style: Style) -> Answer {
    let data = items.iter().map(|file| answer::text(&shown(file)));
    let data = data.collect::<Result<Vec<_>, _>>()?;
    if style == Style::Cursor {
        return Ok(answer::json(answer::page(&data, &[("next_page", next)])));
    }
    let id = |file: &StoredFile| file.id.to_string();
    let edges = [
        ("first_id", items.first().map(id)),
        ("last_id", items.last().map(id)),
    ];
    let page = answer::page(&data, &edges);
    let open = page.strip_suffix('}').unwrap_or(&page);
    Ok(answer::json(format!(r#"{open},"has_more":{more}}}"#)))
}

impl App {
    /// Lists files of which the ids are known; unknown ones are left out.
    async fn by_ids(
        &self,
        mut query: Query,
        scope: Option<Option<SessionId>>,
        ids: Vec<String>,
        style: Style,
    ) -> Answer {
        for name in ["limit", "page", "after_id", "before_id"] {
            if query.text(name)?.is_some() {
                let words = format!("{name}: cannot be given together with `ids`");
                return Err(Problem::invalid(words).into());
            }
        }
        query.finish()?;
        let mut ids = ids;
        ids.sort_unstable();
        ids.dedup();
        if ids.len() > limits::FILE_IDS {
            return Err(Problem::invalid(format!(
                "ids: must have at most {} different values, not {}",
                limits::FILE_IDS,
                ids.len()
            ))
            .into());
        }
        if scope == Some(None) {
            return view(&[], false, None, style);
        }
        let ids: Vec<_> = ids.iter().filter_map(|id| FileId::parse(id)).collect();
        let query = FileQuery {
            scope: scope.flatten(),
            limit: ids.len(),
            ids: Some(ids),
            now: self.kernel.now(),
            order: Way::Backwards,
            after: None,
        };
        view(&self.kernel.files(&query).await?.items, false, None, style)
    }

    /// Reads the places that older clients page by.
    async fn edge(
        &self,
        edge: (Option<String>, Option<String>),
    ) -> Result<Option<(Way, (outlast_protocol::Micros, FileId))>, Problem> {
        let (name, id, order) = match edge {
            (None, None) => return Ok(None),
            (Some(id), None) => ("after_id", id, Way::Backwards),
            (None, Some(id)) => ("before_id", id, Way::Forwards),
            (Some(_), Some(_)) => {
                return Err(Problem::invalid(
                    "before_id: cannot be given with `after_id`",
                ));
            }
        };
        let unknown = || Problem::invalid(format!("{name}: no file of this id"));
        let id = FileId::parse(&id).ok_or_else(unknown)?;
        let file = self.kernel.file(id).await.map_err(|fault| {
            if fault.code.status() == 404 {
                unknown()
            } else {
                fault
            }
        })?;
        Ok(Some((order, (file.created_at, id))))
    }
}
