// The Messages API, by the same client and the same key.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { call, script } from '../world.mjs';

/** A request whose conversation has its own script. */
const asked = (steps, more = {}) => ({
  model: 'scripted',
  max_tokens: 200,
  messages: [{ role: 'user', content: script(steps) }],
  ...more,
});

const texts = (message) => message.content.map((block) => block.text);

export default {
  async 'messages.create'(w) {
    const message = await w.messages.create(asked([{ text: 'Hello.' }]));
    assert.deepEqual([message.role, message.stop_reason], ['assistant', 'end_turn']);
    assert.deepEqual(texts(message), ['Hello.']);
    assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
    assert.match(message._request_id, /^req_/);
  },

  async 'messages.create.tools'(w) {
    const tools = [{ name: 'lookup', input_schema: { type: 'object' } }];
    const request = asked([{ calls: [call('lookup', { word: 'sea' })] }, { text: 'Found.' }], { tools });
    const first = await w.messages.create(request);
    assert.equal(first.stop_reason, 'tool_use');
    const use = first.content.find((block) => block.type === 'tool_use');
    assert.deepEqual([use.name, use.input], ['lookup', { word: 'sea' }]);
    const result = { type: 'tool_result', tool_use_id: use.id, content: 'wide' };
    request.messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: [result] });
    assert.deepEqual(texts(await w.messages.create(request)), ['Found.']);
  },

  async 'messages.create.stream'(w) {
    const stream = await w.messages.create(asked([{ text: 'Hello.' }], { stream: true }));
    const heard = [];
    for (let event = await stream.next(); event; event = await stream.next()) heard.push(event);
    const kinds = heard.map((event) => event.type).filter((type) => type !== 'ping');
    assert.equal(kinds[0], 'message_start');
    assert.deepEqual(kinds.slice(-2), ['message_delta', 'message_stop']);
    const deltas = heard.filter((event) => event.type === 'content_block_delta');
    assert.equal(deltas.map((event) => event.delta.text).join(''), 'Hello.');
  },

  async 'messages.stream'(w) {
    const [text, message] = await w.streamed(asked([{ text: 'Hello, slowly.' }]));
    assert.equal(text, 'Hello, slowly.');
    assert.equal(message.stop_reason, 'end_turn');
    assert.ok(message.usage.output_tokens > 0);
  },

  async 'messages.count_tokens'(w) {
    const { max_tokens: _, ...request } = asked([{ text: 'Hello.' }]);
    assert.ok((await w.messages.countTokens(request)).input_tokens > 0);
  },

  /** Refusals of the model and of the server are the client's own classes. */
  async 'messages.error'(w) {
    let work = w.messages.create(asked([{ error: { status: 400, message: 'No such thing.' } }]));
    assert.ok((await refused(work, 'BadRequestError')).message.includes('No such thing.'));
    work = w.messages.create({ ...asked([]), model: 'no-such-model' });
    assert.ok((await refused(work, 'NotFoundError')).message.includes('no-such-model'));
  },

  /** What passes by itself is sent again by the client, as the model's own headers say. */
  async 'messages.error.retried'(w) {
    const error = { status: 529, times: 1, retry_after_ms: 20 };
    assert.deepEqual(texts(await w.messages.create(asked([{ text: 'At last.', error }]))), ['At last.']);
  },

  async 'models.list'(w) {
    const listed = await (await w.models.list()).all();
    assert.ok(listed.some((model) => model.id === 'scripted'));
    const model = await w.models.retrieve('scripted');
    assert.equal(model.type, 'model');
    assert.ok(model.display_name);
    await refused(w.models.retrieve('no-such-model'), 'NotFoundError');
  },
};
