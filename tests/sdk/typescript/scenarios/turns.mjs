// Turns: what the agent says, and how it can end.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { asking, call, ids, message, of, one, text, toolset, types } from '../world.mjs';

const bash = (command) => call('bash', { command });

export default {
  async 'turn.thinking'(w) {
    const talk = await w.talk();
    const heard = await talk.turn([{ thinking: 'A secret thought.', text: 'Out loud.' }]);
    talk.close();
    assert.ok(!JSON.stringify(one(heard, 'agent.thinking')).includes('secret'));
    const order = types(heard);
    assert.ok(order.indexOf('agent.thinking') < order.indexOf('agent.message'));
  },

  async 'turn.refusal'(w) {
    const talk = await w.talk();
    const refusal = { category: 'cyber', explanation: 'Not that.' };
    const idle = (await talk.turn([{ text: 'I', refusal }])).at(-1);
    assert.equal(idle.stop_reason.type, 'refusal');
    assert.deepEqual(idle.stop_details, { type: 'refusal', ...refusal });
    const after = await talk.turn([{ text: 'Something else.' }]);
    talk.close();
    assert.equal(after.at(-1).stop_reason.type, 'end_turn');
  },

  /** An answer that was cut off is still an answer; a call that was cut off is an error to the model. */
  async 'turn.max_tokens'(w) {
    const talk = await w.talk([toolset()]);
    let heard = await talk.turn([{ text: 'Half a sent', stop: 'max_tokens' }]);
    assert.equal(text(one(heard, 'agent.message')), 'Half a sent');
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
    const cut = { calls: [call('write', { file_path: 'a', content: 'long' })], cut: 12 };
    heard = await talk.turn([cut, { text: 'I was told: {{results}}' }]);
    talk.close();
    assert.ok(text(of(heard, 'agent.message').at(-1)).includes('I was told: '));
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
  },

  async 'turn.pause_turn'(w) {
    const talk = await w.talk();
    const heard = await talk.turn([{ text: 'One.', stop: 'pause_turn' }, { text: 'Two.' }]);
    talk.close();
    assert.deepEqual(of(heard, 'agent.message').map(text), ['One.', 'Two.']);
    assert.equal(of(heard, 'span.model_request_start').length, 2);
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
  },

  /** What is sent during a turn waits, then is taken in, in order; nothing is left behind. */
  async 'turn.messages_during'(w) {
    const talk = await w.talk([toolset()]);
    await talk.say([{ calls: [bash('sleep 1; echo slow')] }, { text: 'A: {{user}}' }]);
    await talk.until('agent.tool_use');
    const accepted = await talk.send(message('first'), message('second'));
    assert.deepEqual(accepted.map((event) => event.processed_at), [null, null]);
    await talk.idle();
    while ((await w.api.sessions.retrieve(talk.id)).status === 'running') await talk.idle();
    talk.close();
    const listed = await w.history(talk.id);
    const messages = of(listed, 'user.message');
    assert.deepEqual(messages.slice(1).map(text), ['first', 'second']);
    assert.ok(messages.every((event) => event.processed_at));
    const place = (id) => listed.findIndex((event) => event.id === id);
    const result = of(talk.heard, 'agent.tool_result')[0];
    assert.ok(place(messages[1].id) > place(result.id), 'never in the middle of the turn');
  },

  async 'turn.system_message'(w) {
    const note = { type: 'system.message', content: [{ type: 'text', text: 'It is late.' }] };
    const talk = await w.talk();
    const accepted = await talk.send(message([{ text: '{{messages}} messages' }]), note);
    const heard = await talk.idle();
    assert.deepEqual(types(accepted), ['user.message', 'system.message']);
    const placed = of(heard, 'system.message').filter((event) => event.processed_at);
    assert.deepEqual(placed.map(text), ['It is late.']);
    assert.equal(text(one(heard, 'agent.message')), '2 messages');
    await refused(talk.send(note, message('after')), 'BadRequestError');
    talk.close();
  },

  async 'turn.interrupt.running'(w) {
    const talk = await w.talk();
    await talk.say([{ content: [{ filler: 5000 }], pace: { tokens: 1, ms: 50 } }]);
    await talk.until('span.model_request_start');
    await talk.send({ type: 'user.interrupt' }, message([{ text: 'Instead.' }]));
    let heard = await talk.idle();
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
    assert.deepEqual(of(heard, 'agent.message'), []);
    assert.ok(one(heard, 'span.model_request_end'));
    const order = types(heard.filter((event) => event.processed_at));
    assert.ok(order.includes('user.interrupt'));
    heard = await talk.idle();
    talk.close();
    assert.equal(text(one(heard, 'agent.message')), 'Instead.');
  },

  async 'turn.interrupt.tool'(w) {
    const talk = await w.talk([toolset()]);
    await talk.say([{ calls: [bash('echo begun; sleep 600')] }]);
    const use = (await talk.until('agent.tool_use')).at(-1);
    await talk.send({ type: 'user.interrupt' });
    let heard = await talk.idle();
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
    const result = one(heard, 'agent.tool_result');
    assert.deepEqual([result.tool_use_id, result.is_error], [use.id, true]);
    assert.match(text(result), /interrupt/i);
    heard = await talk.turn([{ calls: [bash('echo again')] }, { text: 'Ok.' }]);
    talk.close();
    assert.equal(text(one(heard, 'agent.tool_result')).trim(), 'again');
  },

  async 'turn.interrupt.requires_action'(w) {
    const talk = await w.talk([asking()]);
    let heard = await talk.turn([{ calls: [bash('true'), call('glob', { pattern: '*' })] }]);
    const uses = ids(of(heard, 'agent.tool_use'));
    assert.deepEqual(heard.at(-1).stop_reason, { type: 'requires_action', event_ids: uses });
    await talk.send({ type: 'user.interrupt' });
    heard = await talk.idle();
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
    const results = of(heard, 'agent.tool_result');
    assert.deepEqual(new Set(results.map((event) => event.tool_use_id)), new Set(uses));
    assert.ok(results.every((event) => event.is_error));
    assert.deepEqual(of(heard, 'span.model_request_start'), [], 'the model is not called');
    // A message is always accepted afterwards.
    heard = await talk.turn([{ text: 'Back.' }]);
    talk.close();
    assert.equal(text(one(heard, 'agent.message')), 'Back.');
  },

  async 'turn.redacted'(w) {
    const said = ['user.message', 'agent.tool_use', 'agent.tool_result', 'agent.message'];
    const talk = await w.talk([toolset()]);
    await talk.turn([{ calls: [call('bash', { command: 'echo canary' })] }, { text: 'A canary.' }]);
    const before = await w.history(talk.id);
    const ids = before.filter((event) => said.includes(event.type)).map((event) => event.id);
    assert.equal(ids.length, 4);
    const body = { event_ids: ids, because: 'a scenario' };
    const answer = await w.raw.post(`/outlast/v1/sessions/${talk.id}/redact`, { body });
    assert.deepEqual(answer.event_ids, ids);
    const after = await w.history(talk.id);
    await talk.turn([{ text: 'Goes on.' }]);
    talk.close();
    assert.deepEqual(after.map((event) => event.id), before.map((event) => event.id));
    assert.deepEqual(types(after), types(before));
    const again = await w.follow(talk.id, {}, { headers: { 'Last-Event-ID': '0' } });
    const heard = await again.until((event) => event.id === after.at(-1).id);
    again.close();
    const told = [...after, ...heard].filter((event) => said.includes(event.type));
    assert.ok(told.length >= 8);
    assert.doesNotMatch(JSON.stringify(told), /canary/);
  },

  async 'turn.usage'(w) {
    const usage = {
      input_tokens: 10,
      output_tokens: 20,
      cache_read_input_tokens: 30,
      cache_creation_input_tokens: 40,
      ephemeral_5m_input_tokens: 40,
    };
    const talk = await w.talk();
    const turns = [await talk.turn([{ text: 'One.', usage }]), await talk.turn([{ text: 'Two.', usage }])];
    talk.close();
    const span = one(turns[1], 'span.model_request_end').model_usage;
    assert.deepEqual([span.cache_read_input_tokens, span.cache_creation_input_tokens], [30, 40]);
    for (const [n, heard] of turns.entries()) {
      const total = one(heard, 'session.usage').usage;
      const figures = [total.input_tokens, total.output_tokens, total.cache_read_input_tokens];
      assert.deepEqual(figures, [10, 20, 30].map((figure) => figure * (n + 1)));
      const made = { ephemeral_5m_input_tokens: 40 * (n + 1), ephemeral_1h_input_tokens: 0 };
      assert.deepEqual({ ...total.cache_creation }, made);
    }
    assert.equal((await w.api.sessions.retrieve(talk.id)).usage.output_tokens, 40);
  },
};
