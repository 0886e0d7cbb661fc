//! What of a session runs out, and when.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    deadlines::{Deadline, NextDeadline},
};

use crate::{State, Status, Waker};

impl State {
    /// Returns what runs out next as things stand; nothing does of a session that is over.
    pub fn next_deadline(&self) -> Option<NextDeadline> {
        if self.deleted || self.archived_at.is_some() || self.status == Status::Terminated {
            return None;
        }
        let known = self.deadlines;
        let all = [
            (Deadline::Total, Some(self.created_at), known.total_seconds),
            (Deadline::Answer, self.asked_since(), known.answer_seconds),
            (Deadline::Idle, self.rests_since(), known.idle_seconds),
        ];
        let moments = all.into_iter().filter_map(|(deadline, since, seconds)| {
            let at = since?.after(Duration::from_secs(seconds?.into()));
            Some(NextDeadline { deadline, at })
        });
        // Of those that run out together the one that ends the most.
        moments.min_by_key(|next| (next.at, next.deadline))
    }

    /// Returns since when a client's answer is waited for, on whichever thread the longest.
    fn asked_since(&self) -> Option<Micros> {
        let blocked = self.threads.iter().filter(|thread| thread.is_blocked());
        blocked.filter_map(|thread| thread.asked_since).min()
    }

    /// Returns since when nothing but a client's next input is waited for.
    fn rests_since(&self) -> Option<Micros> {
        let rests = self
            .threads
            .iter()
            .all(|thread| thread.waker() == Waker::Input);
        self.idle_since.filter(|_| rests)
    }
}
