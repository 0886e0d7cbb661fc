use proptest::prelude::*;

use super::*;

const WIDE: Bounds = Bounds {
    idle: Duration::from_secs(60),
    bytes: 1 << 20,
};

/// Decodes chunks; an error becomes its words.
fn decode(chunks: Vec<Bytes>, bounds: Bounds) -> Vec<Result<String, String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let body = stream::iter(chunks.into_iter().map(Ok));
        events(body, bounds)
            .map(|event| match event {
                Ok(event) => Ok(event.raw().to_owned()),
                Err(error) => Err(error.to_string()),
            })
            .collect()
            .await
    })
}

fn ping(text: &str) -> String {
    serde_json::json!({"type": "ping", "text": text}).to_string()
}

const STOP: &str = r#"{"type":"message_stop"}"#;

proptest! {
    /// However the bytes are cut, with whatever line ends and comments, the events are the same.
    #[test]
    fn chunk_borders_do_not_matter(
        texts in prop::collection::vec("\\PC{0,12}|[\\r\\n\u{1F600}é:]{0,6}", 0..6),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        noise in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
    ) {
        let mut expected: Vec<String> = texts.iter().map(|text| ping(text)).collect();
        expected.push(STOP.to_owned());
        let mut wire = String::new();
        for data in &expected {
            if noise {
                wire.push_str(&format!(": keep-alive{end}{end}id: 7{end}unknown: x{end}"));
            }
            wire.push_str(&format!("event: whatever{end}data: {data}{end}{end}"));
        }
        let bytes = Bytes::from(wire);
        let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        borders.extend([0, bytes.len()]);
        borders.sort_unstable();
        let chunks = borders.windows(2).map(|pair| bytes.slice(pair[0]..pair[1])).collect();
        let decoded: Result<Vec<_>, _> = decode(chunks, WIDE).into_iter().collect();
        prop_assert_eq!(decoded.unwrap(), expected);
    }

    /// Whatever arrives, the stream ends, and at most its last item is an error.
    #[test]
    fn noise_ends_in_one_error(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
    ) {
        let decoded = decode(chunks.into_iter().map(Bytes::from).collect(), WIDE);
        let errors = decoded.iter().filter(|item| item.is_err()).count();
        prop_assert_eq!(errors, 1);
        prop_assert!(decoded.last().unwrap().is_err());
    }
}

#[test]
fn every_single_border_of_a_multibyte_stream_is_right() {
    let wire = format!(
        "event: ping\ndata: {}\n\ndata: {STOP}\n\n",
        ping("zwölf 😀 漢字")
    );
    let bytes = Bytes::from(wire);
    let whole = decode(vec![bytes.clone()], WIDE);
    assert_eq!(whole.len(), 2);
    for border in 0..=bytes.len() {
        let parts = vec![bytes.slice(..border), bytes.slice(border..)];
        assert_eq!(decode(parts, WIDE), whole, "{border}");
    }
    let single = (0..bytes.len()).map(|at| bytes.slice(at..=at)).collect();
    assert_eq!(decode(single, WIDE), whole);
}

#[test]
fn filler_is_passed_over_and_nothing_follows_the_end() {
    let wire = format!("data:\n\nevent: x\n\ndata: [DONE]\n\ndata: {STOP}\n\ndata: {STOP}\n\n");
    assert_eq!(decode(vec![wire.into()], WIDE), [Ok(STOP.to_owned())]);
}

#[test]
fn an_event_named_error_is_one_whatever_its_data_says() {
    for data in [
        r#"{"error":{"message":"busy"}}"#,
        r#"{"type":"x","error":"busy"}"#,
        "busy",
    ] {
        let decoded = decode(vec![format!("event: error\ndata: {data}\n\n").into()], WIDE);
        assert_eq!(decoded, [Err("busy".to_owned())]);
    }
}

#[test]
fn an_early_end_is_an_error() {
    let data = ping("x");
    for wire in [
        String::new(),
        format!("data: {data}\n\n"),
        format!("data: {STOP}"),
    ] {
        let decoded = decode(vec![wire.into()], WIDE);
        let last = decoded.last().unwrap().clone().unwrap_err();
        assert_eq!(last, "the model's answer ended before message_stop");
    }
}

#[test]
fn an_endless_answer_is_cut_off() {
    let narrow = Bounds { bytes: 100, ..WIDE };
    let decoded = decode(vec![Bytes::from(vec![b'x'; 101])], narrow);
    assert_eq!(
        decoded,
        [Err(
            "the model's answer broke off: body error: the answer is longer than 100 bytes"
                .to_owned()
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn silence_ends_in_an_error() {
    let body = stream::pending::<Result<Bytes, Broken>>();
    let mut events = std::pin::pin!(events(body, WIDE));
    let error = events.next().await.unwrap().unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().contains("silent for 60 s"),
        "{error}"
    );
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_left_open_does_not_hold_up_the_end() {
    let body =
        stream::iter([Ok(Bytes::from(format!("data: {STOP}\n\n")))]).chain(stream::pending());
    let decoded: Vec<_> = events(body, WIDE).collect().await;
    assert_eq!(decoded.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_body_is_read_to_its_end_so_that_the_connection_can_be_kept() {
    let (ended, end) = tokio::sync::oneshot::channel();
    let body = stream::iter([Ok(Bytes::from(format!("data: {STOP}\n\n")))]).chain(stream::once(
        async move {
            ended.send(()).unwrap();
            Ok(Bytes::new())
        },
    ));
    assert_eq!(events(body, WIDE).count().await, 1);
    end.await.unwrap();
}
