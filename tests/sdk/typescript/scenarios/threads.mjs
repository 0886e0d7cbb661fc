// The primary thread, through the thread endpoints.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { message, one, text } from '../world.mjs';

const primary = async (w, id) => (await w.api.sessions.threads.list(id)).data[0];

export default {
  async 'threads.list'(w) {
    const session = await w.session();
    const [thread, ...more] = await (await w.api.sessions.threads.list(session.id)).all();
    assert.deepEqual(more, []);
    assert.deepEqual([thread.type, thread.session_id, thread.status], ['session_thread', session.id, 'idle']);
    assert.deepEqual([thread.parent_thread_id, thread.archived_at], [null, null]);
    assert.deepEqual([thread.agent.type, thread.agent.id], ['agent', session.agent.id]);
    assert.equal((await w.api.sessions.threads.list(session.id, { limit: 1 })).nextPage, null);
  },

  async 'threads.list.statuses'(w) {
    const session = await w.session();
    const running = await w.api.sessions.threads.list(session.id, { statuses: ['running'] });
    const idle = await w.api.sessions.threads.list(session.id, { statuses: ['idle', 'running'] });
    assert.deepEqual([running.data.length, idle.data.length], [0, 1]);
  },

  async 'threads.retrieve'(w) {
    const talk = await w.talk();
    const heard = await talk.turn([{ text: 'Hi.', usage: { output_tokens: 5 } }]);
    talk.close();
    const id = one(heard, 'session.thread_status_running').session_thread_id;
    const thread = await w.api.sessions.threads.retrieve(id, { session_id: talk.id });
    assert.deepEqual([thread.id, thread.status, thread.usage.output_tokens], [id, 'idle', 5]);
    assert.ok(thread.stats.active_seconds > 0);
    const nothing = w.api.sessions.threads.retrieve('sthr_01nothing', { session_id: talk.id });
    await refused(nothing, 'NotFoundError');
  },

  /** The primary thread ends with its session; see the registry of divergences. */
  async 'threads.archive'(w) {
    const session = await w.session();
    const thread = await primary(w, session.id);
    const work = w.api.sessions.threads.archive(thread.id, { session_id: session.id });
    assert.ok((await refused(work, 'BadRequestError')).message.includes(session.id));
  },

  async 'threads.events.list'(w) {
    const talk = await w.talk();
    await talk.turn([{ text: 'Hi.' }]);
    talk.close();
    const thread = await primary(w, talk.id);
    const page = await w.api.sessions.threads.events.list(thread.id, { session_id: talk.id, limit: 4 });
    assert.deepEqual(await page.all(), await w.history(talk.id));
  },

  async 'threads.events.stream'(w) {
    const session = await w.session();
    const thread = await primary(w, session.id);
    const query = { session_id: session.id, event_deltas: ['agent.message'] };
    const stream = await w.api.sessions.threads.events.stream(thread.id, query);
    await w.api.sessions.events.send(session.id, { events: [message([{ text: 'On a thread.' }])] });
    const heard = [];
    while (heard.at(-1)?.type !== 'session.status_idle') heard.push(await stream.next());
    stream.close();
    assert.equal(text(one(heard, 'agent.message')), 'On a thread.');
    assert.equal(one(heard, 'event_start').event.id, one(heard, 'agent.message').id);
  },
};
