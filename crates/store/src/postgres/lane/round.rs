//! One round: heads, judgement, what has to be looked up, and off it goes.

use std::collections::HashSet;

use outlast_protocol::id::SessionId;

use super::{
    Lane,
    found::Wanted,
    plan::{Group, Judged, Plan},
};
use crate::{
    AppendError,
    heads::Head,
    postgres::{
        connect::Connection,
        fault::Fault,
        load::{self, LOCKED},
    },
};

/// Sessions that one flight carries at most.
const SESSIONS: usize = 256;

/// Heads that moved before the row is held while it is decided.
const TRIES: u32 = 4;

impl Lane {
    /// Decides on what waits, and sends it.
    ///
    /// # Errors
    ///
    /// If something could not be read: what was not sent waits again.
    pub(super) async fn round(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.settle(connection).await?;
        let groups = self.pick();
        if let [group] = groups.as_slice()
            && group.tries >= TRIES
        {
            return self.insist(connection, groups).await;
        }
        let mut left = groups;
        match self.plans(connection, &mut left).await {
            Ok(plans) => {
                self.put_back(left);
                self.send(connection, plans).await;
                self.tries = 0;
                Ok(())
            }
            Err(fault @ (Fault::Sql(_) | Fault::Silent | Fault::Away(_))) => {
                self.put_back(left);
                Err(fault)
            }
            Err(fault) => {
                self.single_out(left, &fault);
                Ok(())
            }
        }
    }

    /// What was read for some groups cannot be understood: each goes alone, and the one that it is
    /// about is told.
    fn single_out(&mut self, mut groups: Vec<Group>, fault: &Fault) {
        if groups.len() == 1 {
            let jobs = groups.pop().map(|group| group.jobs);
            return super::fail(jobs.unwrap_or_default(), &fault.into());
        }
        groups.iter_mut().for_each(|group| group.alone = true);
        self.put_back(groups);
    }

    fn put_back(&mut self, groups: Vec<Group>) {
        for group in groups.into_iter().rev() {
            self.groups.push_front(group);
        }
    }

    /// Takes the groups of one flight: each session and each receipt once, and by itself whatever
    /// failed in company or too often.
    fn pick(&mut self) -> Vec<Group> {
        let (mut picked, mut left) = (Vec::new(), Vec::new());
        let (mut sessions, mut prints) = (HashSet::new(), HashSet::new());
        let mut full = false;
        while let Some(group) = self.groups.pop_front() {
            let single = group.alone || group.tries >= TRIES;
            let own: Vec<[u8; 32]> = prints_of(&group).collect();
            let free =
                sessions.insert(group.session) && !own.iter().any(|one| prints.contains(one));
            prints.extend(own);
            if full || !free || (single && !picked.is_empty()) {
                left.push(group);
                continue;
            }
            picked.push(group);
            full = single || picked.len() >= SESSIONS;
        }
        self.groups = left.into();
        picked
    }

    /// Makes the plans of groups; what is left there was not decided.
    async fn plans(
        &mut self,
        connection: &Connection,
        groups: &mut Vec<Group>,
    ) -> Result<Vec<Plan>, Fault> {
        let unknown: Vec<SessionId> = groups
            .iter()
            .map(|group| group.session)
            .filter(|session| self.room.heads.get(*session).is_none())
            .collect();
        let mut read = if unknown.is_empty() {
            Vec::new()
        } else {
            load::heads(connection, &unknown, &self.room.bodies).await?
        };
        let mut judged = Vec::with_capacity(groups.len());
        for group in groups.drain(..) {
            let kept = self.room.heads.get(group.session);
            // One that was dropped since is read in the next round.
            let fresh = unknown.contains(&group.session);
            let place = read
                .iter()
                .position(|(session, _)| *session == group.session);
            let head = match place.map(|at| read.swap_remove(at).1) {
                Some(Ok(head)) => Some(head),
                Some(Err(fault)) => {
                    super::fail(group.jobs, &fault.into());
                    continue;
                }
                None => kept.filter(|_| !fresh),
            };
            judged.push(Judged::judge(group, head, fresh, &self.room.seams));
        }
        self.look_up(connection, judged, groups).await
    }

