//! The log of this test process, kept to be searched.

use std::{
    io,
    sync::{Mutex, Once, PoisonError},
};

use outlast_server::{
    config::{Format, Log},
    telemetry,
};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Keep;

impl io::Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs the log, with everything that can be logged, and the metrics.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let log = Log {
            format: Format::Json,
            level: "trace".to_owned(),
        };
        telemetry::install_log(&log, false, || Keep).unwrap();
        telemetry::install_metrics().unwrap();
    });
}

/// Returns everything that was logged.
pub(crate) fn lines() -> String {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&lines).into_owned()
}
