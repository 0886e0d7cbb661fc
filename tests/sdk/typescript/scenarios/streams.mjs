// Streams: order, previews, reconnecting.

import assert from 'node:assert/strict';
import { accumulateManagedAgentsEvent } from '@anthropic-ai/sdk/lib/sessions/accumulate';
import { refused } from '../client.mjs';
import { call, ids, message, of, one, text, toolset, types } from '../world.mjs';

const NORMAL = [
  'user.message',
  'session.status_running',
  'session.thread_status_running',
  'span.model_request_start',
  'agent.message',
  'span.model_request_end',
  'session.thread_status_idle',
  'session.usage',
  'session.status_idle',
];

export default {
  async 'stream.normal_turn'(w) {
    const talk = await w.talk();
    const heard = await talk.turn([{ text: 'Hello.', usage: { input_tokens: 3, output_tokens: 2 } }]);
    talk.close();
    const settled = heard.filter((event) => event.processed_at);
    assert.deepEqual(types(settled), NORMAL);
    const end = one(heard, 'span.model_request_end');
    assert.equal(end.model_request_start_id, one(heard, 'span.model_request_start').id);
    assert.ok(!end.is_error);
    assert.deepEqual([end.model_usage.input_tokens, end.model_usage.output_tokens], [3, 2]);
    assert.equal(text(one(heard, 'agent.message')), 'Hello.');
    const idle = heard.at(-1);
    assert.deepEqual([idle.stop_reason.type, idle.stop_details], ['end_turn', null]);
    assert.equal(one(heard, 'session.usage').usage.output_tokens, 2);
    const thread = one(heard, 'session.thread_status_running');
    assert.match(thread.session_thread_id, /^sthr_/);
    assert.equal(thread.agent_name, 'scenario');
    assert.deepEqual(ids(await w.history(talk.id)), ids(settled));
  },

  async 'stream.previews'(w) {
    const steps = [
      {
        thinking: 'Hm.',
        content: [{ text: 'First words. ' }, { filler: 60 }],
        pace: { tokens: 4, ms: 5 },
      },
    ];
    const talk = await w.talk([], { event_deltas: ['agent.message', 'agent.thinking'] });
    const heard = await talk.turn(steps);
    talk.close();
    const starts = of(heard, 'event_start').map((event) => [event.event.id, event.event.type]);
    const [final, thinking] = [one(heard, 'agent.message'), one(heard, 'agent.thinking')];
    assert.deepEqual(starts, [[thinking.id, 'agent.thinking'], [final.id, 'agent.message']]);
    const deltas = of(heard, 'event_delta');
    assert.ok(deltas.length > 3 && deltas.every((delta) => delta.event_id === final.id));
    let snapshot;
    for (const event of heard) {
      if (event.type === 'agent.message') {
        const soFar = text(snapshot);
        assert.ok(soFar && text(event).startsWith(soFar), 'deltas are a prefix');
      }
      snapshot = accumulateManagedAgentsEvent(snapshot, event);
    }
    assert.deepEqual(snapshot, final);
    const order = types(heard);
    assert.ok(order.indexOf('span.model_request_start') < order.indexOf('event_start'));
    assert.ok(order.indexOf('agent.message') > order.lastIndexOf('event_delta'));
    assert.equal(of(await w.history(talk.id), 'event_start').length, 0, 'never kept');
  },

  async 'stream.previews.refused'(w) {
    const { id } = await w.session();
    const bad = w.api.sessions.events.stream(id, { event_deltas: ['agent.tool_use'] });
    assert.match((await refused(bad, 'BadRequestError')).message, /event_deltas/);
    const many = w.api.sessions.events.stream(id, { event_deltas: Array(101).fill('agent.message') });
    assert.match((await refused(many, 'BadRequestError')).message, /100/);
  },

  async 'stream.previews.interrupted'(w) {
    const talk = await w.talk([], { event_deltas: ['agent.message'] });
    await talk.say([{ content: [{ filler: 5000 }], pace: { tokens: 1, ms: 50 } }]);
    await talk.until('event_delta');
    await talk.send({ type: 'user.interrupt' });
    const heard = await talk.idle();
    talk.close();
    assert.equal(of(heard, 'agent.message').length, 0, 'partial output yields no message');
    assert.ok(one(heard, 'span.model_request_end'));
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
  },

  /** Open the stream, list the history, drop what was listed: nothing missed, nothing twice. */
  async 'stream.reconnect'(w) {
    const steps = [0, 1, 2, 3, 4, 5].map((n) => ({ calls: [call('bash', { command: `echo ${n}` })] }));
    const talk = await w.talk([toolset()]);
    await talk.say([...steps, { text: 'End.' }]);
    const known = new Map();
    const over = () => [...known.values()].some((event) => event.type === 'session.status_idle');
    while (!over()) {
      const again = await w.follow(talk.id);
      for (const event of await w.history(talk.id)) known.set(event.id, event);
      // Three new events, then the connection is lost again.
      for (let n = 0; n < 3 && !over(); n++) {
        const [event] = await again.until(() => true);
        if (event.processed_at) known.set(event.id, event);
      }
      again.close();
    }
    await talk.idle();
    talk.close();
    const listed = await w.history(talk.id);
    const settled = [...known.values()].filter((event) => event.processed_at);
    assert.deepEqual(new Set(ids(settled)), new Set(ids(listed)));
    assert.equal(text(of(listed, 'agent.message').at(-1)), 'End.');
  },

  /** Every frame of a logged event has an id; going on from any of them gives exactly the rest. */
  async 'stream.last_event_id'(w) {
    const talk = await w.talk([toolset()]);
    await talk.turn([{ calls: [call('bash', { command: 'echo hi' })] }, { text: 'Done.' }]);
    talk.close();
    const read = (position) => frames(w, talk.id, position);
    const all = await read('0');
    assert.deepEqual(all.map((frame) => frame.event), ids(await w.history(talk.id)));
    const positions = all.map((frame) => Number(frame.position));
    assert.deepEqual(positions, [...new Set(positions)].sort((a, b) => a - b));
    for (let n = 0; n < all.length - 1; n += 2) {
      assert.deepEqual(await read(all[n].position), all.slice(n + 1));
    }
    for (const bad of ['x', '-1', String(positions.at(-1) + 1000)]) {
      const options = { headers: { 'Last-Event-ID': bad } };
      await refused(w.api.sessions.events.stream(talk.id, {}, options), 'BadRequestError');
    }
  },

  async 'stream.many_readers'(w) {
    const talk = await w.talk();
    const others = await Promise.all(Array.from({ length: 8 }, () => w.follow(talk.id)));
    await talk.turn([{ text: 'To all.' }]);
    for (const other of others) {
      assert.deepEqual(ids(await other.idle()), ids(talk.heard));
      other.close();
    }
    talk.close();
  },

  async 'stream.over_turns'(w) {
    const talk = await w.talk();
    for (let n = 0; n < 3; n++) {
      const heard = await talk.turn([{ text: `Turn ${n}.` }]);
      assert.equal(text(one(heard, 'agent.message')), `Turn ${n}.`);
      one(heard, 'session.status_running');
    }
    talk.close();
  },

  async 'stream.no_backlog'(w) {
    const talk = await w.talk();
    await talk.turn([{ text: 'Before.' }]);
    const late = await w.follow(talk.id);
    await talk.send(message([{ text: 'After.' }]));
    assert.deepEqual(of(await late.idle(), 'agent.message').map(text), ['After.']);
    late.close();
    talk.close();
  },
};

/** Reads the position and the event id of each frame up to the end of the turn. */
async function frames(w, id, position) {
  const options = { headers: { 'Last-Event-ID': position } };
  const response = await w.raw.beta.sessions.events.stream(id, {}, options).asResponse();
  const decoder = new TextDecoder();
  const found = [];
  let rest = '';
  for await (const chunk of response.body) {
    rest += decoder.decode(chunk, { stream: true });
    const whole = rest.split('\n\n');
    rest = whole.pop();
    for (const frame of whole) {
      const field = (name) => frame.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field('event') === 'ping') {
        assert.equal(field('id'), undefined);
        continue;
      }
      const event = JSON.parse(field('data'));
      assert.equal(field('event'), event.type);
      found.push({ position: field('id'), event: event.id });
      if (event.type === 'session.status_idle') return found;
    }
  }
  throw new Error(`the stream ended: ${JSON.stringify(found)}`);
}
