// When the model fails.

import assert from 'node:assert/strict';
import { refused } from '../client.mjs';
import { of, one, text, types } from '../world.mjs';

export default {
  async 'model.error.retried'(w) {
    const talk = await w.talk();
    const heard = await talk.turn([{ text: 'At last.', error: { status: 529, times: 2, retry_after_ms: 20 } }]);
    talk.close();
    const errors = of(heard, 'session.error').map((event) => event.error);
    assert.ok(errors.length && errors.every((error) => error.type === 'model_overloaded_error'));
    assert.ok(errors.every((error) => error.retry_status.type === 'retrying'));
    const order = types(heard);
    const times = (type) => of(heard, type).length;
    assert.ok(order.indexOf('session.error') < order.indexOf('session.status_rescheduled'));
    assert.equal(times('session.status_rescheduled'), times('session.status_running') - 1);
    assert.equal(text(one(heard, 'agent.message')), 'At last.');
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
    const spans = of(heard, 'span.model_request_end').map((event) => Boolean(event.is_error));
    assert.deepEqual(spans, [true, true, false]);
  },

  async 'model.error.midway'(w) {
    const talk = await w.talk([], { event_deltas: ['agent.message'] });
    const heard = await talk.turn([{ content: [{ filler: 50 }], error: { midway: true, times: 1 } }]);
    talk.close();
    const starts = of(heard, 'event_start').map((event) => event.event.id);
    assert.ok(starts.includes(one(heard, 'agent.message').id));
    assert.equal(new Set(starts).size, starts.length, 'a repeat has its own id');
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
  },

  async 'model.error.dropped'(w) {
    const talk = await w.talk();
    const heard = await talk.turn([{ text: 'Whole at last.', error: { drop: true, times: 1 } }]);
    talk.close();
    assert.equal(text(one(heard, 'agent.message')), 'Whole at last.');
  },

  async 'model.error.exhausted'(w) {
    const talk = await w.talk();
    let heard = await talk.turn([{ text: 'Never.', error: { status: 429, retry_after_ms: 5 } }]);
    const errors = of(heard, 'session.error').map((event) => event.error);
    assert.ok(errors.every((error) => error.type === 'model_rate_limited_error'));
    assert.equal(errors.at(-1).retry_status.type, 'exhausted');
    assert.equal(heard.at(-1).stop_reason.type, 'retries_exhausted');
    heard = await talk.turn([{ text: 'Well again.' }]);
    talk.close();
    assert.equal(text(one(heard, 'agent.message')), 'Well again.');
    assert.equal(heard.at(-1).stop_reason.type, 'end_turn');
  },

  /** What no retry can mend ends the turn at once, in words, and the session goes on. */
  async 'model.error.not_retryable'(w) {
    const talk = await w.talk();
    let heard = await talk.turn([{ error: { status: 400, message: 'No such thing.' } }]);
    const { error } = of(heard, 'session.error').at(-1);
    assert.deepEqual([error.type, error.retry_status.type], ['model_request_failed_error', 'exhausted']);
    assert.ok(error.message);
    assert.equal(heard.at(-1).stop_reason.type, 'retries_exhausted');
    heard = await talk.turn([{ text: 'On we go.' }]);
    talk.close();
    assert.equal(text(one(heard, 'agent.message')), 'On we go.');
  },

  async 'model.error.billing'(w) {
    const talk = await w.talk();
    const { error } = one(await talk.turn([{ error: { status: 402 } }]), 'session.error');
    talk.close();
    assert.equal(error.type, 'billing_error');
    assert.ok(['exhausted', 'terminal'].includes(error.retry_status.type));
  },

  /** A model that nothing here serves is refused where it is named. */
  async 'model.unknown'(w) {
    const model = 'no-such-model';
    assert.ok((await refused(w.agent({ model }), 'BadRequestError')).message.includes(model));
    const agent = await w.agent();
    const override = { type: 'agent_with_overrides', id: agent.id, model };
    const work = w.api.sessions.create({ agent: override, environment_id: await w.environment() });
    assert.ok((await refused(work, 'BadRequestError')).message.includes(model));
  },
};
