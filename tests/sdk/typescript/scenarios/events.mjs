// Sending and listing events.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { asking, call, ids, message, of, one, script, text, toolset, types } from '../world.mjs';

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export default {
  async 'events.send'(w) {
    const talk = await w.talk();
    const accepted = await talk.send(message('one'), message('two'));
    assert.deepEqual(types(accepted), ['user.message', 'user.message']);
    assert.equal(new Set(ids(accepted)).size, 2);
    assert.deepEqual(accepted.map(text), ['one', 'two']);
    await talk.idle();
    talk.close();
    const listed = of(await w.history(talk.id), 'user.message');
    assert.deepEqual(ids(listed), ids(accepted));
    assert.ok(listed.every((event) => event.processed_at));
  },

  async 'events.send.all_or_nothing'(w) {
    const session = await w.session();
    const confirmation = { type: 'user.tool_confirmation', tool_use_id: 'sevt_01nothing', result: 'allow' };
    const events = [message('kept?'), confirmation];
    const error = await refused(w.api.sessions.events.send(session.id, { events }), 'BadRequestError');
    assert.match(error.message, /events\.1/);
    assert.deepEqual(await w.history(session.id), []);
    assert.equal((await w.api.sessions.retrieve(session.id)).status, 'idle');
  },

  async 'events.send.content'(w) {
    const talk = await w.talk();
    const content = [
      { type: 'text', text: 'Look: \u00e9\u4e2d\u{1f600}' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
      {
        type: 'document',
        title: 'notes',
        context: 'old',
        source: { type: 'text', media_type: 'text/plain', data: 'a\nb' },
      },
      { type: 'text', text: script([{ text: 'Seen: {{user}}' }]) },
    ];
    const [accepted] = await talk.send({ type: 'user.message', content });
    const heard = await talk.idle();
    talk.close();
    assert.deepEqual(types(accepted.content), ['text', 'image', 'document', 'text']);
    assert.equal(accepted.content[0].text, 'Look: \u00e9\u4e2d\u{1f600}');
    assert.equal(accepted.content[1].source.data, PIXEL);
    assert.deepEqual([accepted.content[2].title, accepted.content[2].source.data], ['notes', 'a\nb']);
    assert.match(text(one(heard, 'agent.message')), /^Seen: /);
  },

  async 'events.list'(w) {
    const talk = await w.talk([toolset()]);
    await talk.turn([{ calls: [call('bash', { command: 'echo hi' })] }, { text: 'Done.' }]);
    await talk.turn([{ text: 'Again.' }]);
    talk.close();
    const listed = await w.history(talk.id);
    // The stream shows an input twice: when it arrived and when it was taken in.
    assert.deepEqual(new Set(ids(talk.heard)), new Set(ids(listed)));
    assert.equal(new Set(ids(listed)).size, listed.length);
    const times = listed.map((event) => event.processed_at);
    assert.ok(times.every(Boolean));
    assert.deepEqual(times, times.toSorted());
    assert.deepEqual(await w.history(talk.id, { order: 'desc' }), listed.toReversed());
    assert.deepEqual(await w.history(talk.id, { limit: 3 }), listed, 'page by page');
    assert.deepEqual(await w.history(talk.id, { limit: 3, order: 'desc' }), listed.toReversed());
    const kinds = await w.history(talk.id, { types: ['agent.message', 'user.message'] });
    assert.deepEqual(types(kinds), ['user.message', 'agent.message', 'user.message', 'agent.message']);
    const middle = times[Math.floor(times.length / 2)];
    const after = await w.history(talk.id, { 'created_at[gt]': middle });
    const before = await w.history(talk.id, { 'created_at[lte]': middle });
    assert.ok(after.length && before.length);
    assert.deepEqual([...before, ...after], listed);
  },

  async 'events.list.queued'(w) {
    const talk = await w.talk();
    const first = await talk.say([{ pause_ms: 60_000, text: 'never' }]);
    await talk.until('span.model_request_start');
    const second = await talk.say([{ text: 'Second.' }]);
    const listed = await w.history(talk.id);
    const waiting = listed.filter((event) => event.processed_at === null);
    assert.equal(second.processed_at, null);
    assert.deepEqual(ids(waiting), [second.id]);
    assert.equal(listed.at(-1).id, second.id);
    const timed = await w.history(talk.id, { 'created_at[gt]': '2000-01-01T00:00:00Z' });
    assert.deepEqual(timed, listed.slice(0, -1), 'what has no time fits no filter by time');
    assert.ok(listed.some((event) => event.id === first.id && event.processed_at));
    await talk.send({ type: 'user.interrupt' });
    assert.equal(text((await talk.until('agent.message')).at(-1)), 'Second.');
    await talk.idle();
    talk.close();
  },

  async 'events.send.invalid_states'(w) {
    const talk = await w.talk([asking()]);
    assert.ok(await talk.send({ type: 'user.interrupt' }), 'a no-op when nothing runs');
    const system = { type: 'system.message', content: [{ type: 'text', text: 'alone' }] };
    await refused(talk.send(system), 'BadRequestError');
    const result = { type: 'user.custom_tool_result', custom_tool_use_id: 'sevt_01nothing' };
    await refused(talk.send(result), 'BadRequestError');
    await refused(talk.send({ type: 'user.message', content: [{ type: 'redacted' }] }), 'BadRequestError');
    const idle = await talk.turn([{ calls: [call('bash', { command: 'true' })] }]);
    assert.equal(idle.at(-1).stop_reason.type, 'requires_action');
    assert.ok((await refused(talk.send(message('now?')), 'BadRequestError')).requestID);
    talk.close();
  },
};
