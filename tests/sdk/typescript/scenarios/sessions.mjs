// Sessions: making, reading, changing, ending.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { ids, message, of, one, text, toolset } from '../world.mjs';

const FROM_THE_START = { headers: { 'Last-Event-ID': '0' } };

export default {
  async 'sessions.create'(w) {
    const agent = await w.agent({ system: 'v1' });
    await w.api.agents.update(agent.id, { version: 1, system: 'v2' });
    const environment_id = await w.environment();
    const newest = await w.api.sessions.create({ agent: agent.id, environment_id, title: 't', metadata: { a: '1' } });
    assert.deepEqual([newest.type, newest.status, newest.title], ['session', 'idle', 't']);
    assert.deepEqual([newest.metadata, newest.environment_id], [{ a: '1' }, environment_id]);
    assert.deepEqual([newest.agent.id, newest.agent.version, newest.agent.system], [agent.id, 2, 'v2']);
    assert.deepEqual([newest.resources, newest.vault_ids, newest.outcome_evaluations], [[], [], []]);
    assert.ok(newest.usage && newest.stats);
    const pinned = await w.api.sessions.create({ agent: { type: 'agent', id: agent.id, version: 1 }, environment_id });
    assert.deepEqual([pinned.agent.version, pinned.agent.system, pinned.title], [1, 'v1', null]);
  },

  async 'sessions.create.overrides'(w) {
    const agent = await w.agent({ system: 'base', tools: [toolset()] });
    const environment_id = await w.environment();
    const base = { type: 'agent_with_overrides', id: agent.id };
    const session = await w.api.sessions.create({ agent: { ...base, system: 'mine', tools: [] }, environment_id });
    assert.deepEqual([session.agent.system, session.agent.tools], ['mine', []]);
    assert.deepEqual([session.agent.id, session.agent.version], [agent.id, 1], 'they name the base');
    const work = w.api.sessions.create({ agent: { ...base, model: null }, environment_id });
    assert.equal((await refused(work, 'BadRequestError')).errorCode, 'agent_model_required');
  },

  async 'sessions.create.initial_events'(w) {
    const session = await w.session([], { initial_events: [message([{ text: 'Hello.' }]), message('more')] });
    assert.equal(session.status, 'running');
    const talk = await w.follow(session.id, {}, FROM_THE_START);
    await talk.idle();
    talk.close();
    const listed = await w.history(session.id);
    assert.equal(text(of(listed, 'user.message')[1]), 'more');
    assert.ok(of(listed, 'agent.message').map(text).includes('Hello.'));
    const work = w.session([], { initial_events: [{ type: 'user.interrupt' }] });
    assert.match((await refused(work, 'BadRequestError')).message, /initial_events\.0/);
  },

  async 'sessions.retrieve'(w) {
    const talk = await w.talk();
    const before = await w.api.sessions.retrieve(talk.id);
    await talk.turn([{ text: 'Yes.', usage: { input_tokens: 11, output_tokens: 7 } }]);
    talk.close();
    const after = await w.api.sessions.retrieve(talk.id);
    assert.deepEqual([before.status, after.status], ['idle', 'idle']);
    assert.deepEqual([after.usage.input_tokens, after.usage.output_tokens], [11, 7]);
    assert.ok(after.stats.active_seconds > 0 && after.stats.duration_seconds > 0);
    assert.ok(after.updated_at >= before.updated_at && after.archived_at === null);
  },

  async 'sessions.update'(w) {
    const talk = await w.talk();
    const change = { title: 'new', metadata: { a: '1' }, agent: { tools: [toolset()] } };
    const changed = await w.api.sessions.update(talk.id, change);
    const said = (await talk.until('session.updated')).at(-1);
    await w.api.sessions.update(talk.id, { title: 'new' });
    const cleared = await w.api.sessions.update(talk.id, { metadata: { a: null }, title: null });
    const again = (await talk.until('session.updated')).at(-1);
    talk.close();
    assert.deepEqual([changed.title, changed.metadata], ['new', { a: '1' }]);
    assert.equal(changed.agent.tools[0].type, 'agent_toolset_20260401');
    assert.deepEqual([said.title, said.metadata], ['new', { a: '1' }]);
    assert.equal(said.agent.tools[0].type, 'agent_toolset_20260401');
    assert.deepEqual([cleared.title, cleared.metadata], [null, {}]);
    assert.ok(!('agent' in again), 'only what changed');
    const agent = await w.api.agents.retrieve(changed.agent.id);
    assert.deepEqual([agent.version, agent.tools], [1, []], 'the agent itself is as it was');
  },

  async 'sessions.list'(w) {
    const [agent, other] = [await w.agent(), await w.agent()];
    const environment_id = await w.environment();
    const make = (of) => w.api.sessions.create({ agent: of, environment_id });
    const made = [await make(agent.id), await make(agent.id), await make(agent.id)];
    await w.api.agents.update(agent.id, { version: 1, system: '2' });
    made.push(await make(agent.id));
    await make(other.id);
    await w.api.sessions.archive(made[1].id);
    const list = async (query = {}) =>
      ids(await (await w.api.sessions.list({ agent_id: agent.id, ...query })).all());
    const order = ids(made);
    const live = [order[0], order[2], order[3]];
    assert.deepEqual(await list(), live.toReversed(), 'newest first, archived ones left out');
    assert.deepEqual(await list({ order: 'asc' }), live);
    assert.deepEqual(await list({ order: 'asc', include_archived: true }), order);
    assert.deepEqual(await list({ agent_version: 2 }), [order[3]]);
    assert.deepEqual(await list({ statuses: ['running'] }), []);
    const both = { statuses: ['idle', 'terminated'], include_archived: true };
    assert.deepEqual(await list(both), order.toReversed());
    assert.deepEqual(await list({ 'created_at[gt]': made[2].created_at }), [order[3]]);
    assert.deepEqual(await list({ 'created_at[lte]': made[0].created_at }), [order[0]]);
    assert.deepEqual(await list({ limit: 1, order: 'asc' }), live, 'page by page');
    assert.deepEqual(await list({ deployment_id: 'depl_01nothing' }), []);
  },

  async 'sessions.archive'(w) {
    const talk = await w.talk();
    const gone = await w.api.sessions.archive(talk.id);
    one(await talk.until('session.status_terminated'), 'session.status_terminated');
    talk.close();
    assert.equal(gone.status, 'terminated');
    assert.ok(gone.archived_at);
    await refused(talk.send(message('late')), 'BadRequestError');
    assert.ok(of(await w.history(talk.id), 'session.status_terminated').length, 'history stays');
  },

  async 'sessions.archive.running'(w) {
    const talk = await w.talk();
    await talk.say([{ pause_ms: 60_000, text: 'never' }]);
    await talk.until('span.model_request_start');
    await refused(w.api.sessions.archive(talk.id), 'BadRequestError');
    await refused(w.api.sessions.delete(talk.id), 'BadRequestError');
    await talk.send({ type: 'user.interrupt' });
    await talk.idle();
    assert.equal((await w.api.sessions.archive(talk.id)).status, 'terminated');
    talk.close();
  },

  async 'sessions.delete'(w) {
    const talk = await w.talk();
    await talk.turn([{ text: 'Short life.' }]);
    const answer = await w.api.sessions.delete(talk.id);
    await talk.until('session.deleted');
    assert.equal(await talk.events.next(), undefined, 'the stream ends');
    assert.deepEqual(answer, { id: talk.id, type: 'session_deleted' });
    await refused(w.api.sessions.retrieve(talk.id), 'NotFoundError');
    await refused(w.api.sessions.events.list(talk.id), 'NotFoundError');
    await refused(w.api.sessions.events.stream(talk.id), 'NotFoundError');
    await refused(w.api.sessions.delete(talk.id), 'NotFoundError');
  },
};