    /// Looks up what the judged groups need, and makes their plans.
    async fn look_up(
        &mut self,
        connection: &Connection,
        judged: Vec<Judged>,
        left: &mut Vec<Group>,
    ) -> Result<Vec<Plan>, Fault> {
        let mut wanted = Wanted::default();
        judged.iter().for_each(|one| one.want(&mut wanted));
        let found = match wanted.find(connection, self.room.seams.clock.now()).await {
            Ok(found) => found,
            Err(fault) => {
                left.extend(judged.into_iter().map(|one| one.group));
                return Err(fault);
            }
        };
        let mut plans = Vec::with_capacity(judged.len());
        for one in judged {
            match one.plan(&found, &self.room.seams) {
                Ok(plan) => plans.extend(self.stow(plan).await),
                Err((group, at, error)) => left.extend(without(group, at, error)),
            }
        }
        Ok(plans)
    }

    /// Puts bodies that only the decision made into blobs; one that cannot be stored fails its group
    /// before anything is written.
    async fn stow(&self, mut plan: Plan) -> Option<Plan> {
        for late in std::mem::take(&mut plan.late) {
            let put = self
                .room
                .bodies
                .put(plan.group.session, &late.digest, late.body);
            if let Err(error) = put.await {
                super::fail(plan.group.jobs, &Fault::from(error).into());
                return None;
            }
        }
        Some(plan)
    }

    /// Decides on a group while its row is held: nobody can be faster.
    async fn insist(&mut self, connection: &Connection, groups: Vec<Group>) -> Result<(), Fault> {
        let mut left = groups;
        let planned = self.hold(connection, &mut left).await;
        match planned {
            Ok(plans) => {
                self.put_back(left);
                self.send_held(connection, plans).await;
                self.tries = 0;
                Ok(())
            }
            Err(fault) => {
                drop(connection.batch("ROLLBACK").await);
                match fault {
                    Fault::Sql(_) | Fault::Silent | Fault::Crowded | Fault::Away(_) => {
                        self.put_back(left);
                        Err(fault)
                    }
                    Fault::Blob(_) | Fault::Unreadable(_) | Fault::Bug(_) => {
                        self.single_out(left, &fault);
                        Ok(())
                    }
                }
            }
        }
    }

    async fn hold(
        &mut self,
        connection: &Connection,
        left: &mut Vec<Group>,
    ) -> Result<Vec<Plan>, Fault> {
        let Some(session) = left.first().map(|group| group.session) else {
            return Ok(Vec::new());
        };
        connection.batch("BEGIN").await?;
        // What fails up to the judgement leaves the group where it is.
        let row = connection.row(LOCKED, &[&session.to_string()]).await?;
        let head: Option<Head> = match row {
            Some(row) => Some(load::head(connection, &row, &self.room.bodies).await?),
            None => None,
        };
        let judge = |group| Judged::judge(group, head.clone(), true, &self.room.seams);
        let judged = left.drain(..).map(judge).collect();
        self.look_up(connection, judged, left).await
    }
}

/// Returns the requests whose receipts a group would write.
fn prints_of(group: &Group) -> impl Iterator<Item = [u8; 32]> {
    let receipts = group
        .jobs
        .iter()
        .filter_map(|job| job.append.receipt.as_ref());
    receipts.map(|receipt| receipt.fingerprint)
}

/// Answers one append of a group that cannot be, and gives back the others.
fn without(mut group: Group, at: usize, error: AppendError) -> Option<Group> {
    if at < group.jobs.len() {
        let job = group.jobs.remove(at);
        crate::metric_definitions::refused(&error);
        job.answer(Err(error));
    }
    (!group.jobs.is_empty()).then_some(group)
}
